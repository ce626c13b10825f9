package status

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

const (
	// hotMost is how many sessions a shard counts at a time, and hotAges how many times there are in an hour.
	hotMost = 8
	hotAges = 4
	hotAge  = time.Hour / hotAges
)

// heat is what makes a session hot.
type heat struct {
	waits, refusals uint32
	waited          time.Duration
}

func (h *heat) add(o heat) {
	h.waits += o.waits
	h.refusals += o.refusals
	h.waited += o.waited
}

// hot counts the sessions that are waited for and refused most, by the space-saving algorithm: who comes new takes the
// place of the least, and its count. So a session that is really hot is there, and over says by how much a count may be too
// high. Its methods are called with the shard's lock.
type hot struct {
	ages [hotAges]hotTime
}

// hotTime is a quarter of an hour.
type hotTime struct {
	start   int64
	entries []hotEntry
}

type hotEntry struct {
	id    uint64
	name  Name
	count uint32 // of waits and refusals
	over  uint32
	heat  heat // since it is here
}

func (h *hot) count(id uint64, e *event.Event, at time.Time, what heat) {
	n := what.waits + what.refusals
	start := at.UnixNano() / int64(hotAge)
	age := &h.ages[start%hotAges]
	if age.start != start {
		age.start, age.entries = start, age.entries[:0]
	}
	entry := age.find(id)
	if entry == nil {
		if n == 0 {
			return
		}
		entry = age.take()
		over := entry.count
		*entry = hotEntry{id: id, name: Name{DB: e.DB, Slot: e.Slot, Rule: e.Rule}, count: over, over: over}
		entry.name.Session, entry.name.Clipped = clip(e.Session, sessionMost)
	}
	entry.count += n
	entry.heat.add(what)
}

func (a *hotTime) find(id uint64) *hotEntry {
	for i := range a.entries {
		if a.entries[i].id == id {
			return &a.entries[i]
		}
	}
	return nil
}

// take returns the place for a new entry: a free one, or that of the least.
func (a *hotTime) take() *hotEntry {
	if len(a.entries) < hotMost {
		a.entries = append(a.entries, hotEntry{})
		return &a.entries[len(a.entries)-1]
	}
	least := &a.entries[0]
	for i := range a.entries {
		if a.entries[i].count < least.count {
			least = &a.entries[i]
		}
	}
	return least
}
