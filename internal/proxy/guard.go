package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// guarded runs a guarded command inside its sequences: read.go and write.go say how.
func (c *client) guarded(p plan, req resp.Request, run func(plan, resp.Request, time.Time) error) error {
	if err := c.link(); err != nil {
		return &downError{p.sessions(), err}
	}
	start := time.Now()
	for i := range p.parts {
		if err := c.turn(&p.parts[i], start); err != nil {
			leave(p.parts[:i])
			return err
		}
	}
	defer leave(p.parts)
	err := run(p, req, start)
	if err != nil {
		giveUp(p.parts)
	}
	return err
}

// turn waits for the client's turn on a sequence: other connections of the same owner may be
// inside.
func (c *client) turn(q *part, start time.Time) error {
	for {
		s := q.sequence
		in, err := c.enter(s, s.Rule.Wait-time.Since(start))
		switch {
		case err != nil:
			return err
		case !in:
			return c.locked(s, tokenstore.Holder{}, start)
		}
		if q.sequence = s.Anew(); q.sequence == s {
			return nil
		}
		s.Leave()
	}
}

func leave(parts []part) {
	for i := range parts {
		parts[i].sequence.Leave()
	}
}

// giveUp gives back the sessions that a command took before it was refused.
func giveUp(parts []part) {
	for i := range parts {
		if parts[i].taken {
			parts[i].sequence.Abandon(context.Background())
			parts[i].taken = false
		}
	}
}

// roundTrip sends a block and waits for its replies.
func (c *client) roundTrip(x *upstream.Exchange, block []byte) error {
	c.up.Send(x, block)
	if err := c.up.Flush(); err != nil {
		return err
	}
	return c.await(x)
}

// join notes the client's part in a sequence of the proxy's owner.
func (c *client) join(s *lock.Sequence) {
	if s.Rule.Owner == rule.OwnerProxy {
		s.Join(c)
		c.joined = true
	}
}

// sessions names a plan's sessions in messages.
func (p *plan) sessions() string {
	names := make([]string, len(p.parts))
	for i, q := range p.parts {
		names[i] = q.sequence.Record.String()
	}
	return strings.Join(names, ", ")
}

func isError(frame []byte) bool { return len(frame) > 0 && frame[0] == '-' }

// replyError is an error reply of the store.
func replyError(frame []byte) error {
	return &tokenstore.StoreError{Reply: string(frame[1 : len(frame)-2])}
}

// anyError reports whether one of the first n replies is an error.
func anyError(x *upstream.Exchange, n int) bool {
	for i := range n {
		if isError(x.Frame(i)) {
			return true
		}
	}
	return false
}
