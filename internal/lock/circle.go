package lock

import (
	"context"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// circles is what a Provider can do besides, to find owners that wait for each other; tokenstore.Store
// has the meaning of each.
type circles interface {
	Waits(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string, left time.Duration) error
	WaitsNoMore(ctx context.Context, c *tokenstore.Claim) error
	InCircle(ctx context.Context, r *tokenstore.Record, owner string) (circle tokenstore.Circle, victim bool, err error)
}

// circleEvery is how often a circle is looked for anew, in case a holder has changed unseen.
const circleEvery = 250 * time.Millisecond

// untangle looks, as long as ctx lasts, whether the waiter's owner waits for somebody who waits for it, and tells
// the waiter then.
func (w *Waiter) untangle(ctx context.Context, at circles) {
	s := w.sequence
	log := w.m.log.With("rule", s.Record.Rule, "session", s.Record.Session, "client", s.Claim.Client)
	if err := at.Waits(ctx, s.Record, s.Claim, w.asks, s.Rule.Wait+time.Second); err != nil {
		if ctx.Err() == nil {
			log.Warn("circles of waiting clients can't be found", "error", err)
		}
		return
	}
	defer w.m.Detach(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_ = at.WaitsNoMore(ctx, s.Claim) // it ends by itself
	})
	for {
		circle, victim, err := at.InCircle(ctx, s.Record, s.Claim.Owner)
		if err == nil && victim && s.owner.Load().lingers(circle) {
			s.Yield(circle) // nothing is lost with it
			victim = false
		}
		if err == nil && victim {
			log.Warn("clients wait for each other's sessions: one gives way")
			select {
			case w.Stuck <- circle:
			default:
			}
			return
		}
		if !rest(ctx, circleEvery) {
			return
		}
	}
}

// lingers reports whether the owner holds a session only in case that it comes back to it.
func (o *Owner) lingers(c tokenstore.Circle) bool {
	return slices.ContainsFunc(o.all(), func(s *Sequence) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.Record.DB == c.DB && s.Record.Keys()[0] == c.Token && s.state == Held && s.lingering
	})
}

// Yield gives back the session that closes a circle, for one that has left the line for this sequence's: what was read
// of it may be written if the other does not come to it after all.
func (s *Sequence) Yield(c tokenstore.Circle) {
	for _, other := range s.owner.Load().all() {
		if other.Record.DB == c.DB && other.Record.Keys()[0] == c.Token {
			s.manager.Detach(other.lapseNow)
		}
	}
}

// lapseNow gives the hold back; what was read may still be written.
func (s *Sequence) lapseNow(ctx context.Context) {
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer s.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(ctx, false)
	if s.state == Held {
		s.lapse()
	}
}
