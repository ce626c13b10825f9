package lock

import "context"

// TryEnter takes the turn if nobody is inside.
func (s *Sequence) TryEnter() bool {
	select {
	case s.gate <- struct{}{}:
		s.Entered()
		return true
	default:
		return false
	}
}

// enter waits for the turn until ctx ends, for what is done to a sequence without a command of its owner's.
func (s *Sequence) enter(ctx context.Context) bool {
	select {
	case s.gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Turn returns the channel to send to in order to enter, for callers that wait for other things
// as well; they say Entered then.
func (s *Sequence) Turn() chan<- struct{} { return s.gate }

// Waiting counts who comes to wait for the turn (1) or goes (-1), and returns how many wait.
func (s *Sequence) Waiting(n int64) int64 {
	waiting := s.waiting.Add(n)
	if n > 0 {
		s.lending.want()
	}
	return waiting
}

// Anew returns the sequence to go on with for one that was entered: itself, unless its owner has
// dropped it to make room, or had another succeed it, before it was entered.
func (s *Sequence) Anew() *Sequence {
	if !s.isDropped() {
		return s
	}
	return s.owner.Load().Sequence(s.Record.Area, s.Rule, []byte(s.Record.Session))
}

func (s *Sequence) isDropped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Entered notes that somebody is inside.
func (s *Sequence) Entered() {
	if s.group != nil {
		s.group.list(s)
	}
}

// Leave ends the turn.
func (s *Sequence) Leave() {
	s.lending.lend(nil)
	s.reading.Store(false)
	s.served()
	if s.Elsewhere() {
		s.Drop()
	}
	if s.group != nil {
		s.group.unlist(s)
	}
	<-s.gate
	if s.group != nil {
		s.group.stir(s)
	}
}
