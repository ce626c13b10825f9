package locktest

import "time"

func aRenewedHoldOutlivesItsLease(s *stage) {
	one, two := s.open(), s.open()
	for try := range 5 {
		session := s.session("renewed", string(rune('a'+try)))
		if s.renewedPastItsLease(one, two, session) {
			return
		}
	}
	s.Fatal("this machine is too slow to renew a hold in time")
}

// renewedPastItsLease is false if a renewal came too late, through no fault of the provider.
func (s *stage) renewedPastItsLease(one, two Proxy, session string) bool {
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.begin(two, session)
	for end := time.Now().Add(s.h.Gone + s.h.Lease); time.Now().Before(end); time.Sleep(s.h.Lease / 4) {
		until := h.Until()
		err := h.renew()
		switch {
		case time.Now().After(until):
			h.entry.end()
			waiter.cancel()
			_ = h.giveBack()
			return false
		case err != nil:
			s.Fatalf("renew a hold that stands: %v", err)
		case !h.Until().After(until) && !h.Until().After(time.Now().Add(s.h.Lease/3)):
			s.Fatal("a renewal does not extend the hold")
		case waiter.over():
			s.Fatal("the session was granted although its hold is renewed")
		}
	}
	h.stands("after it was renewed past its lease")
	h.release()
	waiter.granted().release()
	return true
}

func aHoldThatNobodyRenewsEnds(s *stage) {
	session := s.session("forgotten")
	one, two := s.open(), s.open()
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.begin(two, session)
	next := waiter.granted()
	h.isLost("when nobody has renewed it")
	next.stands("after the hold before it has ended")
	next.release()
}

func aHoldEndedAtTheServersIsLost(s *stage) {
	session := s.session("ended")
	one, two := s.open(), s.open()
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.beginInLine(two, session, 1)
	h.isEndedAtTheServers()
	next := waiter.granted()
	h.isOver("after its successor was granted")
	next.stands("after its predecessor was ended")
	next.release()
	s.takeAtLast(one, kept(session)).release()
}
