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

// isAtomic reports whether a call is an atomic update.
func isAtomic(cmd *command.Command, args [][]byte) bool {
	_, ok := atomics[cmd.Name]
	return ok || isCap(cmd, args)
}

// isCap reports whether a call only bounds a list to its first or last elements, however many there are: what
// others have added since it was read is treated as it would have been then.
func isCap(cmd *command.Command, args [][]byte) bool {
	if cmd.Name != "ltrim" || len(args) != 4 {
		return false
	}
	start, err := strconv.ParseInt(string(args[2]), 10, 64)
	stop, err2 := strconv.ParseInt(string(args[3]), 10, 64)
	return err == nil && err2 == nil && (start == 0 && stop >= 0 || start < 0 && stop == -1)
}

// isLook reports whether a call that the server counts as a write is a read: it changes neither the
// value nor its expiry, so it may be sent before it is granted, and again.
func isLook(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "pfcount": // it may write the count down beside the value
		return true
	case "getex":
		return len(args) == 2
	}
	return false
}

// isReading reports whether a write gives the client a value to go on from, so that it begins a sequence as a
// read does. atomic says that it changes no value: with a moment, the key may go at once.
func isReading(cmd *command.Command, args [][]byte) (reading, atomic bool) {
	if cmd.Name != "getex" || len(args) == 2 {
		return false, false
	}
	return true, !has(args[2:], "EXAT") && !has(args[2:], "PXAT")
}

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
