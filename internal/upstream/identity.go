package upstream

import (
	"context"
	"net"

	"github.com/fence-proxy/fence-proxy/internal/silence"
)

// Identify has the server say, together with what is sent next, which connection this is. A server or user that can't
// say it leaves the connection without an identity.
func (c *Conn) Identify() {
	x := NewExchange()
	x.Reset(1, -1, false, nil)
	x.After = func(*Mode) { c.identity = silence.Parse(x.Frame(0)) }
	c.Send(x, silence.Ask)
}

// Identity returns what the server has said; its ID is "" if it has not.
func (c *Conn) Identity() silence.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// Silencer makes sure that what was sent over a connection that broke is not carried out any more, once it has returned nil.
// silence.ErrImpossible, perhaps wrapped: that can't be done; after any other error it may be tried again.
type Silencer func(ctx context.Context, broken net.Conn) error

// Silence has nothing more carried out of what was sent over a connection that broke: by the endpoint's Silencer, before it returns, or
// by the command that it returns, once that is answered. It is for a connection to the same server, as a user who may. A server
// that has been started anew, or another one that has taken over, knows no such connection: then there is nothing to silence.
func (e *Endpoint) Silence(ctx context.Context, broken *Conn) (command []any, err error) {
	switch id := broken.Identity(); {
	case e.Silencer != nil:
		return nil, e.Silencer(ctx, broken.nc.Conn)
	case id.ID == "":
		return nil, silence.ErrImpossible
	default:
		return id.Kill(), nil
	}
}
