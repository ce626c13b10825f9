package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func TestASessionThatSpansSlotsIsHeldOnce(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		if one, other := a.sequence("s@1").Grant(), a.sequence("s@2").Grant(); one != other {
			t.Errorf("grants %d and %d under one hold", one, other)
		}
		if err := b.read("s@3", 3); !errors.Is(err, errHeld) {
			t.Errorf("another owner reads elsewhere in the session: %v", err)
		}
		w.did(a.write("s@1", k1))
		w.pass(busyRetry)
		if l.holds(given("s")) {
			t.Error("it is held after the commit")
		}
		w.did(b.read("s@2", k2))
		w.did(b.write("s@2", k2))
		w.fenced(a.write("s@2", k2), ReasonSuperseded)
		w.did(a.write("s@1", k1))
	})
}

func TestWhatWasReadInAnotherSlotMayBeWrittenAfterTheCommit(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		w.did(a.write("s@1", k1))
		w.pass(busyRetry)
		a.in("s@2", Ended)
		w.did(a.write("s@2", k2))
		w.pass(busyRetry)
		if l.holds(given("s")) {
			t.Error("it is still held")
		}
	})
}

func TestAWriteInASlotThatWasNotReadIsUnderTheHold(t *testing.T) {
	elsewhere(t, rule.Rule{WritesPerRead: rule.Many}, func(w *world, _ *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s@1", k1))
		w.did(a.write("s@2", k2))
		if err := b.read("s@2", k2); !errors.Is(err, errHeld) {
			t.Errorf("another owner reads: %v", err)
		}
		w.did(a.write("s@1", k1))
		a.owner.Close()
		synctest.Wait()
		w.did(b.read("s@2", k2))
	})
}

func TestThatAHoldOfSeveralSlotsIsLostIsToldInEach(t *testing.T) {
	elsewhere(t, rule.Rule{MaxHold: time.Minute, Idle: time.Minute}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.pass(40 * time.Second)
		w.did(a.read("s@2", k2))
		w.pass(20 * time.Second) // max_hold counts from the first
		a.in("s@1", Broken)
		a.in("s@2", Broken)
		if l.holds(given("s")) {
			t.Error("it is still held")
		}
		w.fenced(a.write("s@3", 3), ReasonMaxHold)
		w.fenced(a.write("s@3", 3), ReasonMaxHold) // of the other slot
		w.did(a.write("s@3", 3))
	})
}

func TestAHoldThatItsSiblingStillHasStandsWhenOneIsIdle(t *testing.T) {
	elsewhere(t, rule.Rule{Idle: 10 * time.Second}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		w.pass(9 * time.Second)
		w.did(a.read("s@2", k2))
		w.pass(5 * time.Second)
		a.in("s@1", Ended)
		a.in("s@2", Held)
		if !l.holds(given("s")) {
			t.Error("it is not held")
		}
		w.did(a.read("s@1", k1))
		a.in("s@1", Held)
		w.pass(11 * time.Second)
		if l.holds(given("s")) {
			t.Error("it is held for nobody")
		}
	})
}

func TestAShareCanBeReleasedTwiceAndLate(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		share := a.sequence("s@1").hold
		for range 2 {
			w.did(share.Release(context.Background()))
		}
		if !l.holds(given("s")) {
			t.Error("one has released the hold of the other")
		}
		w.did(a.write("s@2", k2))
		w.pass(busyRetry)
		if l.holds(given("s")) {
			t.Error("it is still held")
		}
	})
}

func TestAWriteUnderAHoldThatIsOverLeavesTheNextOneAlone(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		w.did(a.write("s@1", k1))
		w.pass(busyRetry)
		w.did(a.read("s@1", k1)) // under a hold of its own
		w.did(a.write("s@2", k2))
		w.pass(busyRetry)
		a.in("s@1", Held)
		if !l.holds(given("s")) {
			t.Error("it is not held")
		}
	})
}

func TestAHoldThatEndsTakesNoFurtherSlotIn(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, _ *locker) {
		a := w.client("a")
		w.did(a.read("s@1", k1))
		w.did(a.read("s@2", k2))
		committed := a.sequence("s@1").Grant()
		w.did(a.write("s@1", k1))
		w.did(a.read("s@3", 3))
		if a.sequence("s@3").Grant() == committed {
			t.Error("it has joined the hold that was committed")
		}
	})
}
