package lock

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// waits is how long a read of the client's had better wait for stragglers, with so many writes behind it.
func (c *client) waits(session string, behind int) time.Duration {
	keys := make([]uint64, behind)
	for i := range keys {
		keys[i] = k1
	}
	wait, _ := c.sequence(session).Stragglers(c, []uint64{k1}, keys, time.Now())
	return wait
}

// came is a write of k1 that had come by then.
func (c *client) came(session string, at time.Time) error {
	return c.commit(session, Write{Keys: []uint64{k1}, Came: at}, func() bool { return true })
}

// crowd is a client whose tasks share its connections.
func (w *world) crowd() (a, b *client) {
	a, b = w.pooled()
	a.owner.Crowd()
	return a, b
}

func TestAReadWaitsForTheWritesOfTasksThatHaveReadBefore(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		if a.waits("s", 0) > 0 {
			t.Error("it waits though nobody has written")
		}
		w.did(a.write("s", k1))
		wait, fewer := a.sequence("s").Stragglers(a, []uint64{k1}, nil, time.Now())
		if wait == 0 {
			t.Fatal("it does not wait")
		}
		w.fenced(b.write("s", k1), ReasonUsedUp)
		<-fewer
		if a.waits("s", 0) > 0 {
			t.Error("it waits though all have written")
		}
	})
}

func TestNobodyWaitsForTasksThatAreNotKnownToBeSeveral(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		if a.waits("s", 0) > 0 {
			t.Error("it waits for itself")
		}
	})
}

func TestWhatHasComeBehindAReadBeforeItIsAnsweredIsAStragglers(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		w.pass(time.Millisecond)
		came := time.Now()
		if a.waits("s", 1) > 0 {
			t.Error("it waits for what waits for it")
		}
		a.sequence("s").StragglersOver(a, false)
		w.pass(time.Millisecond)
		w.did(a.read("s", k1))
		w.fenced(b.came("s", came), ReasonUsedUp) // for certain: a's was not answered then
		w.did(a.write("s", k1))
	})
}

func TestReadsThatWaitKnowOfWhatIsBehindEachOther(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		for _, c := range []*client{a, b, a} {
			w.did(c.read("s", k1))
		}
		w.did(a.write("s", k1))
		if a.waits("s", 1) == 0 {
			t.Fatal("it does not wait for the second of two")
		}
		if b.waits("s", 1) > 0 {
			t.Error("it waits though both are behind reads that wait")
		}
	})
}

func TestWaitingInVainGetsShorter(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1)) // and writes nothing
		w.did(a.write("s", k1))
		first := a.waits("s", 0)
		for range 10 {
			a.sequence("s").StragglersOver(a, true)
		}
		if again := a.waits("s", 0); again == 0 || again > first/8 {
			t.Errorf("it waits for %v, and for %v after it was in vain", first, again)
		}
		if a.waits("s", 1) > 0 { // there is one
			t.Fatal("it waits")
		}
		w.fenced(b.write("s", k1), ReasonUsedUp)
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		if again := a.waits("s", 0); again != first {
			t.Errorf("it waits for %v, want %v", again, first)
		}
	})
}

// What was sent behind a refusal goes back to what is stale: its task writes no more.
func TestARefusalForWhatIsStaleLeavesNoStraggler(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		b.sequence("s").GiveUp([]uint64{k1})
		if a.waits("s", 0) > 0 {
			t.Error("it waits")
		}
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
	})
}

func TestTheSameReadBeforeItWasAnsweredIsAnotherTasks(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		s := w.client("a").sequence("s")
		for _, read := range []struct {
			member  string
			command uint64
			at, to  int64
			is      bool
		}{
			{"c1", 1, 10, 10, false},
			{"c1", 1, 20, 40, false}, // sent after the first was answered
			{"c1", 2, 30, 40, false}, // another command
			{"c1", 2, 40, 50, true},
			{"c2", 2, 50, 50, false}, // over another connection
		} {
			if s.Overlaps(read.member, read.command, read.at, read.to) != read.is {
				t.Errorf("%+v", read)
			}
		}
	})
}

// Who has read before the last write and has never written is given up; what was read since stays good, though a write is behind a read.
func TestWhatWasReadStaysGoodBesideOneThatWasGivenUp(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.crowd()
		w.did(a.read("quick", k1))
		w.did(a.write("quick", k1))
		w.did(a.read("s", k1))
		w.did(b.read("s", k1)) // and writes nothing
		w.did(a.write("s", k1))
		w.pass(hesitation)
		w.did(a.read("s", k1))
		if b.waits("s", 1) > 0 {
			t.Fatal("it waits")
		}
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
	})
}
