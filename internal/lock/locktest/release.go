package locktest

import (
	"context"
	"time"
)

func aReleasedHoldIsOver(s *stage) {
	session := s.session("released")
	one, two := s.open(), s.open()
	h := s.take(one, session)
	h.release()
	h.isOver("after its release")
	next := s.take(two, session)
	again := s.begin(one, session)
	h.release()
	h.release()
	h.isOver("after its second release")
	next.stands("after its predecessor was released again")
	if again.over() {
		s.Fatal("a second release has ended the successor's hold")
	}
	next.release()

	// Holds of one proxy are told apart, too.
	own := again.granted()
	h.release()
	own.stands("after the same proxy has released an earlier hold again")
	waiter := s.begin(one, session)
	next.release()
	own.stands("after another proxy has released an earlier hold again")
	if waiter.over() {
		s.Fatal("a late release has ended the hold")
	}
	own.release()
	waiter.granted().release()
}

// aReleaseThatFailsIsMadeUpFor releases while the proxy is cut off, for a moment that is shorter than its lease may be.
func aReleaseThatFailsIsMadeUpFor(s *stage) {
	session := s.session("failed")
	one, two := s.open(), s.open()
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.beginInLine(two, session, 1)
	one.Network.Cut()
	h.entry.end()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := h.Release(ctx); err == nil {
		s.Fatal("a release says that it has succeeded, though its proxy is cut off")
	}
	one.Network.Restore()
	h.isOver("after its release has failed")
	waiter.granted().release()
	s.takeAtLast(one, kept(session)).release()
}

// aLateReleaseIsHarmless releases a hold that was lost, when another has the session.
func aLateReleaseIsHarmless(s *stage) {
	session := s.session("late")
	one, two := s.open(), s.open()
	h := s.takeAtLast(one, s.lease(session))
	one.Network.Blackhole(true)
	next := s.takeAtLast(two, kept(session))
	h.entry.end()
	one.Network.Blackhole(false)
	waiter := s.begin(one, session)
	for range 3 {
		ctx, cancel := brief()
		_ = h.Release(ctx) // an error may tell that the hold was not this proxy's any more
		cancel()
		next.stands("after its predecessor's late release")
	}
	h.isOver("when another has the session")
	if waiter.over() && waiter.err == nil {
		s.Fatal("a late release has ended the successor's hold")
	}
	waiter.cancel() // it may also have failed, with the connection
	s.await(waiter.done, "a cancelled Acquire returns")
	next.stands("after the waiter behind it has left")
	next.release()
	if waiter.err == nil {
		waiter.hold.release()
	}
	s.takeAtLast(one, kept(session)).release()
}
