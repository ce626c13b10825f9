package proxy

import (
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A kept reply is given to clients of either protocol. Lua tells neither null from null array nor, in RESP2, a double from a
// text, so what Redis would say of the command itself is known by its name.

// typedReplies are the writes that Redis answers in other types where RESP3 is spoken: their replies are kept as RESP3.
var typedReplies = map[string]struct{}{
	"zadd": {}, "zincrby": {}, "zpopmin": {}, "zpopmax": {}, "zmpop": {}, // doubles
	"spop": {}, // a set
}

// spoken is how a kept reply is said to a client.
type spoken struct {
	resp3 bool // the client's protocol
	pairs bool // in RESP2 what is paired comes in one list
	list  bool // nothing is a null list in RESP2
}

// speaks returns how the reply to a call is said to the client.
func (c *client) speaks(cmd *command.Command, args [][]byte) spoken {
	s := spoken{resp3: c.state.proto == 3}
	switch cmd.Name {
	case "zpopmin", "zpopmax":
		s.pairs = true
	case "lpop", "rpop":
		s.list = len(args) > 2
	case "lmpop", "zmpop":
		s.list = true
	}
	return s
}

// reply returns a kept reply as the client hears it.
func (s spoken) reply(kept []byte) []byte {
	v, _, err := resp.ParseValue(kept)
	if err != nil {
		return kept
	}
	if s.pairs && !s.resp3 {
		flat := v.Elems[:0:0]
		for _, e := range v.Elems {
			if e.Type == '*' {
				flat = append(flat, e.Elems...)
			} else {
				flat = append(flat, e)
			}
		}
		v.Elems = flat
	}
	return s.append(nil, v)
}

func (s spoken) append(dst []byte, v resp.Value) []byte {
	switch {
	case v.Null && s.list:
		return resp.AppendNullArray(dst, s.resp3)
	case v.Null:
		return resp.AppendNull(dst, s.resp3)
	case v.Type == '~':
		return s.appendAll(resp.AppendSet(dst, len(v.Elems), s.resp3), v.Elems)
	case v.Type == '*':
		return s.appendAll(resp.AppendArray(dst, len(v.Elems)), v.Elems)
	case v.Type == ',':
		return resp.AppendDouble(dst, v.Str, s.resp3)
	case v.Type == '$':
		return resp.AppendBulk(dst, v.Str)
	case v.Type == ':':
		return resp.AppendInt(dst, v.Int)
	case v.IsError():
		return resp.AppendError(dst, strings.TrimSpace(string(v.Str)))
	}
	return resp.AppendSimple(dst, string(v.Str))
}

func (s spoken) appendAll(dst []byte, all []resp.Value) []byte {
	for _, v := range all {
		dst = s.append(dst, v)
	}
	return dst
}
