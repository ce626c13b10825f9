package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A read that takes no hold looks at the session's record first, so that a write in between makes the look older
// than the value, never younger. The record is there from the session's first use on; where it is
// known to be, a GET does, else a script that makes it.

// errUnmade says that a record was not there, or had no token to see, though it was thought to.
var errUnmade = errors.New("the record has no token")

// errBehind says that a grant was not newer than the record's, and another is to be asked for.
var errBehind = errors.New("the grant is not the newest")

// looked takes a look at a record into its sequence.
func (c *client) looked(frame []byte, s *lock.Sequence, a ask, now time.Time) error {
	t, err := c.srv.store.ParseLook(s.Record, frame)
	switch {
	case errors.Is(err, tokenstore.ErrNoScript):
		return err
	case err != nil:
		return &downError{s.Record.String(), err}
	case t.Stamp() == (tokenstore.Stamp{}):
		s.Unmade()
		return errUnmade
	}
	s.Looked(t, a.making, now)
	return nil
}

// lookFirst makes sure that a record is there, over the proxy's own connection.
func (c *client) lookFirst(s *lock.Sequence, now time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	t, err := c.srv.store.Look(ctx, s.Record, s.Claim)
	if err != nil {
		return &downError{s.Record.String(), err}
	}
	s.Looked(t, true, now)
	return nil
}

// unmade reports whether a read has to be sent again only because records were not there.
func (c *client) unmade(p plan) bool {
	for i := range p.parts {
		if isError(c.exchange.Frame(c.asks[i].frame)) {
			return false
		}
	}
	return true
}
