package lock

// TryEnter takes the turn if nobody is inside.
func (s *Sequence) TryEnter() bool {
	select {
	case s.gate <- struct{}{}:
		return true
	default:
		return false
	}
}

// Turn returns the channel to send to in order to enter, for callers that wait for other things
// as well.
func (s *Sequence) Turn() chan<- struct{} { return s.gate }

// Waiting counts who comes to wait for the turn (1) or goes (-1), and returns how many wait.
func (s *Sequence) Waiting(n int64) int64 { return s.waiting.Add(n) }

// Anew returns the sequence to go on with for one that was entered: itself, unless its owner has
// dropped it to make room, or had another succeed it, before it was entered.
func (s *Sequence) Anew() *Sequence {
	s.mu.Lock()
	dropped := s.dropped
	s.mu.Unlock()
	if !dropped {
		return s
	}
	return s.owner.Sequence(s.Record.DB, s.Rule, []byte(s.Record.Session))
}

// Leave ends the turn.
func (s *Sequence) Leave() { <-s.gate }
