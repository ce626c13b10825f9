package observe

import (
	"bytes"
	"hash/maphash"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Call is a command on its way to Redis.
type Call struct {
	DB      int
	Command *command.Command // nil if the server's table does not have it
	Args    [][]byte
	Keys    []command.Key
	Atomic  bool // an update that the server computes from the value it finds
	Look    bool // the server counts it as a write, but it is a read
	Touch   bool // it changes no value, and reads none
	Blocks  bool // it may wait at Redis
}

// effect is what a call does to a key.
type effect uint8

const (
	nothing effect = iota
	reads
	replaces // the whole value
	changes  // parts of it
	updates  // what the server finds
)

func (e effect) writes() bool { return e >= replaces }

// replacers are writes after which nothing of the earlier value is left, or which take it away. Those
// that store a result elsewhere are told by their name.
var replacers = map[string]struct{}{
	"set": {}, "setex": {}, "psetex": {}, "mset": {}, "getset": {}, "restore": {}, "copy": {},
	"del": {}, "unlink": {}, "getdel": {}, "rename": {}, "renamenx": {}, "move": {},
	"expire": {}, "pexpire": {}, // with a time that deletes the key: others are touches
	"sort": {}, "bitop": {}, "pfmerge": {}, "json.mset": {},
}

// blinkers are commands that read a key but not its value.
var blinkers = map[string]struct{}{
	"type": {}, "ttl": {}, "pttl": {}, "expiretime": {}, "pexpiretime": {}, "touch": {}, "dump": {},
	"object|encoding": {}, "object|freq": {}, "object|idletime": {}, "object|refcount": {}, "memory|usage": {}, "watch": {},
}

// of returns what a call does to a key that it accesses so.
func (c *Call) of(access command.Access, writes bool) effect {
	name := c.Command.Name
	_, blinks := blinkers[name]
	_, whole := replacers[name]
	switch {
	case c.Touch || blinks || name == "expireat" || name == "pexpireat":
		return nothing
	case c.Look || access == command.Read && !writes:
		return reads
	case access == command.Read:
		return nothing // the server reads it, the client does not
	case c.Atomic || isScript(name) || c.takes() || name == "set" && has(c.Args, "NX"):
		return updates
	case whole || strings.HasSuffix(name, "store"), strings.HasPrefix(name, "json.") && c.isRoot():
		return replaces
	default:
		return changes
	}
}

// takes reports whether a call takes away what it finds first or last, whatever that is.
func (c *Call) takes() bool {
	switch c.Command.Name {
	case "lpop", "rpop", "lmpop", "spop", "zpopmin", "zpopmax", "zmpop", "rpoplpush", "lmove":
		return true
	case "ltrim": // to the newest so many
		return len(c.Args) == 4 && (string(c.Args[3]) == "-1" && isNegative(c.Args[2]) || string(c.Args[2]) == "0" && !isNegative(c.Args[3]))
	}
	return false
}

// isNegative reports whether an argument, which may be empty, begins with a minus.
func isNegative(arg []byte) bool { return len(arg) > 0 && arg[0] == '-' }

// isScript reports whether a command runs a script: what that does to its keys is not seen.
func isScript(name string) bool {
	switch name {
	case "eval", "evalsha", "fcall":
		return true
	}
	return false
}

// isRoot reports whether a JSON command is about the whole document.
func (c *Call) isRoot() bool {
	switch c.Command.Name {
	case "json.set", "json.merge":
		return len(c.Args) > 2 && (string(c.Args[2]) == "$" || string(c.Args[2]) == ".")
	case "json.del", "json.forget":
		return len(c.Args) < 3 || string(c.Args[2]) == "$" || string(c.Args[2]) == "."
	}
	return false
}

// parts are the parts of a value that a write changes, as hashes; nil for any.
func (c *Call) parts(seed maphash.Seed) []uint64 {
	from, step := 2, 1
	switch c.Command.Name {
	case "hset", "hmset", "hsetnx":
		step = 2
	case "hdel":
	case "zadd":
		for from < len(c.Args) && isZaddOption(c.Args[from]) {
			from++
		}
		from, step = from+1, 2
	case "json.set", "json.merge", "json.del", "json.forget", "lset":
		step = len(c.Args)
	default:
		return nil
	}
	if len(c.Args) <= from || (len(c.Args)-from)/step > maxParts {
		return nil
	}
	var parts []uint64
	for i := from; i < len(c.Args); i += step {
		parts = append(parts, maphash.Bytes(seed, c.Args[i]))
	}
	return parts
}

func isZaddOption(arg []byte) bool {
	for _, option := range []string{"NX", "XX", "GT", "LT", "CH", "INCR"} {
		if command.IsWord(arg, option) {
			return true
		}
	}
	return false
}

// zeroers are writes that say with 0 that they have changed nothing.
var zeroers = map[string]struct{}{
	"del": {}, "unlink": {}, "hdel": {}, "setnx": {}, "msetnx": {}, "hsetnx": {}, "renamenx": {}, "copy": {}, "move": {}, "smove": {},
	"lpushx": {}, "rpushx": {}, "lrem": {}, "sadd": {}, "srem": {}, "zrem": {}, "pfadd": {},
	"zremrangebyscore": {}, "zremrangebyrank": {}, "zremrangebylex": {}, "xdel": {}, "xtrim": {}, "xack": {},
	"json.del": {}, "json.forget": {}, "json.clear": {}, "expire": {}, "pexpire": {},
}

// deed is what is kept of a call until its reply.
type deed struct {
	name   string
	answer bool // it gives the earlier value: a nil does not mean that nothing was changed
	refill bool // … but that it was changed
	blocks bool
	at     int // its place in a transaction
}

func (c *Call) deed() deed {
	d := deed{name: c.Command.Name, blocks: c.Blocks}
	d.answer = d.name == "getset" || d.name == "set" && has(c.Args, "GET") && !has(c.Args, "XX")
	d.refill = d.name == "set" && has(c.Args, "GET") && has(c.Args, "NX")
	return d
}

// failed reports whether a reply is an error.
func failed(reply []byte) bool { return len(reply) == 0 || reply[0] == '-' || reply[0] == '!' }

// void reports whether a reply is nil, or an empty list.
func void(reply []byte) bool {
	switch {
	case bytes.HasPrefix(reply, []byte("$-1\r")), bytes.HasPrefix(reply, []byte("_\r")):
		return true
	case bytes.HasPrefix(reply, []byte("*-1\r")), bytes.HasPrefix(reply, []byte("*0\r")):
		return true
	}
	return false
}

// changed reports whether a write has changed anything, as its reply tells.
func (d *deed) changed(reply []byte) bool {
	switch {
	case failed(reply):
		return false
	case d.refill:
		return void(reply)
	case isScript(d.name), d.answer:
		return true
	case void(reply):
		return false
	case d.name == "linsert":
		return reply[0] == ':' && len(reply) > 1 && reply[1] != '0' && reply[1] != '-'
	}
	if _, ok := zeroers[d.name]; ok {
		return !bytes.HasPrefix(reply, []byte(":0\r"))
	}
	return true
}

func has(args [][]byte, option string) bool {
	for _, a := range args[min(len(args), 3):] {
		if command.IsWord(a, option) {
			return true
		}
	}
	return false
}
