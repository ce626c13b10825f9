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

// Leave ends the turn.
func (s *Sequence) Leave() { <-s.gate }
