package lock

import (
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A read that takes no hold looks at the last token stored, and a write that follows is applied if that is
// still the last one. The sequence is Seen in between.

// decide reports whether a read takes the session's hold. Called with mu held.
func (s *Sequence) decide(command string, now time.Time) bool {
	switch s.Rule.Mode {
	case rule.ModeFence, rule.ModeObserve:
		return false
	case rule.ModeAuto:
		learner := &s.manager.learner
		var locks bool
		s.kind, locks, s.patience = learner.locks(s.owner.Load(), s.Rule.Name, command, now)
		locks = (locks || s.must) && !s.steps
		learner.decided(s.Rule.Name, locks)
		return locks
	}
	return true
}

// try notes a read that a write may follow. Called with mu held.
func (s *Sequence) try(command uint64, now time.Time) {
	if s.kind == nil {
		return
	}
	learner := &s.manager.learner
	several := s.owner.Load().interleaves.Load() // then the same again is another task's
	for i, t := range s.trials {
		if t.kind != s.kind || several {
			continue
		}
		if t.command == command { // once more, and not written in between
			s.vain = !learner.ended(t, false, now) && !s.must
			s.trials[i] = learner.try(s.kind, command, now)
			if s.vain && s.state == Held {
				s.schedule(now)
			}
		}
		return
	}
	if len(s.trials) < maxTried {
		s.trials = append(s.trials, learner.try(s.kind, command, now))
	}
}

// followed notes that a write has followed what was read, by one task. Called with mu held.
func (s *Sequence) followed(now time.Time) {
	several := s.owner.Load().interleaves.Load()
	var ended []*kind
	s.trials = slices.DeleteFunc(s.trials, func(t *trial) bool {
		if several && slices.Contains(ended, t.kind) {
			return false
		}
		ended = append(ended, t.kind)
		s.manager.learner.ended(t, true, now)
		return true
	})
}

// StepAside makes the next read take no hold, where the rule's mode leaves that open, and reports whether it does.
func (s *Sequence) StepAside() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = s.Rule.Mode == rule.ModeAuto
	return s.steps
}

// Locks reports whether a read that changes something beside takes the session's hold.
func (s *Sequence) Locks() bool { return s.Rule.Mode == rule.ModeLock }

// basis is what the reads so far stand on. Called with mu held.
func (s *Sequence) basis() tokenstore.Basis {
	switch s.state {
	case Held, Ended:
		return tokenstore.Basis{Grant: s.grant}
	case Seen:
		return tokenstore.Basis{Stored: s.seen}
	default:
		return tokenstore.Basis{}
	}
}

// Made reports whether the session's record is there and will be for long, so that a look need not make it.
func (s *Sequence) Made(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.made.IsZero() && now.Sub(s.made) < s.Claim.TTL/4
}

// Unmade notes that the record is not there, though it was thought to be.
func (s *Sequence) Unmade() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = time.Time{}
}

// Looked takes in a look at the record, before the read behind it. made says that the look has made
// sure that the record stays.
func (s *Sequence) Looked(t tokenstore.Token, made bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.state == Ended && t.Grant == s.grant || s.state == Seen && t.Stamp() == s.seen
	if !current {
		s.reads.supersede(s.pending)
		s.story.told = true // what is read now is another sequence
	}
	s.story.asked = now
	if made {
		s.made = now
	}
	s.grant, s.seq, s.seen = 0, 0, t.Stamp()
	s.used = now
	s.setState(Seen)
}

// ReadOnly reports whether the sequence has read these keys (as hashes) alone, over one connection, and some of them after
// since: then a refused check says that somebody has come since then.
func (s *Sequence) ReadOnly(keys []uint64, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state != Free && s.state != Broken && len(s.members) <= 1 && s.reads.only(keys, since)
}
