package proxy

import (
	"errors"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// watched is the fence that stands on a client's upstream connection: the WATCH that was taken
// with the first read of a sequence. While it stands, the write needs no check: a newer grant, or
// the loss of the record, dirties it, and EXEC applies nothing.
//
// It stands for one session at a time and belongs to nobody else: a client that uses WATCH or
// MULTI itself gets a connection without it.
type watched struct {
	set      bool           // the connection has the fence's WATCH
	sequence *lock.Sequence // for whom; nil: for nobody, it is only to be taken away
	grant    uint64
}

// stands reports whether a write under grant needs no check.
func (w *watched) stands(s *lock.Sequence, grant uint64) bool {
	return w.set && w.sequence == s && w.grant == grant && grant > 0
}

// gone notes that an EXEC, or the connection, has taken the WATCH away.
func (w *watched) gone() { *w = watched{} }

const unwatch = "*1\r\n$7\r\nUNWATCH\r\n"

// unwatch takes the fence's WATCH away, before the client uses the connection's for itself.
func (c *client) unwatch() {
	if c.watched.set {
		c.up.Drop([]byte(unwatch), 1)
		c.rearm()
		c.watched.gone()
	}
}

// unwatched notes that an EXEC or DISCARD on a connection takes the fence's WATCH away.
func (c *client) unwatched(up *upstream.Conn) {
	if up == c.up {
		c.watched.gone()
	}
}

// standing notes the WATCH that was taken with a begin, from the record read behind it.
func (c *client) standing(s *lock.Sequence, b tokenstore.Begin, record []byte) {
	c.watched.set = true
	if t, err := c.srv.store.ParseVerify(record); err == nil && b.Granted && t.Grant == b.Grant {
		c.watched.sequence, c.watched.grant = s, b.Grant
	}
}

// errEscaped says that the client's right to WATCH or MULTI has just been taken away.
var errEscaped = errors.New("the store did not let the client WATCH or MULTI, and carried its command out by itself")

// escaped reports a write that was applied though its fence was not there: rights that were proved
// can be taken away.
func (c *client) escaped() error {
	x, b := c.exchange, c.commit.block
	command := x.Frame(b.Command)
	switch {
	case len(command) > 0 && !isError(command) && string(command) != queuedReply,
		x.Opened && c.unwatchedBy(b):
		c.state.proved = false
		return errEscaped
	}
	return nil
}

// unwatchedBy reports whether the store has refused to WATCH a record that a block checks.
func (c *client) unwatchedBy(b tokenstore.Block) bool {
	for i := range b.Checks {
		if isError(c.exchange.Frame(b.Watch(i))) {
			return true
		}
	}
	return false
}
