package demo

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// shortestLease keeps the demo short, and still lets an agent be late on a busy machine.
const shortestLease = 300 * time.Millisecond

// terms are the times of a demo: those of its rule, and of the pause.
type terms struct {
	lease, maxHold, wait, recordTTL time.Duration
	pause                           time.Duration // well past maxHold
}

// newTerms returns terms under which an agent that thinks for so long is never late unless it is
// paused.
func newTerms(think time.Duration) terms {
	lease := max(shortestLease, 3*think)
	return terms{
		lease: lease, maxHold: 2 * lease, wait: rule.Default().Wait, recordTTL: 6 * lease,
		pause: 3 * lease,
	}
}

// rule returns the rule that guards the keys with a prefix on these terms.
func (t terms) rule(prefix string) (*rule.Rule, error) {
	r := rule.Default()
	r.Mode = rule.ModeLock
	r.Name, r.Prefix = "demo", prefix
	r.Wait, r.Lease, r.MaxHold, r.Idle, r.RecordTTL = t.wait, t.lease, t.maxHold, t.maxHold, t.recordTTL
	return rule.Compile(r)
}
