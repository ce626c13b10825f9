package lock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Give hands the sequence a hold that its grant is about to be registered of. It is given back at the end of the turn
// unless the sequence was Granted.
func (s *Sequence) Give(h provider.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given = s.spanned(h)
}

// Given returns the grant to register; 0: there is none, or its hold is over already.
func (s *Sequence) Given() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil || isOver(s.given) {
		s.drop()
		return 0
	}
	return s.given.Grant()
}

// Drop gives back what was given and not registered.
func (s *Sequence) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

func (s *Sequence) drop() {
	if h := s.given; h != nil {
		s.given = nil
		s.manager.giveBack(s.manager.elsewhere(s.Record), h)
	}
}

// Behind drops a grant that is not newer than the record's, so that another is asked for. The error, a *BehindError, says that
// the provider's grants stay below.
func (s *Sequence) Behind(b tokenstore.Begin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := &BehindError{Provider: s.manager.elsewhere(s.Record).Name, Newest: b.Newest}
	if s.given != nil {
		err.Grant = s.given.Grant()
	}
	if s.manager.spans.dissolve(s.given) { // who shares it would not let another be granted
		s.manager.Detach(func(context.Context) { s.settleSpan() })
	}
	s.drop()
	s.above = b.Above
	if s.tries++; s.tries >= behindMost {
		s.tries = 0
		return err
	}
	return nil
}

// behindMost is how many grants in a row may be below the record's: one may be overtaken by its successor, or by a grant that
// was used up.
const behindMost = 8

// take makes what was given the sequence's hold. Called with mu held.
func (s *Sequence) take() {
	h := s.given
	if h == nil {
		return
	}
	s.letGo()
	s.given, s.hold, s.tries = nil, h, 0
	s.over = make(chan struct{})
	over := s.over
	s.manager.Detach(func(context.Context) {
		select {
		case <-h.Lost():
			s.lost(h)
		case <-over:
		case <-s.manager.closing:
		}
	})
}

// letGo gives the hold back to the provider. Called with mu held.
func (s *Sequence) letGo() {
	if h := s.hold; h != nil {
		s.hold = nil
		close(s.over)
		s.manager.giveBack(s.manager.elsewhere(s.Record), h)
	}
}

// lost breaks the sequence whose hold the provider says is over.
func (s *Sequence) lost(h provider.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold != h || s.state != Held {
		return
	}
	grant := s.grant
	s.log(slog.LevelWarn, "hold lost at the lock provider", "provider", s.manager.elsewhere(s.Record).Name)
	s.breakOff(ReasonLost, 0, tokenstore.Holder{})
	s.manager.Detach(func(ctx context.Context) { // so that the store names nobody any more
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_ = s.manager.provider.Release(ctx, s.Record, s.Claim, grant, false) // its lease ends it
	})
}

// renewOutside extends the hold at the provider, and reports whether it stands.
func (s *Sequence) renewOutside(ctx context.Context, grant uint64) bool {
	s.mu.Lock()
	h := s.hold
	current := s.state == Held && s.grant == grant && h != nil
	s.mu.Unlock()
	if !current {
		return false
	}
	call, cancel := context.WithTimeout(ctx, min(callTimeout, s.Claim.Lease/3))
	err := s.manager.elsewhere(s.Record).call("renew", func() error { return h.Renew(call) })
	cancel()
	switch {
	case err == nil:
		return true
	case errors.Is(err, provider.ErrLost), isOver(h):
		s.lost(h)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == h {
		s.log(slog.LevelWarn, "hold not renewed at the lock provider, trying again",
			"left", time.Until(h.Until()).Round(time.Millisecond), "error", err)
		s.renewAt = time.Now().Add(min(s.Claim.Lease/10, time.Second))
		s.schedule(s.next())
		s.tell(event.Event{Kind: event.Renew, Reason: event.Unasked})
	}
	return false
}

// isOver reports whether a hold's lease has ended, or the provider has said that it is over.
func isOver(h provider.Hold) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return !time.Now().Before(h.Until())
	}
}

// Passed takes in a write that went unguarded while the provider could not be asked: what else was read is stale.
func (s *Sequence) Passed(w Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellCommit(0, 0, event.Unguarded)
	s.reads.write(w.Keys)
	s.reads.complete()
	s.reads.supersede(false)
	s.setState(Free)
}

// KinHolder returns a hold of another connection of the same client, for who would have to wait for it.
func (s *Sequence) KinHolder() (tokenstore.Holder, bool) {
	g := s.group
	if g == nil {
		return tokenstore.Holder{}, false
	}
	now := g.owner.peek(s.key())
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*Sequence
	if k := g.kin[s.key()]; k != nil {
		all = append(all, k.all...)
	}
	if now != nil {
		all = append(all, now)
	}
	for _, f := range all {
		if f == s || f.Claim.Owner == s.Claim.Owner {
			continue
		}
		f.mu.Lock()
		holds, grant, since := f.state == Held, f.grant, f.since
		f.mu.Unlock()
		if holds {
			return tokenstore.Holder{Identity: f.Claim.Identity, Owner: f.Claim.Owner, Grant: grant, Since: since}, true
		}
	}
	return tokenstore.Holder{}, false
}

// Stand has the waiter in line at the provider, until Rise: circles are looked for meanwhile.
func (w *Waiter) Stand(s *Sequence) {
	w.sequence, w.asks = s, ""
	w.untangle(s)
	s.lineUp(true)
}

// Rise ends that.
func (w *Waiter) Rise() {
	if w.search != nil {
		w.search.end()
		w.Stuck = nil
	}
	w.sequence.lineUp(false)
}
