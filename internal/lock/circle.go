package lock

import (
	"context"
	"log/slog"
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

// search looks for circles during one wait. It may outlast that by a call, but reaches no later one: it has a channel of its
// own, and the next search begins when it is over, so that what a wait has said at the store is not taken back by the one before.
type search struct {
	sequence *Sequence
	waiter   string
	stuck    chan tokenstore.Circle
	end      context.CancelFunc
	over     chan struct{} // closed when it has taken back what it said
}

// untangle looks, until Unpark, whether the waiter's owner waits for somebody who waits for it, and tells the waiter then.
// An owner of several connections is in no circle: while one of them waits, another goes on.
func (w *Waiter) untangle(s *Sequence) {
	at, ok := w.m.provider.(circles)
	if !ok || s.apart || s.Shared() || s.owner.Load().Holds() == 0 {
		return
	}
	ctx, cancel := context.WithCancel(w.m.ctx)
	before := w.search
	now := &search{sequence: s, waiter: w.asks, stuck: make(chan tokenstore.Circle, 1), end: cancel, over: make(chan struct{})}
	w.search, w.Stuck = now, now.stuck
	w.m.Detach(func(detached context.Context) {
		defer close(now.over)
		if before != nil {
			<-before.over
		}
		if ctx.Err() != nil {
			return
		}
		now.run(ctx, at, w.m.log)
		detached, cancel := context.WithTimeout(detached, callTimeout)
		defer cancel()
		_ = at.WaitsNoMore(detached, s.Claim) // it ends by itself
	})
}

// run looks for a circle again and again, until there is one that the waiter can end, or ctx ends.
func (f *search) run(ctx context.Context, at circles, log *slog.Logger) {
	s := f.sequence
	log = log.With("rule", s.Record.Rule, "session", s.Record.Session, "client", s.Claim.Client)
	if err := at.Waits(ctx, s.Record, s.Claim, f.waiter, s.Rule.Wait+time.Second); err != nil {
		if ctx.Err() == nil {
			log.Warn("circles of waiting clients can't be found", "error", err)
		}
		return
	}
	for {
		circle, victim, err := at.InCircle(ctx, s.Record, s.Claim.Owner)
		if err == nil && victim && s.owner.Load().lingers(circle) {
			s.Yield(circle) // nothing is lost with it
			victim = false
		}
		if err == nil && victim {
			s.warn("clients wait for each other's sessions: one gives way", "client", s.Claim.Client)
			f.stuck <- circle
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
	if s.enter(ctx) {
		defer s.Leave()
		s.PutDown(ctx)
	}
}
