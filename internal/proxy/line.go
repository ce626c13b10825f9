package proxy

import (
	"bytes"
	"context"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// giveBack bounds leaving a queue, or giving back a session that was taken in vain.
const giveBack = 2 * time.Second

// line waits in line for a session after the store has queued the client: it was granted, or goes on without a hold. It may have
// stepped out of other sessions meanwhile.
func (c *client) line(at place, b tokenstore.Begin, expected tokenstore.Basis, start time.Time) (granted bool, err error) {
	s := at.sequence
	switch {
	case b.Full:
		return false, c.crowd(s, b.Holder, b.Ahead)
	case s.Rule.Wait == 0:
		return false, c.locked(s, b.Holder, start)
	}
	s.Waits(b.Holder)
	c.rests()
	defer c.reads()
	c.waiter.Park(s, expected, b.LeaseLeft)
	c.inLine, c.wayGiven = at, 0
	woken, err := c.queue(s.Rule.Wait - time.Since(start))
	c.inLine = place{}
	grant := c.waiter.Unpark()
	if err == nil && (woken || grant > 0) {
		return true, nil
	}
	c.unqueue(context.Background(), s, grant)
	if grant == 0 && c.waiter.Unsure() {
		c.release(context.Background(), s, 0)
	}
	switch {
	case err != nil:
		return false, err
	case c.wayGiven > 0:
		return false, c.gaveWay(at, b.Holder)
	}
	return false, c.locked(s, b.Holder, start)
}

// gaveWay ends a wait that must not go on, after the client has left the queue: nil means read without a hold.
func (c *client) gaveWay(at place, h tokenstore.Holder) error {
	why := c.wayGiven
	c.wayGiven = 0
	s := at.sequence
	if why == deadlocked {
		s.Yield(c.circle)
		s.Quits(event.Deadlock)
	} else {
		s.Quits(event.Overtaken)
	}
	if !at.writes && s.StepAside() {
		return nil
	}
	return &lock.LockedError{Record: s.Record, Holder: h, Word: s.Rule.LockedError, Overtaken: why == overtaken, Deadlock: why == deadlocked}
}

// park is a wait at the store, ahead of a command.
type park struct {
	left   time.Duration // how long it may take; 0: no wait
	lease  time.Duration // what remains of the holder's lease
	behind tokenstore.Holder
}

// queued decides, after the store has queued a client that waits there, how it goes on: the next
// attempt waits first, or takes its place in line again.
func (c *client) queued(s *lock.Sequence, b tokenstore.Begin, start time.Time) (park, error) {
	left := s.Rule.Wait - time.Since(start)
	switch {
	case b.Full:
		return park{}, c.crowd(s, b.Holder, b.Ahead)
	case c.wayGiven > 0:
		c.unqueue(context.Background(), s, 0)
		return park{}, c.gaveWay(place{sequence: s}, b.Holder)
	case left > 0 && b.Ahead >= 0:
		return park{left, b.LeaseLeft, b.Holder}, nil
	case left > 0:
		return park{}, nil // the store took this proxy's waiters for gone
	}
	if s.Rule.Wait > 0 {
		c.unqueue(context.Background(), s, 0)
	}
	return park{}, c.locked(s, b.Holder, start)
}

// waitAtStore sends a block that waits at the store first.
func (c *client) waitAtStore(s *lock.Sequence, p park) error {
	s.Waits(p.behind)
	c.waiter.Park(s, c.asks[0].expected, p.lease)
	c.blocks = true
	c.inLine, c.wayGiven = place{sequence: s}, 0
	err := c.roundTrip(c.exchange, c.send)
	c.inLine = place{}
	c.blocks = err != nil
	c.waiter.Unpark() // what it was granted meanwhile, the block's begin has been granted, too
	if err != nil {
		return err
	}
	// If the client has its reply, it has the session, however the wait ended. And who was only woken up, as when Redis becomes a
	// replica, hears from the begin how it goes on.
	if waited := c.exchange.Frame(c.asks[0].frame - 1); isError(waited) && !c.exchange.Streamed && !bytes.HasPrefix(waited, unblocked) {
		return replyError(waited)
	}
	return nil
}

// unblocked is how Redis ends a wait that it was told to end, or can't go on with.
var unblocked = []byte("-UNBLOCKED ")

// takePart takes the i-th session of a command, whoever grants. errAnew says that it was taken, but that others had their turn meanwhile.
func (c *client) takePart(parts []part, i int, start time.Time) error {
	take := c.takeOwn
	if parts[i].sequence.Elsewhere() {
		take = c.takeElsewhere
	}
	stepBack(parts[i+1:]) // who waits holds no session behind: no two wait for each other
	if err := take(parts, i, start); err != nil {
		return err
	}
	parts[i].taken = true
	if c.steppedOut() {
		return errAnew
	}
	return nil
}

func (c *client) takeOwn(parts []part, i int, start time.Time) error {
	return c.take(parts[i].sequence, start)
}

// take takes a session before a write, or for one that found it held: it waits in line like a read. What was read
// before stays good if nobody came in between.
func (c *client) take(s *lock.Sequence, start time.Time) error {
	c.waiter.AtStore(false)
	waiter := c.waiter.ID()
	if s.Rule.Wait == 0 {
		waiter = ""
	}
	for {
		c.waiter.Clear()
		sent := time.Now()
		_, expected, err := s.BeforeTake(context.Background(), sent)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), giveBack)
		b, err := c.srv.store.Begin(ctx, s.Record, s.Claim, waiter, expected)
		cancel()
		if err != nil {
			if s.State() != lock.Held { // nobody knows what it was granted
				c.unqueue(context.Background(), s, 0)
				c.release(context.Background(), s, 0)
			}
			return &downError{s.Record.String(), err}
		}
		if b.Granted {
			c.noticed(s, b)
			s.Granted(b, sent)
			return nil
		}
		if _, err := c.line(place{s, true}, b, expected, start); err != nil {
			return err
		}
	}
}

// crowd is the refusal where too many wait.
func (c *client) crowd(s *lock.Sequence, h tokenstore.Holder, waiting int) error {
	return &lock.LockedError{Record: s.Record, Holder: h, Word: s.Rule.LockedError, Waiting: waiting}
}

// noticed raises the alarm for a record that is gone though a hold depended on it.
func (c *client) noticed(s *lock.Sequence, b tokenstore.Begin) {
	if b.RecordLost {
		c.srv.log.Error("fence record lost while the session was held: does the store evict? its old holder will be refused",
			"rule", s.Record.Rule, "session", s.Record.Session, "grant", b.Grant)
	}
}

// unqueue leaves the store's queue, or gives back what was granted meanwhile.
func (c *client) unqueue(ctx context.Context, s *lock.Sequence, grant uint64) {
	if grant > 0 {
		c.release(ctx, s, grant)
		return
	}
	if s.Elsewhere() {
		return // the line is elsewhere
	}
	c.waiter.Stood(s)
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
		c.srv.log.Warn("session not given back yet", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
		c.srv.locks.Owes(s)
	}
}

// locked is the refusal after waiting.
func (c *client) locked(s *lock.Sequence, h tokenstore.Holder, start time.Time) error {
	err := &lock.LockedError{Record: s.Record, Holder: h, Word: s.Rule.LockedError}
	if s.Rule.Wait > 0 || s.Elsewhere() {
		err.Waited = time.Since(start)
	}
	return err
}
