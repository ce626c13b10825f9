package lock

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// pooled is a client with two connections that are one owner.
func (w *world) pooled() (a, b *client) {
	a = w.client("a")
	a.owner = w.m.Group(a.owner.identity).Owner()
	b = a.sharing()
	return a, b
}

func TestAWriteThatMayBeAStaleTasksIsRefusedWhileThatMayCome(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock, Idle: time.Minute}, func(w *world) {
		a, b := w.pooled()
		w.did(a.read("quick", k1))
		w.pass(time.Second)
		w.did(a.write("quick", k1)) // a task takes a second, and may take four
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		w.pass(4*time.Second - 1)
		w.did(a.read("s", k1))
		w.fenced(a.write("s", k1), ReasonUnsure)
		a.nobodyHolds("s")
		w.did(a.read("s", k1))
		w.pass(1)
		w.did(a.write("s", k1))
		w.fenced(b.write("s", k1), ReasonUsedUp)
	})
}

func TestAsManyWritesAsReadsLeaveNoDoubt(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock}, func(w *world) {
		a, b := w.pooled()
		for range 3 {
			w.did(a.read("s", k1))
			w.did(b.read("s", k1))
			w.did(a.write("s", k1))
			w.fenced(b.write("s", k1), ReasonUsedUp)
		}
	})
}

func TestAConnectionByItselfIsOneTaskUntilTwoWereSeen(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k1)) // to look again before it writes
		w.did(a.write("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		w.fenced(a.write("s", k1), ReasonUsedUp) // nobody writes twice what he has read
		w.did(a.read("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		w.did(a.read("s", k1))
		w.fenced(a.write("s", k1), ReasonUnsure)
	})
}

func TestARefusalForgetsOneTasksReadsOnly(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock}, func(w *world) {
		a, b := w.pooled()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.f.lapse(a.sequence("s").Record)
		w.elsewhere("s")
		w.fenced(a.write("s", k1), ReasonSuperseded)
		w.fenced(b.write("s", k1), ReasonUsedUp)
		w.did(b.write("s", k1))
	})
}

func TestSeveralCommandsThatReadAKeyAreOneTask(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock}, func(w *world) {
		a, _ := w.pooled()
		for range 2 {
			w.did(a.readBy("s", 10, k1))
			w.did(a.readBy("s", 11, k1))
			w.did(a.write("s", k1))
		}
		w.did(a.write("s", k1))
	})
}

// In a crowd, the one that is refused in doubt may have been the stale one. Then the read that is left is a new one, and must not be taken
// for given up when the old one's time is over.
func TestInACrowdAReadThatMayBeNewIsNotForgottenAsAnOldOne(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeLock, Idle: time.Minute}, func(w *world) {
		a, b := w.pooled()
		c, d := a.sharing(), a.sharing()
		a.owner.Crowd()
		w.did(a.read("quick", k1))
		w.did(a.write("quick", k1))
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1)) // b's is stale
		w.pass(hesitation - 2)
		w.did(c.read("s", k1))
		w.fenced(b.write("s", k1), ReasonUnsure) // which may have been c's
		w.elsewhere("s")                         // now c's is stale
		w.pass(1)
		w.did(d.read("s", k1))
		w.pass(2)
		w.fenced(c.write("s", k1), ReasonUnsure)
	})
}
