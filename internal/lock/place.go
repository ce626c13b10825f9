package lock

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A place in line may outlast its wait at the store: a replica that becomes the primary may not have got that it was
// left, nor may a server that starts again; and a question that was given up may be answered late. The session would be reserved
// for one place after the other, each time for as long as a reservation lasts, and nobody take it up.
//
// A waiter has another name for each command that has stood in line. So the proxy knows such a place when it sees one: by its
// own name in it, and since no waiter has that name. It gives it up when the session is handed to it (Woken), and it looks for
// such places where its waiters have lately stood when the store may have become another one (clearPlaces).

const (
	// placesLeast and placesFor bound what is remembered: at least that many waiters that have left, or as long as that; at most
	// twice of both. Of others the reservation ends by itself.
	placesLeast = 4096
	placesFor   = 30 * time.Second
	// sweepers is how many lines are looked at at a time.
	sweepers = 8
	// sweepEvery is the least time between the ends of a look and the beginning of the next one.
	sweepEvery = 250 * time.Millisecond
	// sweepFor bounds how long a line is tried that can't be looked at.
	sweepFor = 10 * time.Second
)

// Liner is a Provider that can say who stands in line.
type Liner interface {
	Line(ctx context.Context, r *tokenstore.Record) ([]tokenstore.Place, error)
}

// stood is where a waiter has stood in line.
type stood struct {
	record *tokenstore.Record
	claim  *tokenstore.Claim
}

// places are where waiters have stood that have left lately, by their names.
type places struct {
	mu         sync.Mutex
	young, old map[string][]stood
	since      time.Time // of young
	asked      bool      // for another look
	looks      bool      // there is one under way
}

// note remembers where a waiter has stood that had this name.
func (p *places) note(waiter string, at []stood) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.young == nil || len(p.young) >= placesLeast || now.Sub(p.since) > placesFor {
		p.old = p.young
		if now.Sub(p.since) > 2*placesFor {
			p.old = nil
		}
		p.young, p.since = map[string][]stood{}, now
	}
	p.young[waiter] = at
}

// of returns where a waiter has stood that had this name.
func (p *places) of(waiter string) []stood {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.young[waiter]; ok {
		return at
	}
	return p.old[waiter]
}

// sessions returns where any of them has stood, each session once.
func (p *places) sessions() []stood {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := map[recordKey]bool{}
	var all []stood
	for _, by := range []map[string][]stood{p.young, p.old} {
		for _, at := range by {
			for _, one := range at {
				if key := recordKeyOf(one.record); !known[key] {
					known[key] = true
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// Stood notes that the waiter may have got a place in a session's line at the store.
func (w *Waiter) Stood(s *Sequence) {
	if n := len(w.stood); n == 0 || w.stood[n-1].record != s.Record {
		w.stood = append(w.stood, stood{s.Record, s.Claim})
	}
}

// Rest says that the command is over for which the waiter may have stood in line: it stands in none any more.
func (w *Waiter) Rest() {
	if len(w.stood) > 0 {
		w.retire()
		w.name()
	}
}

// retire gives the waiter's name up.
func (w *Waiter) retire() {
	m := w.m
	if len(w.stood) > 0 {
		m.places.note(w.id, w.stood)
		w.stood = nil
	}
	m.waits.mu.Lock()
	defer m.waits.mu.Unlock()
	delete(m.waits.byID, w.id)
}

// stands reports whether a name in a line is that of a waiter that may stand there. A name that it has not is one of
// another proxy's, or was given up.
func (m *Manager) stands(waiter string) bool {
	m.waits.mu.Lock()
	defer m.waits.mu.Unlock()
	return m.waits.byID[strings.TrimSuffix(waiter, "b")] != nil
}

// names reports whether a waiter's name is one of this manager's.
func (m *Manager) names(waiter string) bool {
	id, _, ok := strings.Cut(waiter, ".")
	return ok && id == m.id
}

// handOn gives up what was handed to a waiter that has left.
func (m *Manager) handOn(waiter string) {
	for _, at := range m.places.of(waiter) {
		m.Detach(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			_ = m.provider.Leave(ctx, at.record, at.claim, waiter) // the reservation ends by itself
		})
	}
}

// clearPlaces gives up the places of waiters that have left, where some have stood lately. It does not wait.
func (m *Manager) clearPlaces() {
	store, ok := m.provider.(Liner)
	if !ok || m.outside != nil {
		return
	}
	p := &m.places
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	if !p.looks {
		p.looks = m.detach(func(ctx context.Context) {
			for p.again() {
				m.sweep(ctx, store)
				rest(ctx, sweepEvery)
			}
		})
	}
}

// again reports whether another look was asked for since the last one began.
func (p *places) again() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks, p.asked = p.asked, false
	return p.looks
}

// sweep looks at all lines in which waiters have lately stood.
func (m *Manager) sweep(ctx context.Context, store Liner) {
	until := time.Now().Add(sweepFor)
	given := 0
	for all := m.places.sessions(); len(all) > 0 && ctx.Err() == nil && time.Now().Before(until); {
		var mu sync.Mutex
		var failed []stood
		inParallel(sweepers, all, func(at stood) {
			n, err := m.clearLine(ctx, store, at)
			mu.Lock()
			defer mu.Unlock()
			if given += n; err != nil {
				failed = append(failed, at)
			}
		})
		if all = failed; len(all) > 0 {
			rest(ctx, ghostRetry)
		}
	}
	if given > 0 {
		m.log.LogAttrs(ctx, slog.LevelInfo, "places in line that had been left stood again at the store, and were given up", slog.Int("places", given))
	}
}

// clearLine gives up the places in a session's line that this proxy's waiters have left, and returns how many.
func (m *Manager) clearLine(ctx context.Context, store Liner, at stood) (given int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	line, err := store.Line(ctx, at.record)
	if err != nil {
		return 0, err
	}
	for _, p := range line {
		if !m.names(p.Waiter) || m.stands(p.Waiter) {
			continue
		}
		claim := tokenstore.NewClaim(p.Owner, p.Identity, at.claim.Lease, at.claim.TTL)
		if err := m.provider.Leave(ctx, at.record, claim, p.Waiter); err != nil {
			return given, err
		}
		given++
	}
	return given, nil
}
