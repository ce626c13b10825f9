package lock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A hold may stand that nobody has: the store could not be asked to end it, since it was down, or another was about to take its place. It
// may even have been granted without its owner hearing of it, when the connection broke. It stands until its lease ends, in
// everybody's way. So the proxy goes on asking until the store answers, or the lease is over.

// owed are sequences for which the store may have a hold that nobody has.
type owed struct {
	mu     sync.Mutex
	until  map[*Sequence]time.Time // when its lease is over
	asking bool
}

// Owes has what the store may hold for the sequence's owner, who does not have it, given back as soon as the store answers.
// It does not wait. Beyond 16,384 at a time leases end them.
func (m *Manager) Owes(s *Sequence) {
	if _, ok := m.provider.(inspector); !ok || m.elsewhere(s.Record) != nil {
		return
	}
	o := &m.owed
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.until == nil {
		o.until = map[*Sequence]time.Time{}
	}
	if len(o.until) >= maxLately {
		return
	}
	o.until[s] = time.Now().Add(s.Claim.Lease)
	if !o.asking {
		o.asking = m.detach(m.settleOwed)
	}
}

// take returns what is owed still, and none if that is the end of it.
func (o *owed) take(now time.Time) []*Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []*Sequence
	for s, until := range o.until {
		if now.After(until) {
			delete(o.until, s)
			continue
		}
		all = append(all, s)
	}
	o.asking = len(all) > 0
	return all
}

func (o *owed) settled(s *Sequence) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.until, s)
}

// settleOwed gives back what is owed until nothing is.
func (m *Manager) settleOwed(ctx context.Context) {
	for rest(ctx, ghostRetry) {
		all := m.owed.take(time.Now())
		if len(all) == 0 {
			return
		}
		inParallel(ghostHunters, all, func(s *Sequence) {
			if m.settle(ctx, s) {
				m.owed.settled(s)
			}
		})
	}
}

// settle gives back what is owed of one sequence, with nobody else inside: what its owner takes meanwhile is his. It reports
// whether nothing is owed any more.
func (m *Manager) settle(ctx context.Context, s *Sequence) bool {
	if !s.apart {
		if !s.enter(ctx) {
			return false
		}
		defer s.Leave()
		if s.State() == Held {
			return true
		}
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := m.provider.(inspector).Inspect(call, s.Record, 0)
	if err != nil {
		return false
	}
	h := now.Holder
	if !h.Held() || h.Owner != s.Claim.Owner || h.Grant == m.heldNow()[recordKeyOf(s.Record)] {
		return true
	}
	if err := m.provider.Release(call, s.Record, s.Claim, h.Grant, false); err != nil {
		return errors.Is(err, tokenstore.ErrLost)
	}
	m.log.LogAttrs(ctx, slog.LevelInfo, "a session could not be given back, and was when the store answered again",
		slog.String("rule", s.Record.Rule), slog.String("session", s.Record.Session), slog.Uint64("grant", h.Grant))
	return true
}
