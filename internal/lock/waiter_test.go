package lock

import (
	"regexp"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// park queues the client for a session at the store and waits for it.
func (c *client) park(session string) {
	c.Helper()
	s := c.sequence(session)
	c.waiter.Clear()
	b := c.f.begin(s.Record, s.Claim, c.waiter.ID(), tokenstore.Basis{})
	if b.Granted {
		c.Fatalf("%s is free", session)
	}
	c.waiter.Park(s, tokenstore.Basis{}, b.LeaseLeft)
}

// woken reports, without waiting, whether the client was woken.
func (c *client) woken() bool {
	synctest.Wait()
	select {
	case <-c.waiter.C:
		return true
	default:
		return false
	}
}

// parked returns n clients that wait, in this order, for a session that a holds.
func (w *world) parked(a *client, n int) []*client {
	w.Helper()
	w.did(a.read("s", k1))
	waiting := make([]*client, n)
	for i := range waiting {
		waiting[i] = w.client("waiting")
		waiting[i].park("s")
	}
	return waiting
}

func TestAReleaseHandsTheSessionToTheFirstInLine(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 3)
		w.did(a.write("s", k1))
		for i, b := range waiting {
			for j, c := range waiting {
				if c.woken() != (j == i) {
					w.Fatalf("waiter %d woken wrongly after release %d", j, i)
				}
			}
			if grant := b.waiter.Unpark(); grant != 0 {
				w.Fatalf("a question took grant %d", grant)
			}
			w.did(b.read("s", k1))
			w.did(b.write("s", k1))
		}
		w.calls("begin", 0) // without a single question
	})
}

func TestQuestionsBackOff(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		b := w.parked(a, 1)[0]
		began := time.Now()
		w.pass(20 * time.Second)
		b.waiter.Unpark()
		last, pause := began, pollFirst
		for i, question := range w.f.made("begin") {
			if d := question.at.Sub(last); d < pause/2 || d > pause {
				w.Errorf("question %d came after %v, want %v to %v", i, d, pause/2, pause)
			}
			last, pause = question.at, min(2*pause, pollMost)
		}
		if n := len(w.f.made("begin")); n < 10 || n > 25 {
			w.Errorf("%d questions", n)
		}
	})
}

func TestQuestionsDoNotDependOnHowManyWait(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 50)
		w.pass(20 * time.Second)
		if n := len(w.f.made("begin")); n < 10 || n > 25 {
			w.Errorf("%d questions for %d waiters", n, len(waiting))
		}
		for _, b := range waiting {
			b.waiter.Unpark()
		}
	})
}

func TestTheFirstInLineAsks(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 3)
		asks := func(b *client) {
			w.Helper()
			before := len(w.f.made("begin"))
			w.pass(2 * pollMost)
			asked := w.f.made("begin")[before:]
			if len(asked) == 0 {
				w.Fatal("nobody asked")
			}
			for _, question := range asked {
				if question.waiter != b.waiter.ID() {
					w.Fatalf("%s asked, want %s", question.waiter, b.waiter.ID())
				}
			}
		}
		asks(waiting[0])
		waiting[1].waiter.Unpark()
		asks(waiting[0])
		waiting[0].waiter.Unpark()
		asks(waiting[2])
		waiting[2].waiter.Unpark()
	})
}

func TestNobodyAsksWhenNobodyWaits(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		for _, b := range w.parked(a, 3) {
			b.waiter.Unpark()
		}
		w.pass(time.Minute)
		w.calls("begin", 0)
		if n := len(w.m.waits.lines); n != 0 {
			w.Errorf("%d lines are left", n)
		}
	})
}

func TestAWaiterAsksAtTheEndOfAHoldersLease(t *testing.T) {
	bubble(t, rule.Rule{Lease: 100 * time.Millisecond, Idle: time.Minute}, func(w *world) {
		a := w.client("a")
		w.f.fail(true, "renew") // a's proxy is gone
		b := w.parked(a, 1)[0]
		began := time.Now()
		<-b.waiter.C
		if took := time.Since(began); took > w.rule.Lease+time.Millisecond {
			w.Errorf("woken %v after the lease began", took)
		}
		if b.waiter.Unpark() == 0 {
			w.Error("the question's grant is not handed over")
		}
		b.holds("s")
	})
}

func TestAWaiterWhoseWakeUpWasLostFindsTheSessionByItself(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		b := w.parked(a, 1)[0]
		w.f.mu.Lock()
		w.f.deaf = true
		w.f.mu.Unlock()
		w.did(a.write("s", k1))
		<-b.waiter.C
		if grant := b.waiter.Unpark(); grant == 0 || grant != w.f.holder(b.sequence("s").Record).Grant {
			w.Errorf("unparked with grant %d", grant)
		}
		b.holds("s")
	})
}

func TestALeavingWaiterHearsOfAGrantThatIsOnItsWay(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		b := w.parked(a, 1)[0]
		answer := w.f.keepBack("begin")
		w.f.mu.Lock()
		w.f.deaf = true
		w.f.mu.Unlock()
		w.did(a.write("s", k1))
		w.pass(pollFirst) // the question took the session; its answer is under way
		w.calls("begin", 1)

		go func() {
			left := func() bool {
				w.m.waits.mu.Lock()
				defer w.m.waits.mu.Unlock()
				return len(w.m.waits.lines) == 0
			}
			for !left() {
				runtime.Gosched() // Unpark blocks on a mutex, which a bubble can't wait for
			}
			answer()
		}()
		if grant := b.waiter.Unpark(); grant == 0 || grant != w.f.holder(b.sequence("s").Record).Grant {
			w.Errorf("it left with grant %d", grant)
		}
	})
}

func TestAQuestionWithoutAnAnswerIsGivenUpAndAskedAgain(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		b := w.parked(a, 1)[0]
		w.f.ignore(true, "begin")
		w.pass(pollFirst + callTimeout - time.Millisecond)
		w.calls("begin", 1)
		w.f.ignore(false, "begin")
		w.pass(time.Millisecond + 2*pollFirst)
		w.calls("begin", 2)
		b.waiter.Unpark()
	})
}

// So do a subscription that was made anew, and a store that has become another one.
func TestWaitersTakeTheirPlaceInTheQueueAgain(t *testing.T) {
	for name, happens := range map[string]func(*Manager){"a new subscription": (*Manager).Subscribed, "another primary": (*Manager).Moved} {
		t.Run(name, func(t *testing.T) { requeued(t, happens) })
	}
}

func requeued(t *testing.T, happens func(*Manager)) {
	t.Helper()
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 3)
		record := a.sequence("s").Record
		line := w.f.queued(record)
		w.f.mu.Lock()
		w.f.at(record).queue = nil // the store took the proxy for gone
		w.f.mu.Unlock()

		happens(w.m)
		synctest.Wait()
		if got := w.f.queued(record); !slices.Equal(got, line) {
			w.Errorf("the queue is %v, was %v", got, line)
		}
		w.did(a.write("s", k1))
		if !waiting[0].woken() {
			w.Error("the first in line was not woken")
		}
		for _, b := range waiting {
			b.waiter.Unpark()
		}
	})
}

func TestAWaiterThatHasLeftIsNotQueuedAgain(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 2)
		record := a.sequence("s").Record
		waiting[0].waiter.Unpark()
		w.f.mu.Lock()
		w.f.at(record).queue = nil
		w.f.mu.Unlock()
		w.m.Subscribed()
		synctest.Wait()
		if got := w.f.queued(record); len(got) != 1 || got[0] != waiting[1].waiter.ID() {
			w.Errorf("the queue is %v", got)
		}
		waiting[1].waiter.Unpark()
	})
}

func TestSessionsHaveLinesOfTheirOwn(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		w.did(a.read("s", k1))
		w.did(a.read("t", k1))
		b.park("s")
		c.park("t")
		w.did(a.write("t", k1))
		if b.woken() || !c.woken() {
			w.Error("the wrong waiter was woken")
		}
		b.waiter.Unpark()
		c.waiter.Unpark()
	})
}

func TestWakeUpsOfStrangersAreIgnored(t *testing.T) {
	bubble(t, long, func(w *world) {
		b := w.client("b")
		w.m.Woken("proxy.999", 1)
		w.m.Woken(b.waiter.ID(), 7)
		w.m.Woken(b.waiter.ID(), 8) // nobody has taken the first
		if grant := <-b.waiter.C; grant != 7 {
			w.Errorf("woken with %d", grant)
		}
		w.m.Woken(b.waiter.ID(), 9)
		b.waiter.Clear()
		if b.woken() {
			w.Error("a wake-up is left")
		}
		b.waiter.Close()
		w.m.Woken(b.waiter.ID(), 10)
		if b.woken() {
			w.Error("woken after its end")
		}
	})
}

func TestWaitersHaveNamesThatTheStoreCanTakeApart(t *testing.T) {
	bubble(t, long, func(w *world) {
		one, other := w.m.Waiter(), w.m.Waiter()
		if one.ID() == other.ID() {
			w.Errorf("two waiters are called %q", one.ID())
		}
		if name := regexp.MustCompile(`^proxy\.[0-9]+$`); !name.MatchString(one.ID()) {
			w.Errorf("a waiter is called %q", one.ID())
		}
	})
}
