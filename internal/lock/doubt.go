package lock

import (
	"context"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Doubted ends the sequence at a write of which nobody knows whether it was applied. As at a refusal, what was read counts no
// more; the hold, if it still stands, is given back, so that no other write ever has that one's token.
func (s *Sequence) Doubted(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart {
		return
	}
	s.release(ctx, false)
	if s.state != Broken {
		s.breakOff(ReasonUpstream, 0, tokenstore.Holder{})
	}
	_ = s.report() // which the caller does
}

// which says which write under its grant a commit is, for people. One that holds nothing is the first under a grant of its own.
func which(c *tokenstore.Commit) uint64 {
	if c.Grant == 0 {
		return 1
	}
	return c.Seq
}
