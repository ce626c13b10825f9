package lock

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Tasks that share an owner can't be told apart by their commands. Where one has read a key before a write of
// another, its own write is stale; but so it is not known of the next write whose it is, if a third task has read
// meanwhile. While the first may still be about to write, the next write is refused: how long that is is learned from the
// writes whose read is known.

// hesitation is the least time that a task is given from a read to its write: one whose machine is busy may take longer
// than ever before.
const hesitation = 2 * time.Second

// span is how long after a read its write may still come, if several tasks share the owner, or have been seen to
// share its only connection; else 0. Until that
// was learned it is the rule's idle. Called with mu held.
func (s *Sequence) span() time.Duration {
	o := s.owner.Load()
	if !o.shared && !o.interleaves.Load() {
		return 0
	}
	longest, ok := s.paceOf().longest(s.Rule)
	if !ok {
		return s.Rule.Idle
	}
	return min(max(4*longest, hesitation), s.Rule.Idle)
}

// paced notes how long a task took from its read to its write.
func (s *Sequence) paced(d time.Duration) { s.paceOf().note(s.Rule, d) }

// paceOf is who knows: all connections of a client go at its pace.
func (s *Sequence) paceOf() *Owner {
	if s.group != nil {
		return s.group.owner
	}
	return s.owner.Load()
}

func (o *Owner) longest(r *rule.Rule) (time.Duration, bool) {
	o.paces.Lock()
	defer o.paces.Unlock()
	d, ok := o.pace[r]
	return d, ok
}

// note remembers the longest time, and forgets it slowly.
func (o *Owner) note(r *rule.Rule, d time.Duration) {
	o.paces.Lock()
	defer o.paces.Unlock()
	if o.pace == nil {
		o.pace = map[*rule.Rule]time.Duration{}
	}
	o.pace[r] = max(d, o.pace[r]-(o.pace[r]-d)/256)
}
