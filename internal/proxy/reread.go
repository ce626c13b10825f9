package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A guarded read whose connection breaks is sent again over another one, if the client has got no part of the reply: it
// changes nothing, and what it was granted was given back.

// repeatable reports whether a read that was lost for err may be sent again.
func (c *client) repeatable(p plan, b body, start time.Time, err error) bool {
	var fenced *lock.FencedError
	var unsent *unsentError
	switch {
	case errors.As(err, &fenced), errors.As(err, &unsent), !errors.Is(err, upstream.ErrLost):
		return false
	case b.watches(c), c.out.failed(), c.exchange.Streamed, c.up.Owes(), !c.replaceable(b):
		return false
	}
	return time.Since(start) < max(p.wait(), findOutLeast)
}

// repeat makes the connection for a read that is to be sent again.
func (c *client) repeat(b body) error {
	c.hearQueued(b)
	c.leave()
	_, err := c.anew(b)
	return err
}

// silence makes sure that no begin which was sent over the connection that broke is carried out later, when nobody knows of what it
// was granted. It is tried once: where it can't be done, a lease ends that.
func (c *client) silence() {
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	command, err := c.srv.upstream.Silence(ctx, c.up)
	if err == nil && len(command) > 0 {
		err = c.srv.store.Client(0).Do(ctx, command...).Err()
	}
	if err != nil {
		c.srv.log.Debug("read lost, and may still be on its way", "client", c.address(), "error", err)
	}
}
