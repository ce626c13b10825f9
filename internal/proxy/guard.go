package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// giveBack bounds giving a session back that a command took in vain.
const giveBack = 2 * time.Second

// guarded runs a guarded command inside its sequences.
func (c *client) guarded(p plan, req resp.Request, run func(plan, resp.Request, time.Time) error) error {
	start := time.Now()
	for i := range p.parts {
		if err := c.turn(&p.parts[i], start); err != nil {
			leave(p.parts[:i])
			return err
		}
	}
	defer leave(p.parts)
	return run(p, req, start)
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

// read is a guarded read: begin, or verify, and the client's command, in one round trip. The
// reply goes to the client only if every session is the owner's.
func (c *client) read(p plan, req resp.Request, start time.Time) error {
	ctx := context.Background()
	how := make([]lock.How, len(p.parts))
	expected := make([]uint64, len(p.parts))
	begins := make([]tokenstore.Begin, len(p.parts))
	taken := make([]bool, len(p.parts)) // by this command
	for {
		c.waiter.Clear()
		sent := time.Now()
		c.send = c.send[:0]
		for i, q := range p.parts {
			var err error
			if how[i], expected[i], err = q.sequence.BeforeRead(ctx, sent); err != nil {
				c.giveUp(p.parts, taken)
				return err
			}
			c.send = c.appendAsk(c.send, q.sequence, how[i], expected[i])
		}
		c.send = append(c.send, req.Raw...)

		x := c.exchange
		x.Reset(len(p.parts)+1, len(p.parts), false, func(typ byte) bool {
			return c.allGranted(x, p.parts, how, expected) || typ == '-' && anyError(x, len(p.parts))
		})
		c.up.Send(x, c.send)
		if err := c.up.Flush(); err != nil {
			return c.readLost(p, err)
		}
		if err := c.await(x); err != nil {
			return c.readLost(p, err)
		}

		held := -1 // the session that somebody else holds
		again := false
		for i, q := range p.parts {
			b, err := c.granted(ctx, x.Frame(i), q.sequence, how[i], expected[i], sent)
			switch {
			case errors.Is(err, tokenstore.ErrNoScript):
				again = true
			case err != nil:
				c.giveUp(p.parts, taken)
				if x.Streamed { // Redis refused the client's command as well, in its own words
					return nil
				}
				return err
			case how[i] == lock.Acquire && b.Granted:
				taken[i] = true
			case how[i] == lock.Acquire && held < 0:
				held = i
			case how[i] == lock.Acquire:
				c.unqueue(ctx, q.sequence, 0) // one wait at a time
			}
			begins[i] = b
		}
		switch {
		case again:
			err := c.srv.store.Load(ctx)
			if err == nil && !x.Streamed {
				continue
			}
			c.giveUp(p.parts, taken)
			if x.Streamed {
				return nil
			}
			return &downError{p.sessions(), err}
		case held >= 0:
			if err := c.wait(ctx, p.parts[held].sequence, begins[held], expected[held], start); err != nil {
				c.giveUp(p.parts, taken)
				return err
			}
		default:
			c.wasRead(p, req, x, taken)
			return nil
		}
	}
}

func isError(frame []byte) bool { return len(frame) > 0 && frame[0] == '-' }

// anyError reports whether one of the first n replies is an error.
func anyError(x *upstream.Exchange, n int) bool {
	for i := range n {
		if isError(x.Frame(i)) {
			return true
		}
	}
	return false
}

// appendAsk appends what comes before a read: the begin script, or a look at the record.
func (c *client) appendAsk(dst []byte, s *lock.Sequence, how lock.How, expected uint64) []byte {
	switch {
	case how == lock.Verify:
		return c.srv.store.AppendVerify(dst, s.Record)
	case how == lock.Resume || s.Rule.Wait == 0:
		return c.srv.store.AppendBegin(dst, s.Record, s.Claim, "", expected)
	default:
		return c.srv.store.AppendBegin(dst, s.Record, s.Claim, c.waiter.ID(), expected)
	}
}

// allGranted decides, when the client's reply arrives, whether it may have it.
func (c *client) allGranted(x *upstream.Exchange, parts []part, how []lock.How, expected []uint64) bool {
	for i := range parts {
		if how[i] == lock.Verify {
			if t, err := c.srv.store.ParseVerify(x.Frame(i)); err != nil || t.Grant != expected[i] {
				return false
			}
			continue
		}
		b, err := c.srv.store.ParseBegin(x.Frame(i))
		if err != nil || !b.Granted || how[i] == lock.Resume && !b.Continuous {
			return false
		}
	}
	return true
}

// granted takes the answer to a begin or verify into its sequence.
func (c *client) granted(ctx context.Context, frame []byte, s *lock.Sequence, how lock.How, expected uint64, sent time.Time) (tokenstore.Begin, error) {
	store := c.srv.store
	if how == lock.Verify {
		t, err := store.ParseVerify(frame)
		if err != nil {
			return tokenstore.Begin{}, &downError{s.Record.String(), err}
		}
		return tokenstore.Begin{Granted: true, Grant: t.Grant}, s.Current(t)
	}
	b, err := store.ParseBegin(frame)
	switch {
	case errors.Is(err, tokenstore.ErrNoScript):
		return b, err
	case err != nil:
		return b, &downError{s.Record.String(), err}
	case how == lock.Resume && !(b.Granted && b.Continuous):
		if b.Granted {
			c.release(ctx, s, b.Grant)
		}
		return b, s.Lost(max(b.Grant, b.Holder.Grant), b.Holder)
	case b.Granted:
		s.Granted(b, sent)
	}
	return b, nil
}

// wait waits for a session in the store's queue: nil means ask again.
func (c *client) wait(ctx context.Context, s *lock.Sequence, b tokenstore.Begin, expected uint64, start time.Time) error {
	left := s.Rule.Wait - time.Since(start)
	if s.Rule.Wait == 0 {
		return c.locked(s, b.Holder, start)
	}
	c.waiter.Park(s, expected, b.LeaseLeft)
	woken, err := c.queue(left)
	grant := c.waiter.Unpark()
	if woken || grant > 0 && err == nil {
		return nil
	}
	c.unqueue(ctx, s, grant)
	if err != nil {
		return err
	}
	return c.locked(s, b.Holder, start)
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

// giveUp gives back the sessions that a command took before it was refused.
func (c *client) giveUp(parts []part, taken []bool) {
	for i, q := range parts {
		if taken[i] {
			q.sequence.Abandon(context.Background())
		}
	}
}

// locked is the refusal after waiting.
func (c *client) locked(s *lock.Sequence, h tokenstore.Holder, start time.Time) error {
	return &lock.LockedError{Record: s.Record, Holder: h, Waited: time.Since(start), Word: s.Rule.LockedError}
}

// readLost ends a read whose answer did not come: it may have been granted, or queued.
func (c *client) readLost(p plan, err error) error {
	for _, q := range p.parts {
		if q.sequence.State() != lock.Held {
			c.srv.locks.Detach(func(ctx context.Context) { c.unqueue(ctx, q.sequence, 0) })
		}
	}
	if errors.Is(err, errGone) {
		return err
	}
	return &downError{p.sessions(), err}
}

// wasRead notes a read in its sequences. One that failed has read nothing, and what was taken for
// it is given back.
func (c *client) wasRead(p plan, req resp.Request, x *upstream.Exchange, taken []bool) {
	if x.StreamType == '-' || x.StreamType == '!' {
		c.giveUp(p.parts, taken)
		return
	}
	now := time.Now()
	hash := maphash.Bytes(hashSeed, req.Raw)
	for _, q := range p.parts {
		q.sequence.Read(hash, q.keys, now)
		c.join(q.sequence)
	}
}

// join notes the client's part in a sequence of the proxy's owner.
func (c *client) join(s *lock.Sequence) {
	if s.Rule.Owner == rule.OwnerProxy {
		s.Join(c)
		c.joined = true
	}
}

// write is a guarded write: check, the client's command and settle, in one round trip. Nothing is
// applied unless every session's check is good.
func (c *client) write(p plan, req resp.Request, start time.Time) error {
	ctx := context.Background()
	n := len(p.parts)
	commits := make([]tokenstore.Commit, n)
	writes := make([]lock.Write, n)
	tokens := make([]lock.Token, n)
	checks := make([]tokenstore.Check, n)
	taken := make([]bool, n) // by this command, for a blind write that had to wait
	for {
		sent := time.Now()
		for i, q := range p.parts {
			writes[i] = lock.Write{Keys: q.keys, Atomic: p.atomic}
			var err error
			if tokens[i], err = q.sequence.BeforeWrite(ctx, writes[i], sent); err != nil {
				c.giveUp(p.parts, taken)
				return err
			}
			commits[i] = tokenstore.Commit{
				Record: q.sequence.Record, Claim: q.sequence.Claim, Grant: tokens[i].Grant, Seq: tokens[i].Seq,
				Keep: !taken[i] && q.sequence.Keeps(),
			}
		}
		c.send = c.srv.store.AppendCommit(c.send[:0], commits, req.Raw)
		x := c.exchange
		x.Reset(tokenstore.CommitFrames(n), tokenstore.FrameExec(n), true, func(byte) bool { return c.allGood(x, n) })
		c.up.Send(x, c.send)
		err := c.up.Flush()
		if err == nil {
			err = c.await(x)
		}
		if err != nil {
			return &unknownError{p.sessions(), err}
		}

		queued := x.Frame(tokenstore.FrameCommand(n))
		if err := c.judge(x, p, checks); err != nil {
			c.giveUp(p.parts, taken)
			if isError(queued) && !x.Opened {
				return c.up.Local(queued) // Redis refused the client's command as well, in its own words
			}
			return err
		}
		blocked := -1
		for i, q := range p.parts {
			switch checks[i].Verdict {
			case tokenstore.Good:
			case tokenstore.Held, tokenstore.Queued:
				blocked = i
			default:
				if !tokens[i].OrBlind && !taken[i] {
					c.giveUp(p.parts, taken)
					return q.sequence.Refused(checks[i])
				}
				q.sequence.Superseded()
				taken[i] = false
			}
		}
		if blocked >= 0 {
			if err := c.take(ctx, p.parts[blocked].sequence, start); err != nil {
				c.giveUp(p.parts, taken)
				return err
			}
			taken[blocked] = true
			continue
		}
		if x.Opened {
			c.settled(ctx, p, x, commits, writes, sent)
			return nil
		}
		if !allGood(checks) {
			continue // a session goes on blindly
		}
		if isError(queued) {
			c.giveUp(p.parts, taken)
			return c.up.Local(queued) // Redis refused the command itself
		}
		if isError(x.Frame(tokenstore.FrameExec(n))) {
			c.giveUp(p.parts, taken)
			return &downError{p.sessions(), &tokenstore.StoreError{Reply: c.firstError(x, n)}}
		}
		// A good check and yet a nil: another grant, or another's refused check, came between. The
		// next check tells.
	}
}

// allGood decides, when the client's reply arrives, whether it may have it: the checks say so.
func (c *client) allGood(x *upstream.Exchange, n int) bool {
	for i := range n {
		if check, err := c.srv.store.ParseCheck(x.Frame(tokenstore.FrameCheck(i))); err != nil || check.Verdict != tokenstore.Good {
			return false
		}
	}
	return true
}

func allGood(checks []tokenstore.Check) bool {
	for i := range checks {
		if checks[i].Verdict != tokenstore.Good {
			return false
		}
	}
	return true
}

// judge reads the checks. The error says that a check could not be made: nothing was written,
// unless the store went on to apply the block all the same.
func (c *client) judge(x *upstream.Exchange, p plan, checks []tokenstore.Check) error {
	n := len(checks)
	for i := range checks {
		var err error
		if checks[i], err = c.srv.store.ParseCheck(x.Frame(tokenstore.FrameCheck(i))); err == nil {
			continue
		}
		if x.Opened {
			c.srv.log.Error("the store applied a write whose check it had refused", "sessions", p.sessions(), "error", err)
			return &unknownError{p.sessions(), err}
		}
		if isError(x.Frame(0)) {
			err = &tokenstore.StoreError{Reply: c.firstError(x, n)}
		}
		return &downError{p.sessions(), err}
	}
	return nil
}

// firstError is the first error reply of a commit's block.
func (c *client) firstError(x *upstream.Exchange, n int) string {
	for i := range tokenstore.CommitFrames(n) {
		if f := x.Frame(i); len(f) > 3 && f[0] == '-' {
			return string(f[1 : len(f)-2])
		}
	}
	return "no reply"
}

// take takes a session for a blind write that found it held: it waits in line like a read.
func (c *client) take(ctx context.Context, s *lock.Sequence, start time.Time) error {
	waiter := c.waiter.ID()
	if s.Rule.Wait == 0 {
		waiter = ""
	}
	for {
		c.waiter.Clear()
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, max(giveBack, s.Rule.Wait))
		b, err := c.srv.store.Begin(call, s.Record, s.Claim, waiter, 0)
		cancel()
		if err != nil {
			return &downError{s.Record.String(), err}
		}
		if b.Granted {
			s.Granted(b, sent)
			return nil
		}
		if err := c.wait(ctx, s, b, 0, start); err != nil {
			return err
		}
	}
}

// settled takes an applied block into its sequences.
func (c *client) settled(ctx context.Context, p plan, x *upstream.Exchange, commits []tokenstore.Commit, writes []lock.Write, sent time.Time) {
	applied := x.StreamType != '-' && x.StreamType != '!'
	for i, q := range p.parts {
		grant, err := c.srv.store.ParseSettle(x.Frame(tokenstore.FrameExec(len(commits)) + 1 + i))
		if err != nil {
			grant = commits[i].Grant
			c.settleAgain(ctx, &commits[i], err)
		}
		q.sequence.Committed(commits[i], grant, writes[i], applied, sent)
	}
}

// settleAgain repeats a settlement that failed behind an applied write: its hold still stands.
func (c *client) settleAgain(ctx context.Context, commit *tokenstore.Commit, err error) {
	log := c.srv.log.With("rule", commit.Record.Rule, "session", commit.Record.Session, "grant", commit.Grant)
	log.Warn("write applied, settling again", "error", err)
	ctx, cancel := context.WithTimeout(ctx, giveBack)
	defer cancel()
	if err := c.srv.store.Settle(ctx, commit); err != nil {
		log.Error("write applied but not settled; its lease will end", "error", err)
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
