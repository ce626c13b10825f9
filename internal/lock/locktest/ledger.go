package locktest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// ledger has every hold of a sub-test, and knows from them alone what went wrong:
//
//	called ── Acquire ── returned ═══ the owner believes in its hold ═══ end
//
// A hold's end is when its owner gives it up (before it releases it, when it learns that it is lost, or before an operator
// ends it), but at most its Until: nobody is promised more. Of two holds of a session, the one with the
// larger grant returns after the other one's end.
type ledger struct {
	mu      sync.Mutex
	entries []*entry
}

type entry struct {
	ledger           *ledger
	session          string
	hold             provider.Hold
	grant            uint64
	called, returned time.Time
	ended            time.Time // zero until the owner gives it up
}

// enter writes a new hold into the ledger.
func (l *ledger) enter(session string, hold provider.Hold, called time.Time) *entry {
	e := &entry{ledger: l, session: session, hold: hold, grant: hold.Grant(), called: called, returned: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	return e
}

// end notes that the owner gives its hold up now. The first time counts.
func (e *entry) end() {
	ended := earlier(time.Now(), e.hold.Until())
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	if e.ended.IsZero() {
		e.ended = ended
	}
}

// faults says what contradicts the promises.
func (l *ledger) faults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := map[string][]*entry{}
	for _, e := range l.entries {
		if e.ended.IsZero() {
			e.ended = earlier(time.Now(), e.hold.Until())
		}
		sessions[e.session] = append(sessions[e.session], e)
	}
	var faults []string
	for session, entries := range sessions {
		slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(a.grant, b.grant) })
		for _, fault := range contradictions(entries) {
			faults = append(faults, fmt.Sprintf("session %.60q: %s", session, fault))
		}
	}
	return faults
}

// contradictions are those of one session's entries, sorted by grant.
func contradictions(entries []*entry) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for i, e := range entries {
		if e.grant == 0 || e.grant >= 1<<53 {
			say("grant %d is not between 0 and 2^53", e.grant)
		}
		for _, before := range entries[:i] {
			switch {
			case before.grant == e.grant:
				say("grant %d was given twice", e.grant)
			case before.called.After(e.returned):
				say("grant %d was given after grant %d", before.grant, e.grant)
			case before.ended.After(e.returned):
				say("grant %d was given %v before the end of grant %d", e.grant, before.ended.Sub(e.returned), before.grant)
			}
		}
	}
	return faults
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
