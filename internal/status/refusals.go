package status

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// Of refusals that come in numbers, and of all others, so many are kept.
const (
	vainMost  = 128
	otherMost = 256
)

// many reports whether a refusal is of those that come in numbers: of who waited in vain, or where nothing is enforced.
func many(e *event.Event) bool { return e.Error == event.Locked || e.Kind == event.WouldRefuse }

// Of those that have no error, the words that stand in its place.
const (
	observed = "OBSERVED" // it went on: its rule only observes
	dropped  = "NIL"      // the client's own WATCH said so
)

// wordOf is the first word of the error.
func wordOf(e *event.Event) string {
	switch {
	case e.Kind == event.WouldRefuse:
		return observed
	case e.Error == "":
		return dropped
	}
	return e.Error
}

// refusal is a refused command and its story.
type refusal struct {
	number  uint64
	id      ID
	name    Name
	at      time.Time
	word    string // first of the error
	reason  string
	command string
	newest  uint64
	other   event.Party
	own     turn
	others  []turn // oldest first
}

// refusals are the last ones.
type refusals struct {
	newest atomic.Uint64 // number

	mu    sync.Mutex
	vain  ring
	other ring
}

// ring keeps the newest of what it is given.
type ring struct {
	all  []*refusal
	next int
}

func (r *ring) add(one *refusal, most int) {
	if len(r.all) < most {
		r.all = append(r.all, one)
		return
	}
	r.all[r.next] = one
	r.next = (r.next + 1) % most
}

func (r *refusals) add(e *event.Event, id ID, at time.Time, own turn, others []turn) {
	one := &refusal{
		id: id, name: Name{DB: e.DB, Slot: e.Slot, Rule: e.Rule}, at: at, word: wordOf(e), reason: e.Reason, command: e.Command,
		newest: e.Newest, other: kept(e.Other), own: own, others: others,
	}
	one.name.Session, one.name.Clipped = clip(e.Session, sessionMost)
	r.mu.Lock()
	defer r.mu.Unlock()
	one.number = r.newest.Load() + 1
	if many(e) {
		r.vain.add(one, vainMost)
	} else {
		r.other.add(one, otherMost)
	}
	r.newest.Store(one.number)
}

// since returns the refusals with numbers above one, newest first.
func (r *refusals) since(number uint64) []*refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*refusal
	for _, one := range slices.Concat(r.vain.all, r.other.all) {
		if one.number > number {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *refusal) int { return int(int64(b.number) - int64(a.number)) })
	return all
}

func (r *refusals) find(number uint64) *refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ring := range [...]*ring{&r.vain, &r.other} {
		for _, one := range ring.all {
			if one.number == number {
				return one
			}
		}
	}
	return nil
}
