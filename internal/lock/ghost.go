package lock

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A replica that becomes the primary may not have got what was written last: a hold that was given back stands again
// there, until its lease ends, and nobody will ever give it back. So the proxy remembers for the length of a lease of
// which sessions it has held, and when the primary is another it looks whether one of its own holds stands there that
// it does not know to have.

const (
	// maxLately bounds the sessions that are remembered. Of more, any one is forgotten: its lease ends it.
	maxLately = 16384
	// ghostHunters is how many sessions are looked at at a time.
	ghostHunters = 4
	// ghostRetry is the time between two attempts to look.
	ghostRetry = 200 * time.Millisecond
)

// inspector is a Provider that can say who holds a session.
type inspector interface {
	Inspect(ctx context.Context, r *tokenstore.Record, first int) (tokenstore.Inspection, error)
}

// Inspector is one that knows the newest grant besides.
type Inspector interface {
	inspector
	// Newest is the largest grant that the proxy has seen.
	Newest() uint64
}

// lately are sessions that were held, until their lease is over.
type lately struct {
	mu sync.Mutex
	by map[recordKey]heldLately // nil: nobody wants to know
}

type heldLately struct {
	record *tokenstore.Record
	claim  *tokenstore.Claim
	until  time.Time
}

// Follows says that the store may become another one that lacks what was written last (see Moved), before the manager
// has any owners.
func (m *Manager) Follows() { m.lately.by = map[recordKey]heldLately{} }

// note remembers that the sequence's hold has ended.
func (l *lately) note(s *Sequence) {
	if l.by == nil {
		return
	}
	now := time.Now()
	key := recordKeyOf(s.Record)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.by[key]; !known && len(l.by) >= maxLately {
		l.forget(now)
	}
	l.by[key] = heldLately{s.Record, s.Claim, now.Add(s.Claim.Lease)}
}

// forget makes room. Called with mu held.
func (l *lately) forget(now time.Time) {
	for key, h := range l.by {
		if now.After(h.until) {
			delete(l.by, key)
		}
	}
	for key := range l.by {
		if len(l.by) < maxLately {
			return
		}
		delete(l.by, key)
	}
}

// take returns those whose leases are not over, and forgets all.
func (l *lately) take(now time.Time) []heldLately {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []heldLately
	for _, h := range l.by {
		if now.Before(h.until) {
			all = append(all, h)
		}
	}
	clear(l.by)
	return all
}

// Moved says that the store is another one now, which may lack what was written last: waiters take their place in line again, and holds
// and places that were given back are given back anew. It does not wait.
func (m *Manager) Moved() {
	m.requeueAll()
	m.clearPlaces()
	if o := m.spans.outside; o != nil {
		if home, is := o.Locker.(*Home); is {
			home.moved()
		}
	}
	store, ok := m.provider.(Inspector)
	if !ok || m.outside != nil {
		return
	}
	newest := store.Newest() // all that is granted from now on is above it
	m.detach(func(ctx context.Context) {
		m.hunt(ctx, store, newest, m.lately.take(time.Now()))
	})
}

// hunt releases what of these sessions is held by owners of this proxy that have given it back.
func (m *Manager) hunt(ctx context.Context, store Inspector, newest uint64, all []heldLately) {
	held := m.heldNow()
	inParallel(ghostHunters, all, func(h heldLately) {
		for {
			err := m.lay(ctx, store, newest, h, held[recordKeyOf(h.record)])
			if err == nil || time.Now().After(h.until) || !rest(ctx, ghostRetry) {
				return
			}
		}
	})
}

// lay ends a session's ghost, if it has one.
func (m *Manager) lay(ctx context.Context, store Inspector, newest uint64, h heldLately, held uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, err := store.Inspect(ctx, h.record, 0)
	if err != nil {
		return err
	}
	ghost := now.Holder
	if !ghost.Held() || ghost.Grant > newest || ghost.Grant == held || !strings.HasPrefix(ghost.Owner, m.id+":") {
		return nil
	}
	claim := tokenstore.NewClaim(ghost.Owner, ghost.Identity, h.claim.Lease, h.claim.TTL)
	if err := m.provider.Release(ctx, h.record, claim, ghost.Grant, false); err != nil && !errors.Is(err, tokenstore.ErrLost) {
		return err
	}
	m.log.LogAttrs(ctx, slog.LevelInfo, "a hold that was given back stood again at the new primary, and was given back anew",
		slog.String("rule", h.record.Rule), slog.String("session", h.record.Session), slog.Uint64("grant", ghost.Grant))
	return nil
}

// heldNow are the grants under which this proxy's owners hold sessions.
func (m *Manager) heldNow() map[recordKey]uint64 {
	held := map[recordKey]uint64{}
	for _, o := range m.everybody() {
		if o.Holds() == 0 {
			continue
		}
		for _, s := range o.all() {
			s.mu.Lock()
			if s.state == Held {
				held[recordKeyOf(s.Record)] = s.grant
			}
			s.mu.Unlock()
		}
	}
	return held
}
