package lock

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A read that takes no hold looks at the last token stored, and a write that follows is applied if that is
// still the last one. The sequence is Seen in between.

// locks reports whether a read takes the session's hold. Called with mu held.
func (s *Sequence) locks() bool {
	return s.Rule.Mode != rule.ModeFence
}

// Locks reports whether a read takes the session's hold.
func (s *Sequence) Locks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locks()
}

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
	}
	if made {
		s.made = now
	}
	s.grant, s.seq, s.seen = 0, 0, t.Stamp()
	s.used = now
	s.setState(Seen)
}
