package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

func oneOwnerHoldsAtATime(s *stage) {
	const proxies, owners, turns = 3, 3, 8
	session := s.session("counter")
	var opened [proxies]Proxy
	for i := range opened {
		opened[i] = s.open()
	}
	var inside, value atomic.Int64
	var lapsed atomic.Bool
	s.all(proxies*owners, func(i int) error {
		for range turns {
			ctx, cancel := context.WithTimeout(context.Background(), s.h.Gone+patience)
			h, err := s.acquire(ctx, opened[i%proxies], kept(session))
			cancel()
			if err != nil {
				return fmt.Errorf("owner %d: acquire: %w", i, err)
			}
			others := inside.Add(1) - 1
			read := value.Load()
			time.Sleep(time.Millisecond)
			value.Store(read + 1)
			inside.Add(-1)
			if h.lost() || time.Now().After(h.Until()) {
				lapsed.Store(true) // a lease was not kept: the ledger judges
			} else if others > 0 && !lapsed.Load() {
				return fmt.Errorf("owner %d: %d others hold the session, too", i, others)
			}
			if err := h.giveBack(); err != nil {
				return fmt.Errorf("owner %d: %w", i, err)
			}
		}
		return nil
	})
	if got := value.Load(); got != proxies*owners*turns && !lapsed.Load() {
		s.Errorf("%d of %d updates are there", got, proxies*owners*turns)
	}
}

func waitersAreServedInTheirOrder(s *stage) {
	const proxies, waiters = 3, 9
	session := s.session("queue")
	var opened [proxies]Proxy
	for i := range opened {
		opened[i] = s.open()
	}
	holder := s.take(opened[0], session)
	var line []*attempt
	for i := range waiters {
		line = append(line, s.beginInLine(opened[i%proxies], session, i+1))
	}
	holder.release()
	for i, a := range line {
		h := a.granted()
		for later, other := range line[i+1:] {
			if other.over() {
				s.Fatalf("waiter %d was served before waiter %d", i+1+later, i)
			}
		}
		h.release()
	}
}

func everyWaiterIsServed(s *stage) {
	const waiters = 6
	session := s.session("queue")
	one, two := s.open(), s.open()
	holder := s.take(one, session)
	var served sync.WaitGroup
	results := make(chan error, waiters)
	for i := range waiters {
		a := s.beginInLine([]Proxy{one, two}[i%2], session, i+1)
		served.Go(func() {
			<-a.done
			if a.err != nil {
				results <- a.err
				return
			}
			results <- a.hold.giveBack()
		})
	}
	holder.release()
	for range waiters {
		select {
		case err := <-results:
			if err != nil {
				s.Error(err)
			}
		case <-time.After(s.h.Gone + patience):
			s.Fatal("a waiter is not served")
		}
	}
	served.Wait()
}

func aCancelledWaiterLeavesTheLine(s *stage) {
	session := s.session("queue")
	one, two, three := s.open(), s.open(), s.open()
	holder := s.take(one, session)
	first := s.beginInLine(two, session, 1)
	second := s.beginInLine(three, session, 2)
	first.givesUp()
	if s.h.Waiting != nil {
		s.eventually("a cancelled waiter is in line no more", func() bool { return s.waiting(session) <= 1 })
	}
	if second.over() {
		s.Fatal("the second in line does not wait for the holder")
	}
	holder.release()
	second.granted().release()
	s.take(two, session).release()
}

// noGhostStaysWhenManyGiveUp cancels waiters around the moment in which they are granted.
func noGhostStaysWhenManyGiveUp(s *stage) {
	const rounds, waiters = 10, 4
	session := s.session("queue")
	one, two := s.open(), s.open()
	for range rounds {
		holder := s.take(one, session)
		var line []*attempt
		for i := range waiters {
			line = append(line, s.begin([]Proxy{one, two}[i%2], session))
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		s.all(waiters+1, func(i int) error {
			if i == waiters {
				return holder.giveBack()
			}
			a := line[i]
			time.Sleep(time.Duration(rand.IntN(5_000)) * time.Microsecond)
			a.cancel()
			<-a.done
			if a.err == nil {
				return a.hold.giveBack()
			}
			if !errors.Is(a.err, context.Canceled) {
				return fmt.Errorf("a cancelled Acquire returns %w, which is not its context's error", a.err)
			}
			return nil
		})
	}
	s.take(two, session).release()
	if s.h.Waiting != nil {
		s.eventually("the line is empty", func() bool { return s.waiting(session) == 0 })
	}
}
