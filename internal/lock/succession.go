package lock

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Under returns the sequence with which a command under r goes on. A sequence under way keeps the rule it began with;
// one that holds nothing is succeeded by one under r that remembers all that it has read. writes says that the command
// writes: that is written by the rule under which it was read.
func (s *Sequence) Under(r *rule.Rule, writes bool) *Sequence {
	if s.Rule == r || !s.TryEnter() {
		return s // or somebody is inside, and so under way
	}
	defer s.Leave()
	o := s.owner.Load()
	o.mu.Lock()
	defer o.mu.Unlock()
	if g := s.group; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped || s.underWay() || s.state != Free && writes || s.owner.Load() != o || o.sequences[s.key()] != s {
		return s
	}
	next := o.newSequence(s.Record, r)
	if next.group != s.group && s.state != Free {
		return s // another client's, until it has nothing to remember
	}
	listed := s.listed
	if listed {
		s.group.remove(s)
	}
	next.inherit(s)
	s.dropped = true
	o.sequences[s.key()] = next
	if listed && next.group == s.group {
		next.group.add(next)
	}
	delete(o.claims, s.Rule)
	return next
}

// underWay reports whether the hold stands, or its end has not been reported. Called with mu held.
func (s *Sequence) underWay() bool { return s.state == Held || s.state == Broken }

// inherit takes over what old, which holds nothing, remembers. Nobody else knows s yet, and old's mu is held.
func (s *Sequence) inherit(old *Sequence) {
	s.state, s.grant, s.seq, s.seen = old.state, old.grant, old.seq, old.seen
	s.reads, s.pending = old.reads, old.pending
	s.trials, s.must, s.steps = old.trials, old.must, old.steps
	s.used = old.used
	s.members = old.members
	s.story.number, s.story.told = old.story.number, old.story.told
	old.reads, old.trials, old.members = reads{}, nil, nil
	old.setState(Free)
}

// Open returns the owner's sequence on a session and its state, or nil if nothing depends on it.
func (o *Owner) Open(at tokenstore.Area, r *rule.Rule, session []byte) (*Sequence, State) {
	o.mu.Lock()
	s := o.sequences[sequenceKey{at, r.Name, string(session)}]
	o.mu.Unlock()
	if s == nil {
		return nil, Free
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.depends() {
		return nil, Free
	}
	return s, s.state
}

// depends reports whether a command of the owner may depend on the sequence. Called with mu held.
func (s *Sequence) depends() bool { return s.state != Free || s.reads.tainted() }

// HeldBefore reports whether the owner holds the session since before t.
func (s *Sequence) HeldBefore(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Held && s.since.Before(t)
}

// Outdate breaks a sequence off that holds nothing: whether what it has read is stale can't be told any more.
func (s *Sequence) Outdate() {
	if !s.TryEnter() {
		return // its owner has just begun anew
	}
	defer s.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.depends() && !s.underWay() {
		s.breakOff(ReasonRevised, 0, tokenstore.Holder{})
	}
}

// ReadElsewhere notes that a read command was answered again under another session, so that nothing depends on its
// answer under this one any more.
func (s *Sequence) ReadElsewhere(command uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.depends() && !s.underWay() && s.reads.forget(command) {
		s.reads.clear()
		s.setState(Free)
	}
}

// Open reports whether a command of an owner may depend on a sequence under a rule of which this is true.
func (m *Manager) Open(of func(*rule.Rule) bool) bool {
	for _, o := range m.everybody() {
		for _, s := range o.all() {
			s.mu.Lock()
			open := s.depends()
			s.mu.Unlock()
			if open && of(s.Rule) {
				return true
			}
		}
	}
	return false
}
