package proxy

import (
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A command has its turn on all its sequences at once, so that connections of one owner don't mix. It takes them in the order in which
// sessions are taken, and keeps those that it has while it waits for the next. But not while that takes as long as somebody else's
// hold: then whoever comes for one of them gets it (lock.Sequence.Lend), and the command begins anew when its wait is over.
//
//	turns ─▶ run ─▶ in line for one session ─▶ somebody comes for another turn: stepOut ─▶ granted: errAnew ─▶ turns …

var (
	// errAnew says that a command has stepped out of some of its sequences while it waited: it is to begin again.
	errAnew = errors.New("others had their turn meanwhile")
	// errLent says that somebody has come for one of the turns that a command had while it waited for the next.
	errLent = errors.New("somebody else wants the turn")
)

// turns waits for the client's turn on all sequences of a command.
func (c *client) turns(parts []part, start time.Time) error {
	c.turning = parts
	for i := 0; i < len(parts); {
		switch err := c.turn(&parts[i], start, parts[:i]); {
		case err == nil:
			i++
			continue
		case !errors.Is(err, errLent):
			return err
		}
		if err := c.turn(&parts[i], start, nil); err != nil {
			return err
		}
		if back(parts[:i]) {
			i++
			continue
		}
		stepOut(parts, nil)
		i = 0
	}
	return nil
}

// back takes turns that somebody came for meanwhile, unless one would have to be waited for: who waits keeps none that come later.
func back(parts []part) bool {
	for i := range parts {
		s, _ := parts[i].sequence.Present()
		if !s.TryEnter() {
			return false
		}
		if settled, _ := s.Settle(); !settled {
			s.Leave()
			return false
		}
		parts[i].entered(s)
	}
	return true
}

// turn waits for the client's turn on a sequence: other connections of the same owner may be
// inside. The client has its turn on those of lent, and may have to step out of them: errLent.
func (c *client) turn(q *part, start time.Time, lent []part) error {
	for {
		s, stirred := q.sequence.Present()
		left := s.Rule.Wait - time.Since(start)
		switch in, err := c.enter(s, left, stirred, lent); {
		case errors.Is(err, errStirred):
			continue
		case err != nil:
			return err
		case !in:
			return c.locked(s, tokenstore.Holder{}, start)
		}
		settled, stirred := s.Settle()
		if settled {
			q.entered(s)
			return nil
		}
		s.Leave()
		if stirred == nil {
			continue
		}
		if over, err := c.pause(stirred, left); err != nil {
			return err
		} else if over {
			return c.locked(s, tokenstore.Holder{}, start)
		}
	}
}

// entered notes that the command has its turn on a sequence. What it has taken before is its own no more if somebody else had a
// turn since.
func (q *part) entered(s *lock.Sequence) {
	q.taken = q.taken && s == q.left && s.Turns() == q.turns+1
	q.sequence, q.inside = s, true
}

// leaves notes that the command is about to end its turn.
func (q *part) leaves() {
	q.inside, q.left, q.turns = false, q.sequence, q.sequence.Turns()
}

// lookIn enters the sequence that the command has stepped out of, for it to give back what it has taken or was given there.
// It reports false if that is not its own any more: somebody is inside, or was.
func (q *part) lookIn() bool {
	s := q.left
	if s == nil || !s.TryEnter() {
		return false
	}
	if s.Turns() != q.turns {
		s.Leave()
		return false
	}
	q.sequence = s
	return true
}

// lend has the client hear on wanted when somebody comes for a turn that it has, but for its turn on keep. It returns what ends that.
func (c *client) lend(parts []part, keep *lock.Sequence) (end func()) {
	if len(parts) == 0 || len(parts) == 1 && parts[0].sequence == keep {
		return func() {}
	}
	if c.wanted == nil {
		c.wanted = make(chan struct{}, 1)
	}
	select {
	case <-c.wanted: // it was for another wait
	default:
	}
	for i := range parts {
		if parts[i].inside && parts[i].sequence != keep {
			parts[i].sequence.Lend(c.wanted)
		}
	}
	return func() {
		for i := range parts {
			if parts[i].inside && parts[i].sequence != keep {
				parts[i].sequence.Lend(nil)
			}
		}
	}
}

// stepOut ends the turns of a command that comes back, but for its turn on keep.
func stepOut(parts []part, keep *lock.Sequence) {
	for i := range parts {
		if q := &parts[i]; q.inside && q.sequence != keep {
			q.leaves()
			q.sequence.StepOut()
		}
	}
}

// leave ends the turns of a command.
func leave(parts []part) {
	for i := range parts {
		if q := &parts[i]; q.inside {
			q.leaves()
			q.sequence.Leave()
		}
	}
}

// steppedOut reports whether the command at hand has no turn on one of its sequences.
func (c *client) steppedOut() bool {
	for i := range c.turning {
		if !c.turning[i].inside {
			return true
		}
	}
	return false
}
