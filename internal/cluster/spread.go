package cluster

import (
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/slot"
)

// Commands that are carried out at several nodes. Each is carried out there by itself: together they are not atomic.

// split says how a command with keys of several slots becomes several commands.
type split struct {
	step  int // arguments of a key
	merge func(replies [][]byte) []byte
}

// splits are the commands that are. All others get Redis's own CROSSSLOT.
var splits = map[string]split{
	"mget":   {1, nil}, // its values go back to their places
	"mset":   {2, firstGood},
	"del":    {1, fold(add)},
	"unlink": {1, fold(add)},
	"exists": {1, fold(add)},
	"touch":  {1, fold(add)},
}

// spread carries out what concerns several nodes. done is false for all else.
func (f *front) spread(cmd *command.Command, r *request) (done bool, err error) {
	if s, ok := splits[cmd.Name]; ok {
		return f.split(cmd, s, r), nil
	}
	switch cmd.Name {
	case "scan":
		return true, f.scan(r)
	case "info":
		return true, f.one(r, standalone)
	case "script|load":
		if len(r.args) == 3 {
			f.c.scripts.learn(r.args[2])
		}
	case "script|flush":
		f.c.scripts.clear()
	case "client|kill":
		f.c.killed.Store(now().UnixNano())
	}
	merge := spreads(cmd)
	if merge == nil {
		return false, nil
	}
	f.all(r, merge, repeats(cmd, r.args))
	return true, nil
}

// spreads says how the replies to a command that goes to all primaries become one; nil if it goes to one node.
func spreads(cmd *command.Command) func(replies [][]byte) []byte {
	switch cmd.Name {
	case "ping", "info", "wait", "waitaof":
		return nil // one node's answer is as good, or means more
	case "randomkey":
		return anyValue
	case "keys", "pubsub|channels", "pubsub|shardchannels":
		return concat
	case "pubsub|numsub", "pubsub|shardnumsub":
		return addPairs
	case "pubsub|numpat":
		return fold(add)
	case "config|resetstat":
		return firstGood
	}
	if cmd.Request != "all_shards" && cmd.Request != "all_nodes" {
		return spreadsOld(cmd)
	}
	switch cmd.Response {
	case "all_succeeded":
		return firstGood
	case "one_succeeded":
		return anyGood
	case "agg_sum":
		return fold(add)
	case "agg_min", "agg_logical_and":
		return fold(func(a, b int64) int64 { return min(a, b) })
	case "agg_max", "agg_logical_or":
		return fold(func(a, b int64) int64 { return max(a, b) })
	}
	return nil
}

// spreadsOld is spreads for servers before Redis 7.0, which know containers, but not their commands, and give no advice.
func spreadsOld(cmd *command.Command) func(replies [][]byte) []byte {
	if builtin := builtins()[cmd.Name]; builtin != nil && cmd.Request == "" && builtin.Request != "" {
		return spreads(builtin)
	}
	return nil
}

// split sends a command's keys to their nodes, by slots. It reports false if they are of one slot, or the call is not well formed.
func (f *front) split(cmd *command.Command, s split, r *request) bool {
	keys := r.args[1:]
	if len(keys) == 0 {
		return false
	}
	if len(keys)%s.step != 0 { // a node would look at the slots first
		f.say(resp.AppendError(nil, "ERR wrong number of arguments for '"+strings.ToLower(string(r.args[0]))+"' command"), false)
		return true
	}
	first := slot.Of(keys[0])
	several := false
	for i := s.step; i < len(keys) && !several; i += s.step {
		several = slot.Of(keys[i]) != first
	}
	if !several {
		return false
	}
	places := map[int][]int{}
	var order []int
	for i := 0; i < len(keys); i += s.step {
		at := slot.Of(keys[i])
		if places[at] == nil {
			order = append(order, at)
		}
		places[at] = append(places[at], i)
	}
	j := newJob(len(order), s.merge)
	if s.merge == nil {
		j.merge = func(replies [][]byte) []byte { return scatter(replies, order, places, len(keys)) }
	}
	for i, at := range order {
		f.args = append(f.args[:0], r.args[0])
		for _, place := range places[at] {
			f.args = append(f.args, keys[place:place+s.step]...)
		}
		raw := resp.AppendCommand(nil, f.args...)
		c, again := f.connOf(at)
		if s.step == 2 || strings.EqualFold(string(r.args[0]), "del") {
			f.written = c
		}
		f.put(&entry{kind: part, slot: int32(at), c: c, raw: raw, again: again, job: j, at: i, repeats: repeats(cmd, r.args)})
	}
	clear(f.args)
	return true
}

// scatter makes one array of the arrays of each slot.
func scatter(replies [][]byte, order []int, places map[int][]int, keys int) []byte {
	return orError(replies, func() []byte {
		values := make([][]byte, keys)
		size := 0
		for i, r := range replies {
			_, head, ok := header(r)
			if !ok {
				return r
			}
			size += len(r)
			var framer resp.Framer
			for _, place := range places[order[i]] {
				n, done, err := framer.Scan(r[head:])
				if err != nil || !done {
					return resp.AppendError(nil, "ERR fence-proxy: a node has answered with fewer values than it was asked for")
				}
				values[place] = r[head : head+n]
				head += n
			}
		}
		out := resp.AppendArray(make([]byte, 0, size+16), keys)
		for _, v := range values {
			out = append(out, v...)
		}
		return out
	})
}

// all sends a command to all primaries. repeats is the entries'.
func (f *front) all(r *request, merge func(replies [][]byte) []byte, repeats bool) {
	raw := append([]byte(nil), r.raw...)
	j := newJob(len(f.topology.primaries), merge)
	for i, n := range f.topology.primaries {
		e := entry{kind: part, slot: elsewhere, raw: raw, job: j, at: i, repeats: repeats}
		if c, err := f.at(n); err != nil {
			e.again = unreached(n, err)
			e.again.last = true
		} else {
			e.c = c
		}
		f.put(&e)
	}
}

// elsewhere is the slot of what goes to a certain node, and nowhere else.
const elsewhere = -2

// one sends a command to the node that gets what has no keys, and rewrites what it answers.
func (f *front) one(r *request, rewrite func(reply []byte) []byte) error {
	c, again := f.connOf(noKeys)
	if c == nil && f.over() {
		return f.why()
	}
	j := newJob(1, func(replies [][]byte) []byte { return rewrite(replies[0]) })
	f.put(&entry{kind: part, slot: noKeys, c: c, raw: append([]byte(nil), r.raw...), again: again, job: j})
	return nil
}

// standalone rewrites an INFO of a node of a cluster.
func standalone(reply []byte) []byte {
	v, _, err := resp.ParseValue(reply)
	if err != nil || v.Type != '$' && v.Type != '=' || v.Null {
		return reply
	}
	text := strings.Replace(string(v.Str), "redis_mode:cluster\r\n", "redis_mode:standalone\r\n", 1)
	text = strings.Replace(text, "cluster_enabled:1\r\n", "cluster_enabled:0\r\n", 1)
	out := resp.AppendBulkString(nil, text)
	out[0] = v.Type
	return out
}

// addPairs adds up what nodes say of the same channels: names and numbers by turns.
func addPairs(replies [][]byte) []byte {
	return orError(replies, func() []byte {
		var names [][]byte
		var sums []int64
		for i, r := range replies {
			v, _, err := resp.ParseValue(r)
			if err != nil {
				return r
			}
			for k := 0; k+1 < len(v.Elems); k += 2 {
				if i == 0 {
					names, sums = append(names, v.Elems[k].Str), append(sums, 0)
				}
				if k/2 < len(sums) {
					sums[k/2] += v.Elems[k+1].Int
				}
			}
		}
		out := append([]byte(nil), replies[0][:1]...)
		if out[0] == '*' {
			out = resp.AppendArray(nil, 2*len(names))
		} else {
			out = resp.AppendMap(nil, len(names), true)
		}
		for i, name := range names {
			out = resp.AppendInt(resp.AppendBulk(out, name), sums[i])
		}
		return out
	})
}
