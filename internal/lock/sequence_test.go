package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestAReadHoldsTheSessionUntilItsWrite(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		a.in("s", Free)
		w.did(a.read("s", k1))
		a.in("s", Held)
		a.holds("s")
		if err := b.write("s", k1); !errors.Is(err, errHeld) {
			w.Errorf("another's blind write: %v, want it to wait", err)
		}
		w.did(a.read("s", k2)) // only looks
		w.did(a.write("s", k1, k2))
		a.in("s", Free)
		a.nobodyHolds("s")
	})
}

func TestABlindWriteHoldsNothing(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.write("s", k1))
		w.did(a.write("s", k1))
		a.in("s", Free)
		a.nobodyHolds("s")
		if n := w.m.Holds(); n != 0 {
			w.Errorf("%d holds", n)
		}
	})
}

func TestSessionsOfOneOwnerAreApart(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("t", k1))
		w.f.flush(a.sequence("t").Record)
		w.fenced(a.write("t", k1), ReasonMissing)
		w.did(a.write("s", k1))
		if one, other := a.owner.Sequence(tokenstore.Area{}, w.rule, []byte("s")), a.owner.Sequence(tokenstore.Area{DB: 1}, w.rule, []byte("s")); one == other {
			w.Error("databases share a sequence")
		}
		if one, same := a.sequence("s"), a.sequence("s"); one != same {
			w.Error("a session has two sequences")
		}
	})
}

func TestAReadThatFindsItsHoldLostReportsItOnce(t *testing.T) {
	for reason, lose := range map[Reason]func(*world, *client){
		ReasonSuperseded: func(w *world, a *client) {
			w.f.lapse(a.sequence("s").Record)
			w.elsewhere("s")
		},
		ReasonMissing: func(w *world, a *client) { w.f.flush(a.sequence("s").Record) },
	} {
		t.Run(string(reason), func(t *testing.T) {
			bubble(t, rule.Rule{}, func(w *world) {
				a := w.client("a")
				w.did(a.read("s", k1))
				lose(w, a)
				w.fenced(a.read("s", k1), reason)
				a.in("s", Free)
				w.did(a.read("s", k1))
				w.did(a.write("s", k1))
			})
		})
	}
}

func TestAWriteWhoseTokenIsStoredAlreadyIsRefused(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		s := a.enter("s")
		write := Write{Keys: []uint64{k1}}
		token, err := s.BeforeWrite(context.Background(), write, time.Now())
		w.did(err)
		// It is applied, but its answer is lost.
		w.f.commit(tokenstore.Commit{Record: s.Record, Claim: s.Claim, Grant: token.Grant, Seq: token.Seq}, func() bool { return true })
		s.Leave()
		w.fenced(a.write("s", k1), ReasonStored)
	})
}

func TestAHoldThatWasNeverGrantedAgainIsNotResumedUnderANewGrant(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		s := a.enter("s")
		refused := w.fenced(s.Lost(77, tokenstore.Holder{Owner: "x", Grant: 77}), ReasonSuperseded)
		if refused.Newest != 77 || refused.Holder.Owner != "x" {
			w.Errorf("refused with %+v", refused)
		}
		s.Leave()
		a.in("s", Free)
	})
}

func TestACommandThatFailsAfterItTookTheSessionGivesItBack(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		s := a.enter("s")
		s.Granted(w.f.begin(s.Record, s.Claim, "", tokenstore.Basis{}), time.Now())
		s.Abandon(context.Background())
		s.Leave()
		a.in("s", Free)
		a.nobodyHolds("s")
		w.did(w.client("b").read("s", k1))
	})
}

func TestACommandThatFailsDoesNotWashAStaleReadClean(t *testing.T) {
	failing := func(a *client) { // LLEN of a string, say
		s := a.enter("s")
		defer s.Leave()
		now := time.Now()
		_, expected, err := s.BeforeRead(context.Background(), "get", now)
		a.did(err)
		s.Granted(a.f.begin(s.Record, s.Claim, "", expected), now)
		s.Abandon(context.Background())
	}
	t.Run("when somebody else came", func(t *testing.T) {
		bubble(t, brief, func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			a.idleOut("s")
			w.elsewhere("s")
			failing(a)
			w.fenced(a.write("s", k1), ReasonSuperseded)
			w.did(a.write("s", k1))
		})
	})
	t.Run("when somebody else comes later", func(t *testing.T) {
		bubble(t, brief, func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			a.idleOut("s")
			failing(a)
			w.elsewhere("s")
			w.fenced(a.write("s", k1), ReasonSuperseded)
		})
	})
	t.Run("nor a good one stale", func(t *testing.T) {
		bubble(t, brief, func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			a.idleOut("s")
			failing(a)
			w.did(a.write("s", k1))
		})
	})
}

func TestARefusalNamesTheSessionAndTheGrants(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		a.idleOut("s")
		w.elsewhere("s")
		refused := w.fenced(a.write("s", k1), ReasonSuperseded)
		err := &refused
		if err.Record != a.sequence("s").Record || err.Grant == 0 || err.Newest <= err.Grant || err.Holder.Held() {
			w.Errorf("%+v", err)
		}
		if want := `rule "chat" session "s": grant `; len(err.Error()) <= len(want) || err.Error()[:len(want)] != want {
			w.Errorf("it reads %q", err)
		}
	})
}

func TestHoldsAreCounted(t *testing.T) {
	bubble(t, brief, func(w *world) {
		a := w.client("a")
		count := func(want int) {
			w.Helper()
			if got := w.m.Holds(); got != want {
				w.Fatalf("%d holds, want %d", got, want)
			}
		}
		w.did(a.read("s", k1))
		w.did(a.read("s", k1))
		w.did(a.read("t", k1))
		count(2)
		w.did(a.write("s", k1))
		count(1)
		w.did(a.write("s", k2))
		count(1)
		a.idleOut("t")
		count(0)
		w.did(a.read("s", k1))
		w.f.flush(a.sequence("s").Record)
		w.fenced(a.read("s", k1), ReasonMissing)
		count(0)
	})
}

func TestTurnsOnASequenceAreTakenOneAfterTheOther(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		s := a.enter("s")
		if s.TryEnter() {
			w.Fatal("two are inside")
		}
		entered := false
		go func() {
			s.Turn() <- struct{}{}
			entered = true
		}()
		synctest.Wait()
		if entered {
			w.Fatal("two are inside")
		}
		s.Leave()
		synctest.Wait()
		if !entered {
			w.Error("the turn was not passed on")
		}
		s.Leave()
	})
}
