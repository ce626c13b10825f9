// Package silence names a connection as the server does. When it breaks, requests that were sent over it may still be on their way, in
// a buffer or at whatever stands in between, and be carried out at any time. The server can be asked to close its own end: what it
// has not carried out by then, it never will.
package silence

import (
	"errors"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// ErrImpossible says that what was sent over a connection may still be carried out.
var ErrImpossible = errors.New("what was sent over the broken connection may still be on its way")

// Identity is a connection as the server names it: by the id that no other connection of the same process has, and by the
// addresses of its ends, which tell it from one that another process gives the same id.
type Identity struct{ ID, Addr, LocalAddr string }

// Ask is the request whose reply Parse reads, known to Redis 6.2 and later.
var Ask = resp.AppendCommandStrings(nil, "CLIENT", "INFO")

// Parse reads the reply to Ask, which is one line of words. The Identity is zero if the server has not told.
func Parse(frame []byte) (id Identity) {
	v, _, err := resp.ParseValue(frame)
	if err != nil || v.IsError() {
		return Identity{}
	}
	for _, word := range strings.Fields(string(v.Str)) {
		switch key, value, _ := strings.Cut(strings.TrimPrefix(word, "txt:"), "="); key {
		case "id":
			id.ID = value
		case "addr":
			id.Addr = value
		case "laddr":
			id.LocalAddr = value
		}
	}
	if id.Addr == "" || id.LocalAddr == "" {
		return Identity{}
	}
	return id
}

// Kill is the command that has the server close its own end. It is answered when nothing more of what was sent over the connection is
// carried out.
func (id Identity) Kill() []any {
	return []any{"CLIENT", "KILL", "ID", id.ID, "ADDR", id.Addr, "LADDR", id.LocalAddr}
}
