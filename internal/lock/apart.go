package lock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A sequence apart belongs to no owner: it is what is done under a grant that was acquired by itself, and
// that may be presented by several clients of several proxies. It is Held as long as the grant is the newest,
// whatever its lease; it remembers no reads, since the grant is older than all of them; it never ends the hold
// nor renews it, and the store counts its writes.

// Apart returns a sequence apart. Its rule is the session's, with the terms of the hold in it: how long to wait, and
// the lease. Without a grant (0) it has to Acquire one.
func (m *Manager) Apart(at tokenstore.Area, terms *rule.Rule, session []byte, id tokenstore.Identity, grant uint64) *Sequence {
	name, own := string(session), *terms
	own.Mode = rule.ModeLock // a grant is enforced, whatever the rule does with what is said without one
	owner := tokenstore.ApartPrefix + m.id + ":" + strconv.FormatUint(m.ids.Add(1), 36)
	return &Sequence{
		Record: tokenstore.NewRecord(at, own.Name, name), Rule: &own,
		Claim:   tokenstore.NewClaim(owner, id, own.Lease, own.RecordTTL),
		manager: m, gate: make(chan struct{}, 1), apart: true, grant: grant, state: Held,
	}
}

// Outlast bounds how long the hold outlives its proxy at a lock provider elsewhere: it may be shorter than it was asked for, since
// the proxy renews it.
func (s *Sequence) Outlast(most time.Duration) *Sequence {
	s.outlasts = most
	return s
}

// IsApart reports whether the sequence belongs to no owner.
func (s *Sequence) IsApart() bool { return s.apart }

// Grant returns the newest grant that the sequence knows to be its own, 0 if none.
func (s *Sequence) Grant() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant
}

// Since is from when on the lease counts at the latest, after Acquire.
func (s *Sequence) Since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// stale ends a sequence apart whose grant is not the newest, and returns the error that says so. Called with mu held.
func (s *Sequence) stale(newest uint64, holder tokenstore.Holder) error {
	if s.story.grants && s.state != Broken {
		s.story.grants = false
		s.tellBreak(ReasonNotNewest, newest, holder)
	}
	s.state = Broken
	return &FencedError{Record: s.Record, Reason: ReasonNotNewest, Grant: s.grant, Newest: newest, Holder: holder}
}

// disowned is what was found out of a sequence apart (Extend).
func (s *Sequence) disowned() error {
	if s.broken != nil {
		return s.broken
	}
	return nil
}

// Stale is what a grant that is not the newest any more comes to.
func (s *Sequence) Stale(newest uint64, holder tokenstore.Holder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale(newest, holder)
}

// Acquire takes the session for a sequence apart, and waits in line for it as long as its rule says. It stands in no
// line any more, and holds nothing, when it returns an error: a *LockedError after waiting, a *DownError, *BehindError or
// *UnfitError, or ctx's cause.
func (m *Manager) Acquire(ctx context.Context, s *Sequence) (tokenstore.Begin, error) {
	if err := m.Fit(); err != nil {
		return tokenstore.Begin{}, err
	}
	if m.elsewhere(s.Record) != nil {
		return m.acquireOutside(ctx, s)
	}
	w := m.Waiter()
	defer w.Close()
	place := w.ID()
	if s.Rule.Wait == 0 {
		place = ""
	}
	start := time.Now()
	over, stop := context.WithTimeout(ctx, s.Rule.Wait)
	defer stop()
	defer s.Quits(event.Other)
	for {
		w.Clear()
		sent := time.Now()
		b, err := m.begin(ctx, s, place)
		switch {
		case err != nil:
			m.withdraw(ctx, s, w, 0, true)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
				s.Quits(event.Gone)
			}
			s.Quits(event.Unasked)
			return b, err
		case b.Granted:
			s.mu.Lock()
			s.acquired(b, sent)
			s.mu.Unlock()
			return b, nil
		case b.Full:
			return b, &LockedError{Record: s.Record, Holder: b.Holder, Word: s.Rule.LockedError, Waiting: b.Ahead}
		case place == "":
			return b, &LockedError{Record: s.Record, Holder: b.Holder, Word: s.Rule.LockedError}
		}
		s.Waits(b.Holder)
		w.Park(s, tokenstore.Basis{}, b.LeaseLeft)
		woken := false
		select {
		case <-w.C:
			woken = true
		case <-over.Done():
		}
		grant := w.Unpark()
		if (woken || grant > 0) && ctx.Err() == nil {
			continue // it is the session's turn: begin again
		}
		m.withdraw(ctx, s, w, grant, w.Unsure())
		if ctx.Err() != nil {
			s.Quits(event.Gone)
			return b, context.Cause(ctx)
		}
		s.Quits(event.Timeout)
		return b, &LockedError{Record: s.Record, Holder: b.Holder, Waited: time.Since(start), Word: s.Rule.LockedError}
	}
}

// acquired takes in the grant of a sequence apart. Called with mu held.
func (s *Sequence) acquired(b tokenstore.Begin, sent time.Time) {
	s.grant, s.since, s.given = b.Grant, sent, nil
	s.story.grants = true
	s.tellGrant(b)
}

// Released tells that the grant of a sequence apart has been given back, if it was acquired here.
func (s *Sequence) Released(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.story.grants {
		s.story.grants, s.story.why = false, why
		s.tellEnd()
	}
}

func (m *Manager) begin(ctx context.Context, s *Sequence, waiter string) (tokenstore.Begin, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.provider.Begin(call, s.Record, s.Claim, waiter, tokenstore.Basis{})
}

// withdraw leaves the line, or gives back what was granted meanwhile. unsure: it may have been, without an answer.
func (m *Manager) withdraw(ctx context.Context, s *Sequence, w *Waiter, grant uint64, unsure bool) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	var left, released error
	w.Stood(s)
	if grant == 0 {
		left = m.provider.Leave(call, s.Record, s.Claim, w.ID())
	}
	if grant > 0 || unsure {
		released = m.provider.Release(call, s.Record, s.Claim, grant, false)
	}
	if released != nil {
		m.Owes(s)
	}
	if err := errors.Join(left, released); err != nil {
		m.log.Warn("session not given back yet", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}
