package lock

import "testing"

// heard reports whether whoever lends a turn was told that somebody wants it.
func heard(wanted <-chan struct{}) bool {
	select {
	case <-wanted:
		return true
	default:
		return false
	}
}

func TestWhoLendsATurnHearsThatSomebodyWantsIt(t *testing.T) {
	bubble(t, long, func(w *world) {
		s, wanted := w.client("a").enter("s"), make(chan struct{}, 1)
		if s.Waiting(1); heard(wanted) {
			w.Error("told before it lends")
		}
		if s.Lend(wanted); !heard(wanted) {
			w.Error("not told that somebody waits already")
		}
		s.Waiting(1)
		s.Waiting(1)
		if !heard(wanted) || heard(wanted) {
			w.Error("not told once")
		}
		s.StepOut()
		if s.Waiting(1); heard(wanted) {
			w.Error("told though it is not inside any more")
		}
		if !s.TryEnter() {
			w.Fatal("somebody is inside")
		}
		s.Lend(wanted)
		heard(wanted)
		s.Leave()
		if s.Waiting(1); heard(wanted) {
			w.Error("told though it has left")
		}
	})
}

func TestWhoWaitsForATurnHearsThatItWillTakeLong(t *testing.T) {
	bubble(t, long, func(w *world) {
		s := w.client("a").enter("s")
		early := s.InLine()
		if heard(early) {
			w.Error("nobody stands in line")
		}
		s.lineUp(true)
		if !heard(early) || !heard(s.InLine()) {
			w.Error("not told")
		}
		s.lineUp(false)
		if heard(s.InLine()) {
			w.Error("told though nobody stands in line any more")
		}
		s.Leave()
	})
}

func TestWhoStepsOutKnowsWhetherAnotherCommandWasInside(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		s := a.enter("s")
		before := s.Turns()
		s.StepOut()
		if !s.TryEnter() {
			w.Fatal("somebody is inside")
		}
		s.Leave()
		if s.Turns() != before {
			w.Error("who looks in counts as a command")
		}
		a.enter("s")
		if settled, _ := s.Settle(); !settled || s.Turns() != before+1 {
			w.Error("a command does not count")
		}
		s.Leave()
	})
}
