package lock

import (
	"strconv"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

var auto = rule.Rule{Mode: rule.ModeAuto, Lease: time.Minute, MaxHold: 10 * time.Minute, Idle: time.Minute}

// rmw is a read-modify-write that takes so long.
func (c *client) rmw(session string, think time.Duration) {
	c.Helper()
	c.did(c.read(session, k1))
	c.pass(think)
	c.did(c.write(session, k1))
}

func TestAReadOfAnUnknownKindTakesNoHold(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.in("s", Seen)
		a.nobodyHolds("s")
	})
}

func TestAKindOfReadsThatWritesFollowLocksAtOnce(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		a.rmw("s", time.Second)
		w.did(a.read("other", k1))
		a.holds("other")
	})
}

func TestWhatAClientsOwnersDoIsLearntForAllOfThem(t *testing.T) {
	bubble(t, auto, func(w *world) {
		for i := range 3 {
			a := w.client("a")
			a.owner.Belongs("the agent")
			a.rmw(strconv.Itoa(i), time.Second)
		}
		b, c := w.client("b"), w.client("c")
		b.owner.Belongs("the agent")
		c.owner.Belongs("another")
		w.did(b.read("b", k1))
		b.holds("b")
		w.did(c.read("c", k1))
		c.nobodyHolds("c")
	})
}

func TestAnOwnerThatOnlyReadsSoonLocksNoMore(t *testing.T) {
	bubble(t, auto, func(w *world) {
		for i := range 10 {
			a := w.client("a")
			a.owner.Belongs("the agent")
			a.rmw(strconv.Itoa(i), 10*time.Millisecond)
		}
		reader := w.client("reader")
		reader.owner.Belongs("the agent")
		reads := 0
		for ; reads < 100; reads++ {
			session := "r" + strconv.Itoa(reads)
			w.did(reader.read(session, k1))
			if reader.sequence(session).State() == Seen {
				break
			}
			w.pass(time.Second) // its patience is over: no write has come
			reader.nobodyHolds(session)
		}
		if reads == 0 || reads > 50 {
			t.Errorf("it locked for %d reads", reads)
		}
	})
}

// A hold of mode auto waits for the write as long as writes have been in coming, not until idle.
func TestAHoldForWhichNoWriteComesEndsByWhatWasLearnt(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		for range 20 {
			a.rmw("s", 100*time.Millisecond)
		}
		w.did(a.read("s", k1))
		a.holds("s")
		w.pass(200 * time.Millisecond)
		a.holds("s")
		w.pass(2 * time.Second)
		a.nobodyHolds("s")
		w.did(a.write("s", k1)) // it is late, and nobody came
	})
}

func TestARefusedWriteMakesTheNextReadLock(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a, b := w.client("a"), w.client("b")
		for range 100 {
			w.did(a.read("s", k1))
		}
		w.did(b.write("s", k1))
		w.fenced(a.write("s", k1), ReasonChanged)
		w.did(a.read("s", k1))
		a.holds("s")
	})
}

func TestAWriteThatTakesLongerThanThoughtIsStillLearntFrom(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		for range 10 {
			a.rmw("s", 10*time.Millisecond)
		}
		for range 20 {
			a.rmw("s", 5*time.Second)
		}
		w.did(a.read("s", k1))
		a.holds("s")
		w.pass(6 * time.Second)
		a.holds("s")
	})
}

func TestWhatIsLearntIsBounded(t *testing.T) {
	bubble(t, auto, func(w *world) {
		for i := range maxKinds + 10 {
			a := w.client("a")
			a.owner.Belongs(strconv.Itoa(i))
			w.did(a.read(strconv.Itoa(i), k1))
			w.pass(1)
		}
		if n := len(w.m.Learnt()); n != maxKinds {
			t.Errorf("%d kinds", n)
		}
		a := w.client("a")
		for i := range maxTrials + 10 {
			w.did(a.read("many"+strconv.Itoa(i), k1))
		}
		if n := len(w.m.learner.trials) - w.m.learner.first; n > maxTrials {
			t.Errorf("%d trials", n)
		}
	})
}

func TestDecisionsAreCountedByRule(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		a.owner.Belongs("the agent")
		a.rmw("s", time.Second)
		a.rmw("s", time.Second)
		if d := w.m.Decisions()["chat"]; d != (Decisions{Locked: 1, Looked: 1}) {
			t.Errorf("%+v", d)
		}
		if l := w.m.Learnt(); len(l) != 1 || l[0].Rule != "chat" || l[0].Command != "get" || l[0].Client != "the agent" || l[0].Share != 1 || !l[0].Locks || l[0].Delay != time.Second {
			t.Errorf("%+v", l)
		}
	})
}

func TestReadsOfSeveralTasksCountOneByOneForWhatIsLearnt(t *testing.T) {
	bubble(t, auto, func(w *world) {
		a := w.client("a")
		a.owner.Crowd()
		for range 4 {
			for range 8 {
				w.did(a.read("s", k1))
			}
			w.did(a.write("s", k1))
			for range 7 {
				w.fenced(a.write("s", k1), ReasonUsedUp)
			}
		}
		w.did(a.read("s", k1))
		a.holds("s") // each of the reads was followed by a write
	})
}
