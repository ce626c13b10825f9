package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Where a lock provider elsewhere grants, a command that needs a session is granted it there before anything is sent to
// Redis; the grant is registered ahead of the read that it covers, in the same write (read.go). What writes without having read
// under a hold is granted its sessions first, too, and registers them together with what its reads stood on. So every commit
// presents a grant.

// tryTime is how long a command that is to wait for no holder (blocking.go) stands in the provider's line: it can't be asked
// without.
const tryTime = 250 * time.Millisecond

// kinEvery is how often it is looked, during a wait at the provider, whether the client waits for itself.
const kinEvery = 250 * time.Millisecond

// errAside says that a read goes on without a hold.
var errAside = errors.New("the read goes on without a hold")

// obtain has the provider grant the i-th session of a plan to its sequence, and waits for that. Errors: errAside, errAnew, errNotNow,
// *kinError, *lock.LockedError, *downError, or why the client is gone.
func (c *client) obtain(parts []part, i int, at place, now bool, start time.Time) error {
	if c.passing != nil {
		return c.passing
	}
	err := c.askElsewhere(parts, i, at, now, start)
	passes := c.srv.locks.Passes(err)
	if !c.steppedOut() || err != nil && !passes && !errors.Is(err, errAside) {
		return err
	}
	if passes {
		c.passing = err
	}
	return errAnew
}

func (c *client) askElsewhere(parts []part, i int, at place, now bool, start time.Time) error {
	q, s := &parts[i], at.sequence
	if s.Given() > 0 || s.Share() {
		return nil
	}
	if err := q.kinHolds(); err != nil {
		return err
	}
	a, err := c.srv.locks.Ask(s)
	if err != nil {
		return &downError{s.Record.String(), err}
	}
	if most := c.srv.limits.Load().Waiters; most > 0 && a.Number() > most+1 {
		a.Drop()
		return c.crowd(s, c.srv.locks.HolderOf(s.Record), a.Number()-1)
	}
	c.timer.Reset(watchAfter)
	select {
	case <-a.Done:
		c.timer.Stop()
	case <-c.timer.C:
		left := lock.AnswerTime(s.Rule.Wait - time.Since(start))
		if now {
			left = min(left, tryTime)
		}
		stepBack(parts[i+1:]) // who waits holds no session behind: no two wait for each other
		if err := c.standInLine(q, at, a, left, now, start); err != nil {
			a.Drop()
			return err
		}
		if s.Given() > 0 { // a sibling was granted the session
			a.Drop()
			return nil
		}
	}
	h, err := a.Take()
	if err != nil {
		return &downError{s.Record.String(), err}
	}
	s.Give(h)
	return nil
}

// standInLine waits until the provider has answered. The errors are those of obtain.
func (c *client) standInLine(q *part, at place, a *lock.Asking, left time.Duration, now bool, start time.Time) error {
	s := at.sequence
	if !now {
		s.Waits(tokenstore.Holder{})
	}
	c.waiter.Stand(s)
	defer c.waiter.Rise()
	c.inLine = at
	defer func() { c.inLine = place{} }()
	defer c.lend(c.turning, s)()
	w := c.watch()
	defer w.stop()
	c.timer.Reset(left)
	defer c.timer.Stop()
	kin := time.NewTicker(kinEvery)
	defer kin.Stop()
	sibling := s.Shareable()
	for {
		select {
		case <-a.Done:
			return nil
		case <-sibling:
			if s.Share() {
				return nil
			}
			sibling = nil
		case <-c.wanted:
			stepOut(c.turning, s)
		case <-c.timer.C:
			return c.waitedInVain(s, now, start)
		case <-s.ProviderDown():
			return c.waitedInVain(s, false, start)
		case <-kin.C:
			s.DoubtProvider()
			if err := q.kinHolds(); err != nil {
				return err
			}
		case <-w.more:
			c.wayGiven, c.several = overtaken, true
			return c.asideOr(c.gaveWay(at, c.srv.locks.HolderOf(s.Record)))
		case c.circle = <-c.waiter.Stuck:
			c.wayGiven = deadlocked
			return c.asideOr(c.gaveWay(at, c.srv.locks.HolderOf(s.Record)))
		case <-w.gone:
			return c.gone()
		}
	}
}

func (c *client) asideOr(err error) error {
	if err == nil {
		return errAside
	}
	return err
}

// waitedInVain says why the provider has not granted a session: somebody holds it, or it does not answer.
func (c *client) waitedInVain(s *lock.Sequence, now bool, start time.Time) error {
	if now {
		return errNotNow
	}
	if err := s.Waited(start); err != nil {
		return &downError{s.Record.String(), err}
	}
	return c.locked(s, c.srv.locks.HolderOf(s.Record), start)
}

// fit refuses what would acquire a session while the agent beside the proxy is not healthy.
func (c *client) fit(p *plan) error {
	if err := c.srv.locks.Fit(); err != nil && !p.looksOn() {
		return &downError{p.sessions(), err}
	}
	return nil
}

// kinHolds is kin for a holder that this proxy knows itself.
func (q *part) kinHolds() error {
	if holder, held := q.sequence.KinHolder(); held {
		return q.kin(holder)
	}
	return nil
}

// grasp is how a read that is to take a session goes on: with a grant to register, or the store's to come (lock.Acquire), or
// without (lock.Look).
func (c *client) grasp(p plan, i int, b body, start time.Time) (lock.How, error) {
	s := p.parts[i].sequence
	if err := c.fit(&p); err != nil || !s.Elsewhere() {
		return lock.Acquire, err
	}
	if s.Given() == 0 && c.stepsAside(s) && s.StepAside() {
		return lock.Look, nil
	}
	switch err := c.obtain(p.parts, i, place{sequence: s}, b.now, start); {
	case errors.Is(err, errAside):
		return lock.Look, nil
	case c.srv.locks.Passes(err):
		return lock.Look, nil // what it reads is known, so that a later write can be judged
	case errors.Is(err, errStopping), errors.Is(err, upstream.ErrLost):
		return lock.Acquire, &downError{s.Record.String(), err}
	default:
		return lock.Acquire, err
	}
}

// secured is a session that was granted and registered for a write, and when.
type secured struct {
	tokenstore.Begin
	sent time.Time
}

// secure has the i-th session of a plan granted and registered ahead of a write, over the proxy's own connection.
func (c *client) secure(parts []part, i int, now bool, start time.Time) (secured, error) {
	s := parts[i].sequence
	for {
		_, expected, err := s.BeforeTake(context.Background(), time.Now())
		if err != nil {
			return secured{}, err
		}
		if err := c.obtain(parts, i, place{s, true}, now, start); err != nil {
			return secured{}, err
		}
		sent := time.Now()
		b, err := c.srv.locks.Register(context.Background(), s, expected)
		switch {
		case err != nil:
			c.release(context.Background(), s, 0) // nobody knows whether it was registered
			return secured{}, &downError{s.Record.String(), err}
		case b.Behind:
			if err := s.Behind(b); err != nil {
				return secured{}, &downError{s.Record.String(), err}
			}
			continue
		}
		c.noticed(s, b)
		return secured{b, sent}, nil
	}
}

// takeElsewhere is take where a lock provider elsewhere grants.
func (c *client) takeElsewhere(parts []part, i int, start time.Time) error {
	got, err := c.secure(parts, i, false, start)
	if err != nil {
		return err
	}
	parts[i].sequence.Granted(got.Begin, got.sent)
	return nil
}

// presentGiven is what the i-th session of a write presents where a lock provider elsewhere grants: passed says that it goes
// unguarded. A write that depends on what was read without a hold is refused if that is stale, as the check would.
func (c *client) presentGiven(p plan, i int, b body, write lock.Write, sent, start time.Time) (token lock.Token, passed bool, err error) {
	q := &p.parts[i]
	s := q.sequence
	for {
		token, err = c.beforeWrite(&p.parts[i], &write, sent)
		held := s.State() == lock.Held || s.IsApart()
		if err != nil || token.Grant > 0 && (held || !b.watches(c) || !token.OrBlind) {
			return token, false, err
		}
		got, err := c.secure(p.parts, i, b.now, start)
		switch {
		case c.srv.locks.Passes(err):
			return token, true, nil
		case err != nil:
			return token, false, err
		case got.Continuous || token.OrBlind || token.Grant == 0 && token.Read == (tokenstore.Stamp{}):
			s.Granted(got.Begin, got.sent)
			q.taken = true
			continue
		}
		c.release(context.Background(), s, got.Grant)
		s.Drop()
		check := tokenstore.Check{Verdict: tokenstore.Changed, Token: tokenstore.Token{Grant: got.Grant}}
		if got.Missing {
			check.Verdict = tokenstore.Missing
		}
		if err := s.Refused(check); !c.lookedOn(s, err) {
			return token, false, err
		}
	}
}

// passed takes a write that went unguarded into its sequence.
func (c *client) passed(q *part, b body, write *lock.Write) {
	s := q.sequence
	w, _ := b.applied(c.exchange, s, *write)
	s.Passed(w)
	c.srv.blocked.written(w.Keys)
	c.srv.log.Warn("UNGUARDED: the lock provider can't be asked", "client", c.address(), "name", c.state.name,
		"rule", s.Record.Rule, "session", s.Record.Session)
}
