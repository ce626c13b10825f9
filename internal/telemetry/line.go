package telemetry

import "time"

// line holds sequences in the order in which something last came of them.
type line struct {
	after       time.Duration // so long nothing has to come before one is sent
	first, last *sequence
}

// place is a sequence's in the one line that it is in.
type place struct {
	in         *line
	prev, next *sequence
	due        time.Time
}

// push puts a sequence at the end, wherever it was.
func (l *line) push(s *sequence, now time.Time) {
	s.leave()
	s.place = place{in: l, prev: l.last, due: now.Add(l.after)}
	if l.last == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

// leave takes a sequence out of its line, if it is in one.
func (s *sequence) leave() {
	l := s.in
	if l == nil {
		return
	}
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.place = place{}
}
