package locktest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func aProxyThatIsCutOffLosesItsHold(s *stage) {
	s.cutOff(Network.Cut, Network.Restore)
}

func aProxyInABlackHoleLosesItsHold(s *stage) {
	s.cutOff(func(n Network) { n.Blackhole(true) }, func(n Network) { n.Blackhole(false) })
}

// cutOff takes a session, cuts its proxy off, and lets another one have it. That they don't overlap is the ledger's to say.
func (s *stage) cutOff(cut, mend func(Network)) {
	session := s.session("cut off")
	one, two := s.open(), s.open()
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.beginInLine(two, session, 1)
	time.Sleep(s.h.Lease / 2)
	_ = h.renew() // so that the lease counts from the last renewal
	cut(one.Network)
	s.eventually("a proxy that is cut off sees that its hold is lost", h.lost)
	h.isLost("while its proxy is cut off")
	if waiting := h.Until(); waiting.After(time.Now()) {
		s.Fatalf("a hold that is lost ends in %v by its own account", time.Until(waiting))
	}
	next := waiter.granted()
	mend(one.Network)
	h.isOver("after its proxy is back")
	again := s.begin(one, s.session("another"))
	s.await(again.done, "a proxy that is back gets an answer")
	next.stands("after the proxy of its predecessor is back")
	next.release()
	s.takeAtLast(one, kept(session)).release()
	if again.err == nil {
		again.hold.release()
	} else {
		s.takeAtLast(one, kept(s.session("another"))).release()
	}
}

// breakingConnectionsLoseNothing breaks connections under load: answers are lost, and what they were about must neither be
// held for ever nor twice.
func breakingConnectionsLoseNothing(s *stage) {
	const owners, breaks = 4, 12
	session := s.session("breaking")
	proxies := []Proxy{s.open(), s.open()}
	over := make(chan struct{})
	s.all(owners+1, func(i int) error {
		if i == owners {
			defer close(over)
			for n := range breaks {
				network := proxies[n%2].Network
				time.Sleep(time.Duration(20+rand.IntN(60)) * time.Millisecond)
				network.Cut()
				network.Restore()
			}
			return nil
		}
		for {
			select {
			case <-over:
				return nil
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			h, err := s.acquire(ctx, proxies[i%2], s.lease(session))
			cancel()
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			time.Sleep(time.Millisecond)
			h.entry.end()
			ctx, cancel = context.WithTimeout(context.Background(), time.Second)
			_ = h.Release(ctx) // when it fails, the hold ends with its lease
			cancel()
		}
	})
	for _, p := range proxies {
		s.takeAtLast(p, kept(session)).release()
	}
	if s.h.Waiting != nil {
		s.eventually("the line is empty", func() bool { return s.waiting(session) == 0 })
	}
}

func serversMayRestart(s *stage) {
	session, free := s.session("held"), s.session("free")
	one, two := s.open(), s.open()
	s.restoreServers()
	h := s.takeAtLast(one, s.lease(session))
	waiter := s.beginInLine(two, session, 1)

	s.h.Servers.Stop()
	s.checkFails(two, "while its servers are stopped")
	s.refusedOrWaits(two, free, "while no server runs")
	if waiter.over() && waiter.err == nil {
		s.Fatal("a session was granted while no server runs")
	}

	s.h.Servers.Start()
	s.eventually("Check finds servers that run again", func() bool { return asks(two) == nil })
	s.takeAtLast(two, kept(free)).release()
	s.takeAtLast(one, kept(free)).release()

	h.isKnown() // it may have come through or be lost
	ctx, cancel := brief()
	defer cancel()
	h.entry.end()
	_ = h.Release(ctx)
	s.await(waiter.done, "the waiter is granted, or told that the provider could not be asked")
	if waiter.err == nil {
		waiter.hold.stands("when it was granted after an outage")
		waiter.hold.release()
	}
	s.takeAtLast(two, kept(session)).release()
	s.takeAtLast(one, kept(session)).release()
}

func serversMayBePausedPastTheLease(s *stage) {
	session, free := s.session("held"), s.session("free")
	one, two := s.open(), s.open()
	s.restoreServers()
	h := s.takeAtLast(one, s.lease(session))

	s.h.Servers.Pause()
	s.checkFails(two, "while its servers are frozen")
	s.refusedOrWaits(two, free, "while all servers are frozen")
	s.eventually("a hold that can't be renewed is lost", h.lost)
	h.isLost("while the servers are frozen")
	s.h.Servers.Resume()

	next := s.takeAtLast(two, kept(session))
	ctx, cancel := brief()
	defer cancel()
	_ = h.Release(ctx)
	next.stands("after the late release of a hold that was lost in a pause")
	next.release()
	s.takeAtLast(one, kept(session)).release()
	s.takeAtLast(two, kept(free)).release()
}

func serversMayComeLater(s *stage) {
	session := s.session("later")
	witness := s.open()
	s.take(witness, session).release()
	s.restoreServers()
	s.h.Servers.Stop()

	late := s.open()
	s.checkFails(late, "before its servers run")
	s.refusedOrWaits(late, session, "before any server runs")
	s.h.Servers.Start()
	s.takeAtLast(late, kept(session)).release()
	s.eventually("Check finds servers that have come later", func() bool { return asks(late) == nil })
	s.takeAtLast(witness, kept(session)).release()
}

// oneServerMayDie ends a server under load, twice. Each time the owners go on without it.
func oneServerMayDie(s *stage) {
	const owners, kills, turns = 4, 2, 20
	session, long := s.session("busy"), s.session("held")
	proxies := []Proxy{s.open(), s.open()}
	s.restoreServers()
	h := s.takeAtLast(proxies[0], s.lease(long))
	waiter := s.beginInLine(proxies[1], long, 1)

	var taken, value, lapsed atomic.Int64
	over := make(chan struct{})
	var stop sync.Once
	defer stop.Do(func() { close(over) })
	var busy sync.WaitGroup
	for i := range owners {
		busy.Go(func() {
			s.owner(proxies[i%2], session, over, func(h *held) {
				read := value.Load()
				time.Sleep(time.Millisecond)
				value.Store(read + 1)
				if h.lost() || time.Now().After(h.Until()) {
					lapsed.Add(1) // the ledger judges
				}
				taken.Add(1)
			})
		})
	}
	progress := func(when string) {
		before := taken.Load()
		s.eventually("owners go on "+when, func() bool { return taken.Load() >= before+turns })
	}
	progress("before anything happens")
	for range kills {
		s.h.KillOne(s)
		progress("without one server")
		h.isKnown()
		s.h.Servers.Start()
		progress("with all servers again")
	}
	stop.Do(func() { close(over) })
	idle := make(chan struct{})
	go func() { busy.Wait(); close(idle) }()
	s.await(idle, "the owners come to an end")
	if got, want := value.Load(), taken.Load(); got != want && lapsed.Load() == 0 {
		s.Errorf("%d of %d updates are there", got, want)
	}
	_ = h.giveBack() // it may be lost
	s.await(waiter.done, "a waiter comes to an end")
	if waiter.err == nil {
		waiter.hold.release()
	}
	for _, p := range proxies {
		s.takeAtLast(p, kept(session)).release()
		s.takeAtLast(p, kept(long)).release()
	}
}

// owner takes a session again and again, though the provider may not always be there, until over closes.
func (s *stage) owner(p Proxy, session string, over <-chan struct{}, turn func(*held)) {
	for {
		select {
		case <-over:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.h.Gone+patience)
		h, err := s.acquire(ctx, p, s.lease(session))
		cancel()
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		turn(h)
		if h.giveBack() != nil { // it ends with its lease
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// aClockMayStep steps one server's clock past the lease and back.
func aClockMayStep(s *stage) {
	const step = 10 * time.Minute
	session := s.session("stepped")
	one, two := s.open(), s.open()
	request := provider.Request{Session: session, Lease: step / 2}
	h := s.takeAtLast(one, request)
	waiter := s.begin(two, session)
	back := func() {}
	s.Cleanup(func() { back() })
	s.h.StepClock(s, step)
	back = func() { s.h.StepClock(s, -step); back = func() {} }
	time.Sleep(300 * time.Millisecond) // the waiter may find the gap
	h.stands("after a clock has stepped past its lease")
	if waiter.over() {
		s.Fatalf("a session was granted since a clock has stepped (%v)", waiter.err)
	}
	h.release()
	waiter.granted().release()
	s.takeAtLast(one, request).release()
	back()
	for range 3 {
		s.takeAtLast(one, request).release()
		s.takeAtLast(two, request).release()
	}
}

// refusedOrWaits acquires in vain: it gets an error or waits, as long as it is looked at, and leaves when it is cancelled.
func (s *stage) refusedOrWaits(p Proxy, session, when string) {
	s.Helper()
	a := s.begin(p, session)
	time.Sleep(200 * time.Millisecond)
	a.cancel()
	s.await(a.done, "a cancelled Acquire returns "+when)
	if a.err == nil {
		s.Fatalf("a session was granted %s", when)
	}
}

// checkFails fails the test if Check finds servers that aren't there.
func (s *stage) checkFails(p Proxy, when string) {
	s.Helper()
	result := make(chan error, 1)
	go func() { result <- asks(p) }()
	select {
	case err := <-result:
		if err == nil {
			s.Fatalf("Check finds nothing amiss %s", when)
		}
	case <-time.After(patience):
		s.Fatalf("Check does not end with its context %s", when)
	}
}

// asks is one Check, of a second at most.
func asks(p Proxy) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return p.Check(ctx)
}
