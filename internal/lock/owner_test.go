package lock

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// fill gives the client as many sequences as an owner may have.
func (c *client) fill(use func(session string)) {
	c.Helper()
	for i := range maxSequences {
		use(strconv.Itoa(i))
	}
	if n := len(c.owner.all()); n != maxSequences {
		c.Fatalf("%d sequences", n)
	}
}

func TestSequencesWithNothingToLoseAreDroppedWhenThereAreTooMany(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("held", k1))
		w.did(a.read("read", k1))
		w.did(a.read("read", k2))
		w.did(a.write("read", k1)) // k2 may still be written
		w.did(a.read("stale", k1))
		w.did(a.read("stale", k1))
		w.did(a.write("stale", k1)) // a second write would be refused
		inside := a.enter("inside")
		defer inside.Leave()
		for i := range maxSequences - 4 {
			w.did(a.write(strconv.Itoa(i), k1))
		}
		w.did(a.write("one more", k1))
		if n := len(a.owner.all()); n != 5 {
			w.Fatalf("%d sequences are left, want 5", n)
		}
		if a.sequence("inside") != inside {
			w.Error("the sequence in use was dropped")
		}
		a.holds("held")
		w.did(a.write("held", k1))
		w.elsewhere("read")
		w.fenced(a.write("read", k2), ReasonSuperseded)
		w.fenced(a.write("stale", k1), ReasonUsedUp)
	})
}

func TestOfTooManyEndedSequencesTheLongestUnusedIsDropped(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		a.fill(func(session string) {
			w.did(a.read(session, k1))
			w.pass(1) // so that they differ
		})
		w.pass(w.rule.Idle)
		a.sequence("one more")
		const dropped = maxSequences / 8
		if n := len(a.owner.all()); n != maxSequences-dropped+1 {
			w.Fatalf("%d sequences", n)
		}
		w.elsewhere(strconv.Itoa(dropped))
		w.fenced(a.write(strconv.Itoa(dropped), k1), ReasonSuperseded) // it was kept
		w.elsewhere("0")
		w.did(a.write("0", k1)) // it was forgotten: this is a blind write
	})
}

func TestSequencesThatAreHeldAreNeverDropped(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		a.fill(func(session string) { w.did(a.read(session, k1)) })
		w.did(a.read("one more", k1))
		if n := len(a.owner.all()); n != maxSequences+1 {
			w.Fatalf("%d sequences", n)
		}
		for _, s := range a.owner.all() {
			if s.State() != Held {
				w.Fatalf("a sequence is %s", stateName(s.State()))
			}
		}
	})
}

func TestHoldsTakenAfterAnIntroductionCarryIt(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		who := tokenstore.Identity{Proxy: "proxy", Client: "a", Name: "worker"}
		a.owner.Identify(who)
		w.did(a.read("t", k1))
		if got := w.f.holder(a.sequence("t").Record).Identity; got != who {
			w.Errorf("held by %+v", got)
		}
		if a.sequence("t").Claim.Owner != a.sequence("s").Claim.Owner {
			w.Error("it became another owner")
		}
		same := a.sequence("t").Claim
		a.owner.Identify(who)
		if a.sequence("u").Claim != same {
			w.Error("the same introduction makes another claim")
		}
	})
}

func TestOwnersHaveNamesOfTheirOwn(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		seen := map[string]bool{}
		for range 100 {
			id := w.m.Owner(tokenstore.Identity{}).ID
			if seen[id] {
				w.Fatalf("two owners are called %q", id)
			}
			seen[id] = true
		}
	})
}

func TestAnOwnerThatHasClosedIsForgotten(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.owner.Close()
		synctest.Wait()
		if n := len(w.m.owners); n != 0 {
			w.Errorf("%d owners are remembered", n)
		}
	})
}

func TestACommandThatComesToADroppedSequenceGoesOnWithAnother(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		a.fill(func(session string) { a.sequence(session) })
		late := a.sequence("0")
		if late.Anew() != late {
			w.Error("a sequence is not itself")
		}
		a.sequence("one more")
		if next := late.Anew(); next == late || next != a.sequence("0") {
			w.Error("it goes on with the dropped one")
		}
	})
}
