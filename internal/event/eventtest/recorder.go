// Package eventtest listens to events in tests, and knows what they promise.
package eventtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// Recorder is a sink that keeps what it is told.
type Recorder struct {
	mu     sync.Mutex
	events []event.Event
}

// Event implements event.Sink.
func (r *Recorder) Event(e *event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, *e)
}

// All returns what was told so far.
func (r *Recorder) All() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Of returns what was told of a kind so far.
func (r *Recorder) Of(kind event.Kind) []event.Event {
	return slices.DeleteFunc(r.All(), func(e event.Event) bool { return e.Kind != kind })
}

// Line is an event in short: its kind, and the reason if it has one.
func Line(e *event.Event) string {
	line := string(e.Kind)
	if e.Error != "" {
		line += " " + e.Error
	}
	if e.Reason != "" {
		line += " " + e.Reason
	}
	return line
}

// Story returns what was told of a client, in short.
func (r *Recorder) Story(client string) string {
	var lines []string
	all := r.All()
	for i := range all {
		if e := &all[i]; e.Owner.Client == client {
			lines = append(lines, Line(e))
		}
	}
	return strings.Join(lines, ", ")
}

// Check fails the test unless what was told keeps what the package promises; over says that everything has ended.
func (r *Recorder) Check(t testing.TB, over bool) {
	t.Helper()
	waits, holds, last := map[uint64]bool{}, map[uint64]bool{}, map[uint64]time.Time{} // by sequence
	all := r.All()
	for i := range all {
		e := &all[i]
		broken := func(what string) {
			t.Helper()
			t.Errorf("event %d, %s of sequence %d (%+v): %s", i, Line(e), e.Sequence, *e, what)
		}
		if e.At.IsZero() || e.Took < 0 {
			broken("it says no time")
		}
		if e.Sequence == 0 && e.Kind != event.Refuse && !e.Apart {
			broken("it belongs to no sequence")
		}
		if e.Sequence != 0 && e.At.Before(last[e.Sequence]) {
			broken("it goes back in time")
		}
		last[e.Sequence] = e.At
		if err := reasoned(e); err != "" {
			broken(err)
		}
		switch e.Kind {
		case event.Wait:
			if waits[e.Sequence] || holds[e.Sequence] {
				broken("it waits or holds already")
			}
			waits[e.Sequence] = true
		case event.Quit:
			if !waits[e.Sequence] {
				broken("it did not wait")
			}
			delete(waits, e.Sequence)
		case event.Grant:
			if waits[e.Sequence] != (e.Took > 0) || holds[e.Sequence] {
				broken("it did not wait, or holds already")
			}
			delete(waits, e.Sequence)
			if holds[e.Sequence] = true; e.Apart {
				delete(holds, e.Sequence)
			}
			if e.Grant == 0 {
				broken("it says no grant")
			}
		case event.Release, event.Break:
			if !holds[e.Sequence] && !e.Apart {
				broken("it does not hold")
			}
			delete(holds, e.Sequence)
			if e.Grant == 0 {
				broken("it says no grant")
			}
		case event.Renew:
			if !holds[e.Sequence] && !e.Apart {
				broken("it does not hold")
			}
		case event.Refuse, event.WouldRefuse, event.Read, event.Commit:
		default:
			broken("there is no such kind")
		}
	}
	if over && len(waits)+len(holds) > 0 {
		t.Errorf("without an end: the waits of sequences %v, the holds of %v", waits, holds)
	}
}

// reasoned says what is wrong with an event's reason, "" if nothing is.
func reasoned(e *event.Event) string {
	var known []string
	switch e.Kind {
	case event.Quit:
		known = event.QuitReasons()
	case event.Release:
		known = event.ReleaseReasons()
	case event.Break:
		known = event.BreakReasons()
	case event.WouldRefuse:
		known = event.FencedReasons()
	case event.Grant:
		known = []string{"", event.RecordLost}
	case event.Commit:
		known = []string{"", event.Unguarded}
	case event.Renew:
		known = []string{"", event.Unasked}
	case event.Refuse:
		switch e.Error {
		case event.Fenced, "":
			known = event.FencedReasons()
		case event.Locked:
			known = event.LockedReasons()
		case event.Down, event.Unknown, event.Denied:
			known = []string{""}
		default:
			return fmt.Sprintf("no refusal begins with %q", e.Error)
		}
	default:
		known = []string{""}
	}
	if !slices.Contains(known, e.Reason) {
		return fmt.Sprintf("%q is no reason for it", e.Reason)
	}
	return ""
}
