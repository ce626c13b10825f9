package upstream

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// When a connection breaks, requests that were sent over it may still be on their way, in a buffer or at whatever stands in
// between, and be carried out at any time. The server can be asked to close its own end: what it has not carried out by then,
// it never will.

// Identity is a connection as the server names it: by the id that no other connection of the same process has, and by the
// addresses of its ends, which tell it from one that another process gives the same id.
type Identity struct{ ID, Addr, LocalAddr string }

// Identify is the request whose reply ParseIdentity reads, known to Redis 6.2 and later.
var Identify = resp.AppendCommandStrings(nil, "CLIENT", "INFO")

// Identify has the server say, together with what is sent next, which connection this is. A server or user that can't
// say it leaves the connection without an identity.
func (c *Conn) Identify() {
	x := NewExchange()
	x.Reset(1, -1, false, nil)
	x.After = func(*Mode) { c.identity = ParseIdentity(x.Frame(0)) }
	c.Send(x, Identify)
}

// Identity returns what the server has said; its ID is "" if it has not.
func (c *Conn) Identity() Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// ParseIdentity reads the reply to CLIENT INFO, which is one line of words. The Identity is zero if the server has not told.
func ParseIdentity(frame []byte) (id Identity) {
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

// Kill is the command that has the server close its own end of the connection. It is answered when nothing more of what
// was sent over that is carried out.
func (id Identity) Kill() []any {
	return []any{"CLIENT", "KILL", "ID", id.ID, "ADDR", id.Addr, "LADDR", id.LocalAddr}
}

// Silencer makes sure that what was sent over a connection that broke is not carried out any more, once it has returned nil.
// ErrUnsilenced, perhaps wrapped: that can't be done; after any other error it may be tried again.
type Silencer func(ctx context.Context, broken net.Conn) error

// ErrUnsilenced says that what was sent over a connection may still be carried out.
var ErrUnsilenced = errors.New("what was sent over the broken connection may still be on its way")

// Silence has nothing more carried out of what was sent over a connection that broke: by the endpoint's Silencer, before it returns, or
// by the command that it returns, once that is answered. It is for a connection to the same server, as a user who may. A server
// that has been started anew, or another one that has taken over, knows no such connection: then there is nothing to silence.
func (e *Endpoint) Silence(ctx context.Context, broken *Conn) (command []any, err error) {
	switch id := broken.Identity(); {
	case e.Silencer != nil:
		return nil, e.Silencer(ctx, broken.nc.Conn)
	case id.ID == "":
		return nil, ErrUnsilenced
	default:
		return id.Kill(), nil
	}
}
