package locktest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"
)

// closeGivesEverythingBack closes a proxy that holds sessions and waits for others. A hold that is not given back stands at least
// until its Until, so whoever is granted the session before has it from Close.
func closeGivesEverythingBack(s *stage) {
	for try := range 5 {
		if s.closedInTime(string(rune('a' + try))) {
			return
		}
	}
	s.Fatal("what was held is not given back before its lease ends")
}

// closedInTime is false if the sessions were granted so late that it may be the end of their lease.
func (s *stage) closedInTime(try string) bool {
	const sessions = 5
	one, two := s.open(), s.open()
	name := func(kind string, i int) string { return s.session(try, kind, string(rune('a'+i))) }
	var held, others []*held
	var awaited []*attempt
	for i := range sessions {
		held = append(held, s.takeAtLast(one, s.lease(name("held", i))))
		others = append(others, s.take(two, name("awaited", i)))
		awaited = append(awaited, s.beginInLine(one, name("awaited", i), 1))
	}
	until := held[0].Until()
	for _, h := range held {
		until = earlier(until, h.Until())
		h.entry.end()
	}
	ctx, cancel := brief()
	defer cancel()
	if err := one.Close(ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	for i := range held {
		s.take(two, name("held", i)).release()
	}
	inTime := time.Now().Before(until)

	for _, a := range awaited {
		a.fails("although its Locker was closed")
	}
	s.begin(one, s.session("closed")).fails("by a Locker that is closed")
	for _, h := range held {
		h.isOver("after its Locker was closed")
		ctx, cancel := brief()
		_ = h.Release(ctx)
		cancel()
	}
	three := s.open()
	for i, h := range others {
		h.stands("after the Locker of its waiter was closed")
		h.release()
		s.take(three, name("awaited", i)).release()
	}
	return inTime
}

func closeDoesNotOutlastItsContext(s *stage) {
	p := s.open()
	h := s.takeAtLast(p, s.lease(s.session("held")))
	h.entry.end()
	p.Network.Blackhole(true)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = p.Close(ctx)
	}()
	s.await(closed, "Close ends with its context although nobody answers")
	p.Network.Blackhole(false)
	s.takeAtLast(s.open(), kept(s.session("held"))).release()
}

func closeLeavesNothingBehind(s *stage) {
	goroutines := newFamily(rand.Text())
	goroutines.play(func() { s.closesInTurn(goroutines) })
	for end := time.Now().Add(patience); goroutines.left() != ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("after Close there are goroutines:\n%s", goroutines.left())
		}
	}
}

// closesInTurn uses some proxies, and closes them.
func (s *stage) closesInTurn(goroutines *family) {
	s.Helper()
	within(s.TB, func(tb testing.TB) {
		tb.Helper()
		inner := &stage{TB: tb, h: s.h, ledger: s.ledger, goroutines: goroutines}
		for i := range 3 {
			p := inner.open()
			session := inner.session("used", string(rune('a'+i)))
			h := inner.take(p, session)
			waiter := inner.beginInLine(p, session, 1)
			lost := inner.takeAtLast(p, inner.lease(inner.session("lost", string(rune('a'+i)))))
			lost.isEndedAtTheServers()
			waiter.givesUp()
			if i > 0 {
				h.release()
			}
			h.entry.end()
			ctx, cancel := brief()
			err := p.Close(ctx)
			cancel()
			if err != nil {
				tb.Fatalf("Close: %v", err)
			}
			inner.eventually("a closed Locker has no connections", func() bool { return p.Network.Open() == 0 })
		}
	})
}

// within plays with a TB whose clean-up is done when it returns.
func within(tb testing.TB, play func(tb testing.TB)) {
	tb.Helper()
	s := &scope{TB: tb}
	defer s.clean()
	play(s)
}

type scope struct {
	testing.TB
	cleanups []func()
}

// Cleanup implements testing.TB.
func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) clean() {
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		last()
	}
}
