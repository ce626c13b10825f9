package proxy

import (
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Of a command that was carried out, but whose reply is lost, the reply may be known all the same: since it is always the same,
// or since it tells what the value is now, which nobody has written since.

const okReply = "+OK\r\n"

// answer returns the reply that a commit has had which was applied; nil if that is not known. probe is the answer to what was
// asked along, if anything was.
func (l *lostWrite) answer(probe *redis.Cmd) []byte {
	calls := l.calls()
	switch {
	case l.now || l.once != nil || l.lists || len(calls) == 0:
		return nil
	case l.tx == nil && alwaysOK(calls[0]):
		return []byte(okReply)
	case l.tx == nil && probe != nil:
		return derived(calls[0], probe)
	case l.tx == nil:
		return nil
	}
	all := resp.AppendArray(nil, len(calls))
	for _, args := range calls {
		if !alwaysOK(args) {
			return nil
		}
		all = append(all, okReply...)
	}
	return all
}

// probe returns the command that is asked along with the record, nil if none tells the reply.
func (l *lostWrite) probe() []any {
	if l.tx != nil || l.now || l.once != nil {
		return nil
	}
	calls := l.calls()
	if len(calls) == 0 {
		return nil
	}
	by, known := tellers[strings.ToLower(string(calls[0][0]))]
	if !known || len(calls[0]) <= by.args {
		return nil
	}
	probe := []any{by.command}
	for _, arg := range calls[0][1 : 1+by.args] {
		probe = append(probe, arg)
	}
	return probe
}

// calls are the client's commands.
func (l *lostWrite) calls() (calls [][][]byte) {
	parser := resp.NewRequestParser(resp.Limits{})
	for raw := l.raw; len(raw) > 0; {
		req, n, err := parser.Next(raw)
		if err != nil || n == 0 {
			return nil
		}
		raw = raw[n:]
		if len(req.Args) > 0 {
			calls = append(calls, deepClone(req.Args))
		}
	}
	return calls
}

// alwaysOK reports whether Redis answers a call with OK whatever it finds.
func alwaysOK(args [][]byte) bool {
	switch strings.ToLower(string(args[0])) {
	case "set":
		return len(args) >= 3 && plainSet(args[3:])
	case "setex", "psetex":
		return len(args) == 4 && isPeriod(args[2])
	case "mset":
		return len(args) >= 3 && len(args)%2 == 1
	}
	return false
}

// plainSet reports whether options of SET neither make it depend on what is there nor ask for it.
func plainSet(options [][]byte) bool {
	switch {
	case len(options) == 0:
		return true
	case len(options) == 1:
		return isWord(options[0], "KEEPTTL")
	}
	return len(options) == 2 && (isWord(options[0], "EX") || isWord(options[0], "PX")) && isPeriod(options[1])
}

// isPeriod reports whether Redis surely takes an argument for a time to live.
func isPeriod(arg []byte) bool {
	n, err := strconv.ParseUint(string(arg), 10, 32)
	return err == nil && n > 0
}

// teller is a command that tells what another one has answered.
type teller struct {
	command string
	args    int  // those of the other one that it has, from the first on
	count   bool // it is answered with a number
	adds    int  // … which is not below that of the other's arguments from here on, or, if bytes, the length of the last one; 0: any
	bytes   bool
}

// tellers are the commands that tell the reply of others, by the names of these.
var tellers = map[string]teller{
	"rpush":        {command: "LLEN", args: 1, count: true, adds: 2},
	"lpush":        {command: "LLEN", args: 1, count: true, adds: 2},
	"append":       {command: "STRLEN", args: 1, count: true, adds: 2, bytes: true},
	"incr":         {command: "GET", args: 1, count: true},
	"decr":         {command: "GET", args: 1, count: true},
	"incrby":       {command: "GET", args: 1, count: true},
	"decrby":       {command: "GET", args: 1, count: true},
	"incrbyfloat":  {command: "GET", args: 1},
	"hincrby":      {command: "HGET", args: 2, count: true},
	"hincrbyfloat": {command: "HGET", args: 2},
}

// derived returns the reply to a call by what was asked along; nil if that does not tell: the key may have expired, or the
// call failed.
func derived(args [][]byte, probe *redis.Cmd) []byte {
	by, known := tellers[strings.ToLower(string(args[0]))]
	if !known || probe.Err() != nil {
		return nil
	}
	text, err := probe.Text()
	n, numErr := strconv.ParseInt(text, 10, 64)
	if number, isNumber := probe.Val().(int64); isNumber {
		n, err, numErr = number, nil, nil
	}
	switch {
	case err != nil, by.count && numErr != nil:
		return nil
	case !by.count:
		return resp.AppendBulk(nil, []byte(text))
	case by.bytes && n < int64(len(args[len(args)-1])), !by.bytes && by.adds > 0 && n < int64(len(args)-by.adds):
		return nil
	}
	return resp.AppendInt(nil, n)
}
