package locktest

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func closeGivesEverythingBack(s *stage) {
	const sessions = 5
	one, two := s.open(), s.open()
	var held []*held
	var ofOthers []*attempt
	for i := range sessions {
		held = append(held, s.take(one, s.session("held", string(rune('a'+i)))))
	}
	var others = held[:0:0]
	for i := range sessions {
		session := s.session("awaited", string(rune('a'+i)))
		others = append(others, s.take(two, session))
		ofOthers = append(ofOthers, s.beginInLine(one, session, 1))
	}
	for _, h := range held {
		h.entry.end()
	}
	ctx, cancel := brief()
	defer cancel()
	if err := one.Close(ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	for _, a := range ofOthers {
		a.fails("although its Locker was closed")
	}
	s.begin(one, s.session("closed")).fails("by a Locker that is closed")
	for i, h := range held {
		h.isOver("after its Locker was closed")
		s.take(two, s.session("held", string(rune('a'+i)))).release()
		ctx, cancel := brief()
		_ = h.Release(ctx)
		cancel()
	}
	three := s.open()
	for i, h := range others {
		h.stands("after the Locker of its waiter was closed")
		h.release()
		s.take(three, s.session("awaited", string(rune('a'+i)))).release()
	}
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
	goroutines := append([]goleak.Option{goleak.IgnoreCurrent()}, s.h.Goroutines...)
	within(s.TB, func(tb testing.TB) {
		inner := &stage{TB: tb, h: s.h, ledger: s.ledger}
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
	if err := goleak.Find(goroutines...); err != nil {
		s.Errorf("after Close: %v", err)
	}
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
