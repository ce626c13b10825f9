package proxy

import (
	"strconv"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// What a write depends on can't be told from the server's flags alone; these tables say it.

// atomics are updates that the server computes from the value it finds, so that no earlier read
// of the client's can be stale in them: they wait for a holder and are never refused as stale.
var atomics = map[string]struct{}{
	// add to what is there, whatever it is
	"append": {}, "rpush": {}, "lpush": {}, "rpushx": {}, "lpushx": {}, "sadd": {}, "pfadd": {}, "xadd": {},
	"json.arrappend": {}, "json.strappend": {},
	// count from what is there
	"incr": {}, "decr": {}, "incrby": {}, "decrby": {}, "incrbyfloat": {},
	"hincrby": {}, "hincrbyfloat": {}, "zincrby": {}, "json.numincrby": {}, "json.nummultby": {},
	// set if absent: the condition is checked by the server
	"setnx": {}, "hsetnx": {}, "msetnx": {},
	// take a named member out, if it is there
	"srem": {}, "zrem": {}, "xdel": {},
	// wait for whatever comes, and take it
	"blpop": {}, "brpop": {}, "blmpop": {}, "blmove": {}, "brpoplpush": {}, "bzpopmin": {}, "bzpopmax": {}, "bzmpop": {},
	// the server keeps the group's place
	"xack": {}, "xreadgroup": {}, "xautoclaim": {}, "xclaim": {},
}

// looks are commands that the server counts as writes and that give the client a value to go on
// from, without changing it: they begin a sequence as a read does.
var looks = map[string]struct{}{"getex": {}, "pfcount": {}}

// isTouch reports whether a command only moves a key's expiry into the future or takes it away:
// it changes no value, so it neither waits nor ends or breaks a sequence.
func isTouch(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "persist":
		return true
	case "expire", "pexpire", "expireat", "pexpireat":
	default:
		return false
	}
	if len(args) < 3 {
		return true // the server refuses it
	}
	n, err := strconv.ParseInt(string(args[2]), 10, 64)
	if err != nil {
		return true // likewise
	}
	if strings.HasSuffix(cmd.Name, "at") {
		return false // whether that moment has passed is for the server's clock to say
	}
	return n > 0
}
