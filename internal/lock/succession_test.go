package lock

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// anew is the world's rule with other times.
func (w *world) anew() *rule.Rule {
	w.Helper()
	r := *w.rule
	r.Lease, r.Idle, r.Wait = time.Minute, time.Minute, time.Second
	compiled, err := rule.Compile(r)
	if err != nil {
		w.Fatal(err)
	}
	return compiled
}

const reading, writing = false, true

// goesOn says under which rule a command to a session is, once the client's rule has been configured anew.
func (c *client) goesOn(session string, next *rule.Rule, writes bool) *rule.Rule {
	c.Helper()
	s := c.sequence(session).Under(next, writes)
	if s != c.sequence(session) {
		c.Fatal("the sequence that it goes on with is not the owner's")
	}
	return s.Rule
}

func TestASequenceUnderWayKeepsTheRuleItBeganWith(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a, next := w.client("a"), w.anew()
		w.did(a.read("s", k1))
		for _, writes := range []bool{reading, writing} {
			if a.goesOn("s", next, writes) != w.rule {
				w.Error("a hold goes on under another rule")
			}
		}
		a.holds("s")
		w.did(a.write("s", k1))
		if a.goesOn("s", next, writing) != next {
			w.Error("the next sequence begins under the old rule")
		}
		w.did(a.read("s", k1))
		if claim := a.sequence("s").Claim; claim.Lease != next.Lease {
			w.Errorf("held for %v, want the new lease", claim.Lease)
		}
		w.pass(brief.Idle + time.Second)
		a.in("s", Held) // by the new idle
	})
}

func TestABrokenSequenceIsReportedUnderTheRuleItBrokeUnder(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, next := w.client("a"), w.anew()
		w.did(a.read("s", k1))
		w.f.lapse(a.sequence("s").Record)
		w.elsewhere("s")
		w.pass(long.Lease)
		a.in("s", Broken)
		if a.goesOn("s", next, reading) != w.rule {
			w.Error("it was forgotten that the sequence broke")
		}
		w.fenced(a.read("s", k1), ReasonSuperseded)
		if a.goesOn("s", next, reading) != next {
			w.Error("the next sequence begins under the old rule")
		}
	})
}

func TestWhatWasReadBeforeAReloadIsWrittenIfNobodyCameInBetween(t *testing.T) {
	for name, came := range map[string]bool{"nobody came": false, "somebody came": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, brief, func(w *world) {
				a, next := w.client("a"), w.anew()
				w.did(a.read("s", k1))
				w.did(a.read("s", k2))
				w.pass(brief.Idle)
				a.in("s", Ended)
				if a.goesOn("s", next, writing) != w.rule {
					w.Error("a write of what was read goes on under another rule")
				}
				if came {
					w.elsewhere("s")
				}
				if a.goesOn("s", next, reading) != next {
					w.Error("a read that begins anew goes on under the old rule")
				}
				a.in("s", Ended)
				w.did(a.read("s", k1))
				if err := a.write("s", k2); came {
					w.fenced(err, ReasonSuperseded)
				} else {
					w.did(err)
				}
			})
		})
	}
}

func TestAWriteOfAReadThatWasUsedUpBeforeAReloadIsRefused(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, next := w.client("a"), w.anew()
		w.did(a.read("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		if a.goesOn("s", next, writing) != next {
			w.Error("the next sequence begins under the old rule")
		}
		w.fenced(a.write("s", k1), ReasonUsedUp)
	})
}

func TestASequenceThatSomebodyIsInsideOfIsUnderWay(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, next := w.client("a"), w.anew()
		s := a.enter("s")
		if s.Under(next, writing) != s {
			w.Error("it was succeeded")
		}
		s.Leave()
		if s.Under(next, writing) == s {
			w.Error("it was not succeeded")
		}
	})
}

func TestACommandThatComesToASucceededSequenceGoesOnWithItsSuccessor(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, next := w.client("a"), w.anew()
		late := a.sequence("s")
		s := late.Under(next, writing)
		if late.Anew() != s || s.Anew() != s || late.Under(next, writing) != late {
			w.Error("it goes on with another")
		}
	})
}

func TestAConnectionThatLeavesEndsItsPartInASuccessor(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, next := w.client("a"), w.anew()
		w.did(a.read("s", k1))
		a.sequence("s").Join(a)
		w.did(a.write("s", k1))
		a.goesOn("s", next, writing)
		w.did(a.read("s", k1)) // which needs no Join
		a.holds("s")
		a.owner.Leave(a)
		synctest.Wait()
		a.nobodyHolds("s")
	})
}

// A field of a sequence is the new one's own, the old one's, or begins anew: what is of a hold, and the record, whose TTL may be another.
func TestASuccessorInheritsWhatWasRead(t *testing.T) {
	own := []string{"Record", "Claim", "Rule", "owner", "gate", "waiting", "lending", "turns", "mu", "dropped", "apart", "manager", "group", "reading", "lined", "listed", "orphan"}
	inherited := []string{"state", "grant", "seq", "seen", "reads", "pending", "trials", "must", "steps", "used", "members"}
	anew := []string{"story", "made", "kind", "patience", "vain", "settled", "writing", "behind", "fewer", "last", "broken", "since", "leaseUntil", "renewAt", "lingering", "timer", "due", "given", "hold", "over", "above", "tries", "outlasts"}
	known := slices.Concat(own, inherited, anew)
	for i := range reflect.TypeFor[Sequence]().NumField() {
		if name := reflect.TypeFor[Sequence]().Field(i).Name; !slices.Contains(known, name) {
			t.Errorf("decide in (*Sequence).inherit what becomes of %s", name)
		}
	}
	bubble(t, brief, func(w *world) {
		a, next := w.client("a"), w.anew()
		w.did(a.read("s", k1))
		a.sequence("s").Join(a)
		w.pass(brief.Idle)
		old := reflect.ValueOf(a.sequence("s")).Elem()
		want := map[string]string{}
		for _, name := range inherited {
			if old.FieldByName(name).IsZero() && !slices.Contains([]string{"seq", "seen", "trials", "must", "steps"}, name) {
				w.Errorf("%s is not there to be inherited", name)
			}
			want[name] = text(old.FieldByName(name))
		}
		heir := reflect.ValueOf(a.sequence("s").Under(next, reading)).Elem()
		for _, name := range inherited {
			if got := text(heir.FieldByName(name)); got != want[name] {
				w.Errorf("%s is %s, want %s", name, got, want[name])
			}
		}
	})
}

func TestASequenceIsOpenUntilThereIsNothingMoreToIt(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		open := func(want State) {
			w.Helper()
			s, state := a.owner.Open(tokenstore.Area{}, w.rule, []byte("s"))
			if (s != nil) != (want != Free) || state != want {
				w.Errorf("open %v, %v, want %v", s != nil, stateName(state), stateName(want))
			}
			if got := w.m.Open(func(r *rule.Rule) bool { return r == w.rule }); got != (want != Free) {
				w.Errorf("the manager says %v", got)
			}
			if w.m.Open(func(*rule.Rule) bool { return false }) {
				w.Error("a sequence of no rule is open")
			}
		}
		open(Free)
		w.did(a.read("s", k1))
		open(Held)
		w.pass(brief.Idle)
		open(Ended)
		w.did(a.write("s", k1))
		open(Free)
		for a.sequence("s").State() != Broken {
			w.did(a.read("s", k1))
			w.pass(brief.Idle / 2)
		}
		open(Broken)
		if s, _ := w.client("b").owner.Open(tokenstore.Area{}, w.rule, []byte("s")); s != nil {
			w.Error("it is open for another owner as well")
		}
	})
}

func TestWhatWasReadUnderRulesThatAreGoneIsRefusedOnce(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		a.sequence("s").Outdate()
		w.did(a.write("s", k1))
		w.did(a.read("s", k1))
		a.sequence("s").Outdate()
		a.in("s", Held)
		a.idleOut("s")
		inside := a.enter("s")
		inside.Outdate()
		inside.Leave()
		a.in("s", Ended)
		a.sequence("s").Outdate()
		w.fenced(a.write("s", k1), ReasonRevised)
		w.did(a.write("s", k1))
	})
}

func TestWhatIsReadAgainUnderAnotherSessionDependsOnThisOneNoMore(t *testing.T) {
	bubble(t, brief, func(w *world) {
		for name, stale := range map[string]bool{"ended": false, "stale": true} {
			a := w.client(name)
			w.did(a.read(name, k1))
			w.did(a.read(name, k2))
			a.idleOut(name)
			if stale {
				w.elsewhere(name)
				w.did(a.add(name, k1))
				a.in(name, Free)
			}
			s := a.sequence(name)
			s.ReadElsewhere(k1)
			if open, _ := a.owner.Open(tokenstore.Area{}, w.rule, []byte(name)); open == nil {
				w.Errorf("%s: nothing depends on the other read", name)
			}
			s.ReadElsewhere(k2)
			if open, _ := a.owner.Open(tokenstore.Area{}, w.rule, []byte(name)); open != nil {
				w.Errorf("%s: something depends on reads that were made again", name)
			}
			w.did(a.write(name, k1))
		}
		a := w.client("held")
		w.did(a.read("held", k1))
		a.sequence("held").ReadElsewhere(k1)
		a.in("held", Held)
	})
}

func TestClaimsOfRulesThatAreGoneAreForgotten(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		for range 10 {
			next := w.anew()
			a.goesOn("s", next, writing)
			w.did(a.write("s", k1))
		}
		if n := len(a.owner.claims); n != 1 {
			w.Errorf("%d claims are kept", n)
		}
		a.owner.Identify(tokenstore.Identity{Client: "b"})
	})
}

func text(v reflect.Value) string { return fmt.Sprint(v) }
