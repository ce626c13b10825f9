package proxy

import (
	"context"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// giveBack bounds leaving a queue, or giving back a session that was taken in vain.
const giveBack = 2 * time.Second

// line waits in line for a session after the store has queued the client: nil means ask again.
func (c *client) line(s *lock.Sequence, b tokenstore.Begin, expected uint64, start time.Time) error {
	if s.Rule.Wait == 0 {
		return c.locked(s, b.Holder, start)
	}
	c.waiter.Park(s, expected, b.LeaseLeft)
	woken, err := c.queue(s.Rule.Wait - time.Since(start))
	grant := c.waiter.Unpark()
	if err == nil && (woken || grant > 0) {
		return nil
	}
	c.unqueue(context.Background(), s, grant)
	if grant == 0 && c.waiter.Unsure() {
		c.release(context.Background(), s, 0)
	}
	if err != nil {
		return err
	}
	return c.locked(s, b.Holder, start)
}

// take takes a session for a blind write that found it held: it waits in line like a read.
func (c *client) take(s *lock.Sequence, start time.Time) error {
	waiter := c.waiter.ID()
	if s.Rule.Wait == 0 {
		waiter = ""
	}
	for {
		c.waiter.Clear()
		sent := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), giveBack)
		b, err := c.srv.store.Begin(ctx, s.Record, s.Claim, waiter, 0)
		cancel()
		if err != nil {
			return &downError{s.Record.String(), err}
		}
		if b.Granted {
			s.Granted(b, sent)
			return nil
		}
		if err := c.line(s, b, 0, start); err != nil {
			return err
		}
	}
}

// unqueue leaves the store's queue, or gives back what was granted meanwhile.
func (c *client) unqueue(ctx context.Context, s *lock.Sequence, grant uint64) {
	if grant > 0 {
		c.release(ctx, s, grant)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, giveBack)
	defer cancel()
	if err := c.srv.store.Leave(ctx, s.Record, s.Claim, c.waiter.ID()); err != nil {
		c.srv.log.Warn("queue not left; a hand-over will go on after its reservation", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}

func (c *client) release(ctx context.Context, s *lock.Sequence, grant uint64) {
	ctx, cancel := context.WithTimeout(ctx, giveBack)
	defer cancel()
	if err := c.srv.store.Release(ctx, s.Record, s.Claim, grant, false); err != nil {
		c.srv.log.Warn("session not given back; its lease will end", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}

// locked is the refusal after waiting.
func (c *client) locked(s *lock.Sequence, h tokenstore.Holder, start time.Time) error {
	return &lock.LockedError{Record: s.Record, Holder: h, Waited: time.Since(start), Word: s.Rule.LockedError}
}
