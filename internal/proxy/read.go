package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// ask is what a read asks the store about one session.
type ask struct {
	how      lock.How
	parked   bool             // it waited at the store
	yields   bool             // if somebody has written, other tasks of the owner are to write before it is answered (straggler.go)
	aside    bool             // in mode auto: if somebody holds the session, it goes on without a hold
	making   bool             // of a look: it makes the record if it has to
	expected tokenstore.Basis // what the reads so far stand on
	record   *tokenstore.Record
	frame    int // index of the answer
	begin    tokenstore.Begin
}

// read is a guarded read: begin, or verify, and the client's command, in one round trip. The
// reply goes to the client only if every session is the owner's.
func (c *client) read(p plan, b body, start time.Time) error {
	atStore := len(p.parts) == 1
	c.waiter.AtStore(atStore)
	for wait := (park{}); ; {
		sent := time.Now()
		if err := c.sendRead(p, b, sent, start, wait); err != nil {
			repeatable := c.repeatable(p, b, start, err)
			if err = c.readLost(p, err); !repeatable {
				return err
			}
			if err := c.repeat(b); err != nil {
				return &downError{p.sessions(), err}
			}
			wait = park{}
			continue
		}
		if wait.left > 0 {
			sent = time.Now() // it was granted at some time since
		}
		held, again, err := c.answers(p, sent)
		changed := b.changed(c.exchange, c.exchange.Frames-1-b.count) // EXEC is the last
		switch {
		case changed != nil && held < 0:
			giveUp(p.parts)
			return c.local(changed)
		case b.tx != nil && (err != nil || again) && c.exchange.Refused:
			giveUp(p.parts) // Redis refused the client's commands as well
			return c.local(c.exchange.Frame(c.exchange.Frames - 1))
		case c.exchange.Streamed && (err != nil || again):
			// Redis refused the client's command as well, in its own words.
			giveUp(p.parts)
			if again {
				err = c.srv.store.Load(context.Background())
			}
			c.srv.log.Debug("command refused by the upstream", "sessions", p.sessions(), "error", err)
			return nil
		case err != nil:
			return err
		case c.behindIt && held < 0 && !again:
			for i := range p.parts {
				c.join(p.parts[i].sequence)
			}
			return errStragglers
		case again && c.unmade(p) && !b.watches(c):
			wait = park{}
		case again && b.watches(c):
			return &downError{p.sessions(), errUnmade}
		case again:
			wait = park{}
			if err := c.srv.store.Load(context.Background()); err != nil {
				return &downError{p.sessions(), err}
			}
		case held >= 0 && b.now:
			return errNotNow
		case held >= 0:
			stepBack(p.parts[held+1:]) // who waits holds no session behind: no two wait for each other
			s, a := p.parts[held].sequence, &c.asks[held]
			if err := c.heldByKin(&p.parts[held], a.begin); err != nil {
				return err
			}
			if a.aside && s.StepAside() {
				continue
			}
			if atStore {
				wait, err = c.queued(s, a.begin, start)
			} else {
				err = c.lineUp(p, held, start)
			}
			if err != nil {
				return err
			}
		default:
			return c.wasRead(p, b)
		}
	}
}

// lineUp has a read of several sessions stand in line for the i-th.
func (c *client) lineUp(p plan, i int, start time.Time) error {
	s, a := p.parts[i].sequence, &c.asks[i]
	granted, err := c.line(place{sequence: s}, a.begin, a.expected, start)
	switch {
	case err != nil || !c.steppedOut():
		return err
	case granted: // nobody else is to take it up
		return c.takePart(p.parts, i, start)
	}
	return errAnew
}

// sendRead sends the block of a read and waits for its replies:
//
//	MULTI | DISCARD          if it is not known that Redis lets the client
//	BLPOP wake list          if the client is in line
//	begin, look, or GET record:t   for each session
//	WATCH | GET record:t     with a begin, if the fence may stand on this connection
//	CLIENT CACHING           if it is about the client's command
//	the client's command, or MULTI, its commands and EXEC
func (c *client) sendRead(p plan, b body, sent, start time.Time, wait park) error {
	if b.watches(c) {
		if err := c.takeFirst(p, sent, start); err != nil {
			return &unsentError{err}
		}
	}
	c.waiter.Clear()
	c.asks, c.send = c.asks[:0], c.send[:0]
	c.in.mark(sent)
	c.answered, c.unseen, c.behindIt = time.Time{}, 0, false
	c.seenTo = c.in.seen()
	frames := 0
	watch := false
	for i := range p.parts {
		q := &p.parts[i]
		how, expected, err := q.sequence.BeforeRead(context.Background(), b.name, sent)
		if c.lookedOn(q.sequence, err) {
			how, expected, err = q.sequence.BeforeRead(context.Background(), b.name, sent)
		}
		if err != nil {
			return err
		}
		if how == lock.Acquire {
			if how, err = c.grasp(p, i, b, start); err != nil {
				return &unsentError{err}
			}
		}
		if (how == lock.Acquire || how == lock.Resume) && len(p.parts) == 1 && !c.state.watching && b.tx == nil {
			if watch = true; c.watched.set {
				c.send = append(c.send, unwatch...)
				c.watched.gone()
				frames++
			}
		}
		if wait.left > 0 {
			frames++
		}
		a := ask{how: how, parked: wait.left > 0, making: how == lock.Look && !q.sequence.Made(sent), aside: how == lock.Acquire && c.stepsAside(q.sequence), expected: expected, record: q.sequence.Record, frame: frames}
		a.yields = b.tx == nil && !b.now && time.Since(start) < q.sequence.Rule.Wait && q.sequence.Straggles(q.keys)
		c.asks = append(c.asks, a)
		c.send = c.appendAsk(c.send, q.sequence, &a, wait, b.now)
		frames++
	}
	if watch {
		record := p.parts[0].sequence.Record
		c.send = c.srv.store.AppendVerify(c.srv.store.AppendWatch(c.send, record), record)
		frames += 2
	}
	verified := frames - 1
	if c.armed != nil {
		c.send = append(c.send, c.armed...)
		frames++
	}
	if b.tx != nil {
		c.unwatch() // the fence's, or it might show as a nil of the client's
		c.send = append(append(append(c.send, multi...), b.raw...), exec...)
		c.exchange.Reset(frames+b.count+2, frames+b.count+1, true, c.decideRead)
		if c.exchange.Whole = !b.lists; b.lists {
			c.exchange.Stream = -1
		}
		b.hears(c, frames+1)
	} else {
		c.send = append(c.send, b.raw...)
		c.exchange.Reset(frames+1, frames, false, c.decideRead)
		if b.now {
			c.exchange.Stream = -1
		}
	}
	c.exchange.Makes = true
	var err error
	if wait.left > 0 {
		err = c.waitAtStore(p.parts[0].sequence, wait)
	} else {
		err = c.roundTrip(c.exchange, c.send)
	}
	if err != nil {
		return err
	}
	if watch {
		// The answers are taken in order: begin first, so that a later look at the record counts.
		begin, _ := c.srv.store.ParseBegin(c.exchange.Frame(c.asks[0].frame))
		if !isError(c.exchange.Frame(verified - 1)) {
			c.standing(p.parts[0].sequence, begin, c.exchange.Frame(verified))
		}
	}
	return nil
}

// takeFirst takes the sessions of a transaction that only reads, or looks at their records, before it is sent: under a
// WATCH of the client's own it can be sent once.
func (c *client) takeFirst(p plan, sent, start time.Time) error {
	for i := range p.parts {
		q := &p.parts[i]
		how, _, err := q.sequence.BeforeRead(context.Background(), "exec", sent)
		if err != nil {
			return err
		}
		switch how {
		case lock.Look:
			if err := c.lookFirst(q.sequence, sent); err != nil {
				return err
			}
		case lock.Acquire:
			switch err := c.takePart(p.parts, i, start); {
			case c.srv.locks.Passes(err):
				if err := c.lookFirst(q.sequence, sent); err != nil {
					return err
				}
			case err != nil:
				return err
			}
		}
	}
	return nil
}

// appendAsk appends what comes before a read: the begin script, behind a wait if there is one, or
// a look at the record.
func (c *client) appendAsk(dst []byte, s *lock.Sequence, a *ask, wait park, now bool) []byte {
	switch {
	case wait.left > 0:
		return c.srv.store.AppendPark(dst, s.Record, s.Claim, c.waiter.ID(), a.expected, wait.left)
	case a.making:
		return c.srv.store.AppendLook(dst, s.Record, s.Claim)
	case a.how == lock.Verify || a.how == lock.Look:
		return c.srv.store.AppendVerify(dst, s.Record)
	case s.Elsewhere():
		return c.srv.store.AppendRegister(dst, s.Record, s.Claim, s.Given(), a.expected)
	case a.how == lock.Resume || s.Rule.Wait == 0 || now || a.aside:
		return c.srv.store.AppendBegin(dst, s.Record, s.Claim, "", a.expected)
	default:
		return c.srv.store.AppendBegin(dst, s.Record, s.Claim, c.waiter.ID(), a.expected)
	}
}

// decideRead decides, when the client's reply arrives, whether it may have it: every session must
// be granted. An error is the client's too when the store refused the fence as well.
func (c *client) decideRead(typ byte) bool {
	x := c.exchange
	if typ == '-' && !x.Open && c.unasked() {
		return true
	}
	for i := range c.asks {
		a := &c.asks[i]
		switch a.how {
		case lock.Verify:
			if t, err := c.srv.store.ParseVerify(x.Frame(a.frame)); err != nil || t.Grant != a.expected.Grant {
				return false
			}
			continue
		case lock.Look:
			if t, err := c.srv.store.ParseLook(a.record, x.Frame(a.frame)); err != nil || t.Stamp() == (tokenstore.Stamp{}) {
				return false
			} else if a.yields && !a.expected.Current(t) {
				c.behindIt = true
			}
			continue
		}
		b, err := c.srv.store.ParseBegin(x.Frame(a.frame))
		if err != nil || !b.Granted || a.how == lock.Resume && !b.Continuous {
			return false
		} else if a.yields && !b.Continuous {
			c.behindIt = true
		}
	}
	if c.behindIt {
		return false
	}
	if !c.owner.Crowded() {
		c.unseen = c.nc.Unread()
	}
	c.answered = time.Now()
	return true
}

// unasked reports whether the store has refused to answer about a session.
func (c *client) unasked() bool {
	return slices.ContainsFunc(c.asks, func(a ask) bool { return isError(c.exchange.Frame(a.frame)) })
}

// answers takes the store's answers into the sequences. held is the first session that somebody
// else holds, or -1; again says that the store did not know the script.
func (c *client) answers(p plan, sent time.Time) (held int, again bool, err error) {
	held = -1
	for i := range p.parts {
		q, a := &p.parts[i], &c.asks[i]
		a.begin, err = c.answer(c.exchange.Frame(a.frame), q.sequence, *a, sent)
		switch {
		case errors.Is(err, tokenstore.ErrNoScript), errors.Is(err, errUnmade), errors.Is(err, errBehind):
			again = true
		case err != nil:
			return held, again, err
		case a.how != lock.Acquire:
		case a.begin.Granted:
			q.taken = true
		case held < 0:
			held = i
		default:
			c.unqueue(context.Background(), q.sequence, 0) // one wait at a time
		}
	}
	return held, again, nil
}

// answer takes the answer about one session into its sequence.
func (c *client) answer(frame []byte, s *lock.Sequence, a ask, sent time.Time) (tokenstore.Begin, error) {
	store := c.srv.store
	if a.how == lock.Verify {
		t, err := store.ParseVerify(frame)
		if err != nil {
			return tokenstore.Begin{}, &downError{s.Record.String(), err}
		}
		return tokenstore.Begin{Granted: true, Grant: t.Grant}, s.Current(t)
	}
	if a.how == lock.Look {
		return tokenstore.Begin{}, c.looked(frame, s, a, sent)
	}
	b, err := store.ParseBegin(frame)
	switch {
	case errors.Is(err, tokenstore.ErrNoScript):
		return b, err
	case err != nil:
		return b, &downError{s.Record.String(), err}
	case a.how == lock.Resume && !(b.Granted && b.Continuous):
		if b.Granted {
			c.release(context.Background(), s, b.Grant)
		}
		return b, s.Lost(max(b.Grant, b.Holder.Grant), b.Holder)
	case b.Behind:
		if err := s.Behind(b); err != nil {
			return b, &downError{s.Record.String(), err}
		}
		return b, errBehind
	case b.Granted:
		if a.parked {
			b.Lease = tokenstore.Reservation
		}
		c.noticed(s, b)
		s.Granted(b, sent)
	}
	return b, nil
}

// wasRead notes a read in its sequences. One that failed has read nothing, and what was taken for
// it is given back.
func (c *client) wasRead(p plan, b body) error {
	x := c.exchange
	switch {
	case b.tx != nil && !x.Opened:
		giveUp(p.parts)
		return c.local(x.Frame(x.Frames - 1)) // a command was not queued, or a nil of the client's own WATCH
	case b.now && isNil(x.Frame(x.Frames-1)):
		return errNothing // guarded gives up what was taken
	case b.now && isError(x.Frame(x.Frames-1)):
		giveUp(p.parts)
		return c.local(x.Frame(x.Frames - 1))
	case b.tx == nil && (x.StreamType == '-' || x.StreamType == '!'):
		giveUp(p.parts)
		return nil
	}
	now := c.answered
	if now.IsZero() {
		now = time.Now() // it is answered below
	}
	if b.tx == nil {
		hash := commandHash(b.raw)
		for _, q := range p.parts {
			q.sequence.Read(hash, q.keys, now)
			c.overlaps(q.sequence, hash, now)
			c.join(q.sequence)
		}
		for _, s := range p.before {
			s.ReadElsewhere(hash)
		}
		return c.answeredBy(b, x.Frame(x.Frames-1))
	}
	for t := range b.tx.unwritten {
		i, _ := p.find(t.sequence)
		p.parts[i].sequence.Read(t.command, t.keys, now)
		c.join(p.parts[i].sequence)
	}
	return c.answeredBy(b, nil)
}

// unsentError says that a read was refused before it was sent, and nothing asked of the store.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// readLost ends a read that was refused before it was sent, or whose answer did not come: it may
// have been granted, or queued.
func (c *client) readLost(p plan, err error) error {
	var fenced *lock.FencedError
	var unsent *unsentError
	switch {
	case errors.As(err, &unsent):
		return unsent.err
	case errors.As(err, &fenced):
		return err
	}
	if errors.Is(err, upstream.ErrLost) {
		c.silence()
	}
	late := errors.Is(err, errGone) && !c.blocks && within(c.exchange.Done, giveBack)
	for i, q := range p.parts {
		switch {
		case q.sequence.State() == lock.Held:
		case i < len(c.asks) && c.asks[i].how == lock.Look: // it takes nothing
		case late: // what it was granted goes back while nobody else is inside, who might be granted the session anew
			b, _ := c.srv.store.ParseBegin(c.exchange.Frame(c.asks[i].frame))
			c.unqueue(context.Background(), q.sequence, b.Grant)
		default: // nobody knows what it was granted
			c.unqueue(context.Background(), q.sequence, 0)
			c.release(context.Background(), q.sequence, 0)
		}
	}
	if errors.Is(err, errGone) {
		return err
	}
	return &downError{p.sessions(), err}
}
