package lock

import "sync"

// A command that touches several sessions has the turn on all of them. While it waits for one, in line or for the turn of somebody in
// line, it lends the other turns: who comes for one may be who it waits for. It steps out then, and begins anew when its wait is over.
// What it was granted meanwhile stays, unless somebody has used it.
//
//	Lend ─▶ another command wants the turn ─▶ StepOut ─▶ … ─▶ Turn, Settle ─▶ Turns tells whether anybody was inside

// lending is how whoever has the turn on a sequence hears that somebody else wants it, and who waits for it that it will take long.
type lending struct {
	mu    sync.Mutex
	lent  chan<- struct{} // nil: the turn is not lent
	long  chan struct{}   // closed when whoever is inside waits in line; nil: nobody has asked
	stood bool            // it waits in line
}

func (l *lending) lend(to chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = to
}

// want tells whoever lends the turn that somebody wants it.
func (l *lending) want() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lent == nil {
		return
	}
	select {
	case l.lent <- struct{}{}:
	default: // it was told already
	}
}

func (l *lending) lined(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stood = yes; yes && l.long != nil {
		close(l.long)
		l.long = nil
	}
}

// InLine returns a channel that is closed as soon as whoever has the turn waits in line.
func (s *Sequence) InLine() <-chan struct{} {
	l := &s.lending
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.long == nil {
		l.long = make(chan struct{})
	}
	long := l.long
	if l.stood {
		close(long)
		l.long = nil
	}
	return long
}

// Lend has whoever is inside hear on to, which has room for one, when somebody wants the turn: it is to step out then. nil ends
// that, and so do Leave and StepOut.
func (s *Sequence) Lend(to chan<- struct{}) {
	s.lending.lend(to)
	if to == nil {
		return
	}
	if s.waiting.Load() > 0 {
		s.lending.want()
	}
	if s.group != nil { // some wait for a change instead
		s.group.stir(s)
	}
}

// StepOut ends the turn for a command that comes back. What it was given stays, unless somebody is inside meanwhile.
func (s *Sequence) StepOut() {
	s.lending.lend(nil)
	s.reading.Store(false)
	if s.group != nil && s.Given() == 0 {
		s.group.unlist(s)
	}
	<-s.gate
	if s.group != nil {
		s.group.stir(s)
	}
}

// Turns is how many commands have had their turn, with the one that is inside.
func (s *Sequence) Turns() uint64 { return s.turns.Load() }
