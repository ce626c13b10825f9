package lock

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// brief is a rule whose holds end soon, so that a sequence goes on without one.
var brief = rule.Rule{Idle: time.Second}

// elsewhere has another owner change a session.
func (w *world) elsewhere(session string) {
	w.Helper()
	other := w.client("elsewhere")
	w.did(other.read(session, k1))
	w.did(other.write(session, k1))
}

// idleOut ends the client's hold on a session for want of commands.
func (c *client) idleOut(session string) {
	c.Helper()
	c.pass(c.rule.Idle)
	c.in(session, Ended)
}

func TestOfTwoTasksThatBothReadBeforeEitherWritesTheSecondIsRefused(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		b := a.sharing()
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		w.fenced(b.write("s", k1), ReasonUsedUp)
		w.did(b.read("s", k1)) // reported once
		w.did(b.write("s", k1))
	})
}

func TestThreeTasksThatReadBeforeAnyWroteGetOneWriteThrough(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		for range 3 {
			w.did(a.read("s", k1))
		}
		w.did(a.write("s", k1))
		w.fenced(a.write("s", k1), ReasonUsedUp)
		w.fenced(a.write("s", k1), ReasonUsedUp)
		w.did(a.write("s", k1)) // now it is a blind one
	})
}

func TestAnAtomicUpdateIsNeverRefusedAsStale(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		w.did(a.add("s", k1)) // its read is used up, and it does not matter

		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.add("s", k1))
	})
}

func TestAnAtomicUpdateDoesNotWashAStaleReadClean(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.add("s", k2))
		w.fenced(a.write("s", k1), ReasonSuperseded)
		w.did(a.write("s", k1))
	})
}

func TestTheWriteOfAnEndedSequencePresentsItsGrant(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		grant := w.f.token(a.sequence("s").Record).Grant
		a.idleOut("s")
		w.did(a.write("s", k1))
		if stored := w.f.token(a.sequence("s").Record); stored.Grant != grant || stored.StoredGrant != grant || stored.StoredSeq != 1 {
			w.Errorf("stored %+v, want it under the read's grant %d", stored, grant)
		}
		a.in("s", Free)
		w.did(a.write("s", k1))
		if stored := w.f.token(a.sequence("s").Record); stored.StoredGrant <= grant {
			w.Errorf("stored %+v: a blind write has no grant of its own", stored)
		}
	})
}

func TestEachKeyThatASequenceReadMayStillBeWrittenAfterItsFirstWrite(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k2))
		grant := w.f.token(a.sequence("s").Record).Grant
		w.did(a.write("s", k1))
		a.in("s", Ended)
		w.did(a.write("s", k2))
		if stored := w.f.token(a.sequence("s").Record); stored.StoredGrant != grant || stored.StoredSeq != 2 {
			w.Errorf("stored %+v, want the second write under grant %d", stored, grant)
		}
		a.in("s", Free)
	})
}

func TestASecondKeyIsNotWrittenAfterSomebodyElseCame(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k2))
		w.did(a.write("s", k1))
		w.elsewhere("s")
		w.fenced(a.write("s", k2), ReasonSuperseded)
	})
}

func TestAnUnreadKeyIsWrittenBlindlyOnceItsSequenceHasWritten(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k2))
		w.did(a.write("s", k1))
		w.elsewhere("s")
		w.did(a.write("s", 3))
		w.fenced(a.write("s", k2), ReasonUsedUp) // what it read of k2 is stale
	})
}

func TestAnyWriteOfASessionDependsOnReadsThatNoWriteHasFollowed(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		refused := w.fenced(a.write("s", k2), ReasonSuperseded) // k2 may be made of what was read in k1
		if refused.Newest <= refused.Grant {
			w.Errorf("refused with %+v", refused)
		}
	})
}

func TestReadingAgainMakesAStaleSequenceGood(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
	})
}

func TestReadingSomethingElseDoesNotMakeAStaleSequenceGood(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.read("s", k2))
		a.in("s", Held)
		w.fenced(a.write("s", k2), ReasonSuperseded)
		a.nobodyHolds("s") // the refusal gives back what the second read took
		w.did(a.read("s", k2))
		w.did(a.write("s", k2))
	})
}

func TestAnotherFormOfAReadDoesNotStandForIt(t *testing.T) {
	bubble(t, brief, func(w *world) {
		const get, getrange = 10, 11
		a := w.client("a")
		w.did(a.readBy("s", get, k1))
		w.did(a.readBy("s", getrange, k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.readBy("s", getrange, k1))
		w.fenced(a.write("s", k1), ReasonSuperseded)
	})
}

func TestAReadIsStillCurrentWhenNobodyCameBetweenTwoHolds(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.did(a.read("s", k2)) // another hold, another grant
		w.did(a.write("s", k1))
	})
}

func TestMoreReadsThanCanBeToldApartStayStaleTogether(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		again := func() {
			for command := range uint64(maxCommands + 1) {
				w.did(a.readBy("s", command, k1))
			}
		}
		again()
		a.idleOut("s")
		w.elsewhere("s")
		again()
		w.fenced(a.write("s", k1), ReasonSuperseded)
		again()
		w.did(a.write("s", k1)) // reported once
	})
}

func TestAsManyReadsAsCanBeToldApartAreAllMadeAgain(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		again := func() {
			for command := range uint64(maxCommands) {
				w.did(a.readBy("s", command, k1))
			}
		}
		again()
		a.idleOut("s")
		w.elsewhere("s")
		again()
		w.did(a.write("s", k1))
	})
}

func TestStaleReadsAddUpOverSeveralHolds(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.read("s", k2))
		a.idleOut("s")
		w.elsewhere("s")
		w.did(a.read("s", k1)) // k2 is stale now
		w.fenced(a.write("s", k1), ReasonSuperseded)
	})
}

func TestReadsOlderThanMaxHoldAreForgotten(t *testing.T) {
	bubble(t, rule.Rule{MaxHold: time.Minute}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("s", k2))
		w.did(a.write("s", k1))
		w.elsewhere("s")
		w.pass(time.Minute + 1)
		w.did(a.write("s", k2))
	})
}

func TestTheKeysThatAreRememberedAreBounded(t *testing.T) {
	var r reads
	now := time.Now()
	for key := range uint64(2 * maxKeys) {
		r.add(key, []uint64{key}, now)
		r.add(key, []uint64{key}, now)
	}
	if len(r.keys) != maxKeys || len(r.commands) != maxCommands {
		t.Errorf("%d keys and %d commands are remembered", len(r.keys), len(r.commands))
	}
	if first, last := uint64(0), uint64(2*maxKeys-1); !r.fresh([]uint64{first}) || r.fresh([]uint64{last}) {
		t.Error("not the first keys are remembered")
	}
}

func TestASequenceOfManyWritesGoesOnUnderItsHold(t *testing.T) {
	bubble(t, rule.Rule{WritesPerRead: rule.Many, Idle: 10 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		grant := w.f.token(a.sequence("s").Record).Grant
		for seq := range uint64(3) {
			w.did(a.write("s", k1))
			if stored := w.f.token(a.sequence("s").Record); stored.StoredGrant != grant || stored.StoredSeq != seq+1 {
				w.Fatalf("write %d stored %+v, want it under grant %d", seq+1, stored, grant)
			}
			a.holds("s")
			w.pass(9 * time.Second)
		}
		a.idleOut("s")
		w.did(a.write("s", k1)) // and after it, as long as nobody came
		w.elsewhere("s")
		w.fenced(a.write("s", k1), ReasonSuperseded)
	})
}

func TestAFailedCommandLeavesItsReadsToBeWritten(t *testing.T) {
	failing := func(a *client) error {
		return a.commit("s", Write{Keys: []uint64{k1}}, func() bool { return false })
	}
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(failing(a)) // with Redis's own error, but under its token
		a.in("s", Ended)
		a.nobodyHolds("s")
		w.did(a.write("s", k1))
		a.in("s", Free)

		w.did(a.read("s", k1))
		w.did(failing(a))
		w.elsewhere("s")
		w.fenced(a.write("s", k1), ReasonSuperseded)
	})
}

func TestWhatATransactionReadsBesideItsWriteIsCurrentUnderItsGrant(t *testing.T) {
	bubble(t, brief, func(w *world) {
		for _, stale := range []bool{false, true} {
			a := w.client("a")
			w.did(a.write("s", k1))
			a.sequence("s").ReadBeside(7, []uint64{k2}, w.f.token(a.sequence("s").Record).Grant, 1, time.Now())
			a.in("s", Ended)
			a.nobodyHolds("s")
			if stale {
				w.elsewhere("s")
				w.fenced(a.write("s", k2), ReasonSuperseded)
				continue
			}
			w.did(a.write("s", k2))
			if stored := w.f.token(a.sequence("s").Record); stored.StoredSeq != 2 {
				w.Errorf("stored %+v, want the second write under the grant", stored)
			}
			a.in("s", Free)
		}
	})
}

func TestWhatATransactionReadsBesideItsWriteKeepsAHold(t *testing.T) {
	bubble(t, rule.Rule{WritesPerRead: rule.Many}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		a.sequence("s").ReadBeside(7, []uint64{k2}, w.f.token(a.sequence("s").Record).Grant, 1, time.Now())
		a.in("s", Held)
		a.holds("s")
		w.did(a.write("s", k2))
	})
}
