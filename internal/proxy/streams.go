package proxy

import (
	"bytes"
	"errors"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// errStreamGone says that the stream of an XREADGROUP that blocks was deleted, or has become something else.
var errStreamGone = errors.New("the stream key no longer exists")

// streams completes what is known of an XREAD or XREADGROUP that blocks: it is tried without BLOCK, and
// "$" stands for what is in the stream now. refusal is what Redis says if it can't tell.
func (c *client) streams(w *wait) (refusal []byte, err error) {
	var args [][]byte
	ids := w.calls[0].Index + len(w.calls)
	for i := 0; i < len(w.args); i++ {
		switch {
		case i < w.calls[0].Index && isWord(w.args[i], "BLOCK"):
			i++
			continue
		case i < w.calls[0].Index && isWord(w.args[i], "GROUP"):
			w.group = w.args[i+1]
			args = append(args, w.args[i], w.args[i+1], w.args[i+2])
			i += 2
			continue
		case i >= ids && string(w.args[i]) == "$" && w.group == nil:
			id, refusal, err := c.newest(w, w.args[i-len(w.calls)])
			if err != nil || refusal != nil {
				return refusal, err
			}
			args = append(args, id)
			continue
		}
		args = append(args, w.args[i])
	}
	w.ids = args[len(args)-len(w.calls):]
	w.try = resp.AppendCommand(nil, args...)
	return nil, nil
}

// newest asks for the ID of a stream's newest entry.
func (c *client) newest(w *wait, key []byte) (id, refusal []byte, err error) {
	replies, err := c.ask(w, resp.AppendCommand(nil, []byte("XINFO"), []byte("STREAM"), key), 1)
	if err != nil {
		return nil, nil, err
	}
	v, _, err := resp.ParseValue(replies[0])
	switch {
	case err != nil:
		return nil, nil, err
	case !v.IsError():
		return bytes.Clone(field(v, "last-generated-id")), nil, nil
	case strings.HasPrefix(string(v.Str), "ERR no such key"):
		return []byte("0-0"), nil, nil
	}
	return nil, replies[0], nil
}

// field is a field of a map, which is an array in RESP2.
func field(v resp.Value, name string) []byte {
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if string(v.Elems[i].Str) == name {
			return v.Elems[i+1].Str
		}
	}
	return nil
}

// streamReady reports whether there are entries for an XREAD or XREADGROUP, or something for it to be
// refused for.
func (c *client) streamReady(w *wait) (bool, error) {
	ids := w.ids
	if w.group != nil {
		if w.call == nil {
			return true, nil // it may also ask for what its consumer was given before
		}
		ids = nil
		for _, key := range w.keys {
			id, err := c.delivered(w, key)
			if err != nil || id == nil {
				return true, err
			}
			ids = append(ids, id)
		}
		if w.there = true; !w.tried {
			return true, nil
		}
	}
	args := [][]byte{[]byte("XREAD"), []byte("COUNT"), []byte("1"), []byte("STREAMS")}
	replies, err := c.ask(w, resp.AppendCommand(nil, append(append(args, w.keys...), ids...)...), 1)
	switch {
	case err != nil, isNil(replies[0]):
		return false, err
	default:
		return !w.tried || !isError(replies[0]), nil
	}
}

// delivered asks for the ID of the last entry that a group was given; nil if it can't be told. The command then says why:
// since 7.2 as if it came anew.
func (c *client) delivered(w *wait, key []byte) ([]byte, error) {
	replies, err := c.ask(w, resp.AppendCommand(nil, []byte("XINFO"), []byte("GROUPS"), key), 1)
	if err != nil {
		return nil, err
	}
	v, _, err := resp.ParseValue(replies[0])
	switch {
	case err != nil:
		return nil, err
	case (w.tried || w.there) && v.IsError() && !c.srv.commands.since72():
		return nil, errStreamGone
	}
	for _, g := range v.Elems {
		if bytes.Equal(field(g, "name"), w.group) {
			return bytes.Clone(field(g, "last-delivered-id")), nil
		}
	}
	return nil, nil
}
