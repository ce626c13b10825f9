package tokenstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// ErrOtherCommand says that an id was used for another command.
var ErrOtherCommand = errors.New("the id was used for another command")

// otherCommand is what once.lua says then.
const otherCommand = "FENCEONCE"

// Once is a command that is to be carried out once. Its reply is kept beside the record of the session that it writes to.
type Once struct {
	key   string
	print string // tells commands apart
	ttl   string
	proto string // of the kept reply, if the store speaks it
	args  [][]byte
}

// NewOnce returns a command that has this id in a session; args stay the caller's. With typed its reply is kept as RESP3,
// where the store speaks that: it must have neither nulls nor maps inside, which Lua can't tell.
func NewOnce(r *Record, id []byte, ttl time.Duration, typed bool, args [][]byte) *Once {
	proto := "2"
	if typed {
		proto = "3"
	}
	h := sha256.New()
	name := strings.ToLower(string(args[0]))
	h.Write(resp.AppendCommand(nil, append([][]byte{[]byte(name)}, args[1:]...)...))
	return &Once{
		key:   strings.TrimSuffix(r.token, "t") + "o:" + string(id),
		print: hex.EncodeToString(h.Sum(nil)), ttl: millis(ttl), proto: proto, args: args,
	}
}

// AppendLook appends the question for a kept reply: it answers with one reply.
func (o *Once) AppendLook(dst []byte) []byte { return appendStrings(dst, "GET", o.key) }

// ParseLook reads the reply to AppendLook: the kept reply, nil if there is none. Errors: ErrOtherCommand, *StoreError.
func (o *Once) ParseLook(frame []byte) ([]byte, error) {
	v, _, err := resp.ParseValue(frame)
	switch {
	case err != nil:
		return nil, err
	case v.IsError():
		return nil, replyError(string(v.Str))
	case v.Null:
		return nil, nil
	}
	kept, same := strings.CutPrefix(string(v.Str), o.print)
	if !same {
		return nil, ErrOtherCommand
	}
	return []byte(kept), nil
}

// AppendOnce appends the script that carries the command out, or gives the kept reply: it answers with one reply. Like a check, it
// is sent as text.
func (s *Store) AppendOnce(dst []byte, o *Once) []byte {
	dst = redcon.AppendArray(dst, 6+1+len(o.args))
	dst = append(dst, s.own.once.eval...)
	dst = redcon.AppendBulkString(dst, "1")
	dst = redcon.AppendBulkString(dst, o.key)
	dst = redcon.AppendBulkString(dst, o.print)
	dst = redcon.AppendBulkString(dst, o.ttl)
	dst = redcon.AppendBulkString(dst, o.proto)
	for _, a := range o.args {
		dst = redcon.AppendBulk(dst, a)
	}
	return dst
}

// ParseOnce reads the reply to AppendOnce: the command's as it is kept. One that failed has its error. Errors: ErrOtherCommand.
func (s *Store) ParseOnce(frame []byte) ([]byte, error) {
	v, _, err := resp.ParseValue(frame)
	switch {
	case err != nil:
		return nil, err
	case v.IsError() && strings.HasPrefix(string(v.Str), otherCommand):
		return nil, ErrOtherCommand
	case v.IsError():
		return frame, nil
	}
	return v.Str, nil
}
