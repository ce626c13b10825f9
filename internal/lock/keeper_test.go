package lock

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// long is a rule whose holds last.
var long = rule.Rule{Lease: 30 * time.Second, Idle: 10 * time.Minute, MaxHold: 10 * time.Minute}

func TestALeaseIsRenewedAtAThird(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.pass(10*time.Second - 1)
		w.calls("renew", 0)
		w.pass(1)
		w.calls("renew", 1)
		w.pass(10*time.Second - 1)
		w.calls("renew", 1)
		w.pass(1)
		w.calls("renew", 2)
		w.pass(2 * time.Minute)
		a.holds("s")
		a.in("s", Held)
	})
}

func TestALeaseCountsFromWhenItWasAskedFor(t *testing.T) {
	bubble(t, long, func(w *world) {
		s := w.client("a").sequence("s")
		asked := time.Now()
		b := w.f.begin(s.Record, s.Claim, "", tokenstore.Basis{})
		w.pass(4 * time.Second) // the answer's way
		s.Granted(b, asked)
		w.pass(6*time.Second - 1)
		w.calls("renew", 0)
		w.pass(1)
		w.calls("renew", 1)
	})
}

func TestAHoldIsRevokedAtMaxHoldHoweverBusyItIs(t *testing.T) {
	for name, next := range map[string]func(*client) error{
		"and its next read reports it":  func(a *client) error { return a.read("s", k1) },
		"and its next write reports it": func(a *client) error { return a.write("s", k1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, rule.Rule{MaxHold: 2 * time.Minute, Idle: time.Hour}, func(w *world) {
				a := w.client("a")
				for range 12 {
					w.did(a.read("s", k1))
					w.pass(10 * time.Second)
				}
				a.in("s", Broken)
				a.nobodyHolds("s")
				if release := w.calls("release", 1)[0]; !release.flag {
					w.Error("the hold was released, not revoked")
				}
				renewed := len(w.f.made("renew"))
				w.pass(time.Hour)
				w.calls("renew", renewed)

				if refused := w.fenced(next(a), ReasonMaxHold); refused.Grant == 0 {
					w.Error("the refusal names no grant")
				}
				w.did(a.read("s", k1)) // reported once
				w.did(a.write("s", k1))
			})
		})
	}
}

func TestAWriteAfterARevokedHoldIsRefusedAlsoByTheStore(t *testing.T) {
	bubble(t, rule.Rule{MaxHold: time.Minute, Idle: time.Hour}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		held := w.f.token(a.sequence("s").Record).Grant
		w.pass(time.Minute)
		if now := w.f.token(a.sequence("s").Record).Grant; now <= held {
			w.Errorf("the newest grant is %d, still not above the revoked %d", now, held)
		}
	})
}

func TestAProxyThatWakesPastMaxHoldBreaksTheHoldBeforeItsKeeperDoes(t *testing.T) {
	for name, next := range map[string]func(*Sequence, time.Time) error{
		"at a read": func(s *Sequence, now time.Time) error {
			_, _, err := s.BeforeRead(context.Background(), "get", now)
			return err
		},
		"at a write": func(s *Sequence, now time.Time) error {
			_, err := s.BeforeWrite(context.Background(), Write{Keys: []uint64{k1}}, now)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, long, func(w *world) {
				a := w.client("a")
				w.did(a.read("s", k1))
				late := time.Now().Add(w.rule.MaxHold)
				w.fenced(next(a.sequence("s"), late), ReasonMaxHold)
				if release := w.calls("release", 1)[0]; !release.flag {
					w.Error("the hold was released, not revoked")
				}
				w.did(next(a.sequence("s"), late))
			})
		})
	}
}

func TestAHoldAtMaxHoldIsNotBrokenWhileItsCommandRuns(t *testing.T) {
	bubble(t, rule.Rule{MaxHold: time.Minute, Idle: time.Hour}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		s := a.enter("s")
		w.pass(time.Minute + time.Second)
		a.in("s", Held)
		s.Leave()
		w.pass(busyRetry)
		a.in("s", Broken)
	})
}

func TestAnUnusedHoldEndsAtIdleAndItsWriteIsStillGood(t *testing.T) {
	bubble(t, rule.Rule{Idle: 20 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.pass(15 * time.Second)
		w.did(a.read("s", k1)) // it is used: idle begins anew
		w.pass(20*time.Second - 1)
		a.in("s", Held)
		w.pass(1)
		a.in("s", Ended)
		a.nobodyHolds("s")
		if release := w.calls("release", 1)[0]; release.flag {
			w.Error("the hold was revoked: what was read can't be written any more")
		}
		w.pass(time.Second)
		w.did(a.write("s", k1))
		a.in("s", Free)
	})
}

func TestAWriteAfterIdleIsRefusedWhenSomebodyElseCame(t *testing.T) {
	bubble(t, rule.Rule{Idle: 20 * time.Second}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.pass(20 * time.Second)
		w.did(b.read("s", k1))
		refused := w.fenced(a.write("s", k1), ReasonSuperseded)
		if refused.Newest <= refused.Grant || refused.Holder.Client != "b" {
			w.Errorf("refused with %+v", refused)
		}
		w.did(b.write("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
	})
}

func TestAHoldLingersAfterItsCommit(t *testing.T) {
	bubble(t, rule.Rule{Linger: 5 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		a.holds("s")
		w.pass(5*time.Second - 1)
		a.holds("s")
		w.pass(1)
		a.nobodyHolds("s")
		a.in("s", Free)
		if release := w.calls("release", 1)[0]; release.flag {
			w.Error("the hold was revoked")
		}
	})
}

func TestALingeringHoldIsUsedByTheNextSequenceAndThenLastsAsAnyOther(t *testing.T) {
	bubble(t, rule.Rule{Linger: time.Second, Idle: 20 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		w.pass(time.Second / 2)
		w.did(a.read("s", k1))
		w.pass(20*time.Second - 1)
		a.holds("s")
		w.pass(1)
		a.nobodyHolds("s")
	})
}

func TestAFailedRenewalIsTriedAgainWithinTheLease(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.fail(true, "renew")
		w.pass(15 * time.Second)
		w.calls("renew", 6) // at 10s, and then every second
		w.f.fail(false, "renew")
		w.pass(time.Second)
		w.calls("renew", 7)
		w.pass(10*time.Second - 1)
		w.calls("renew", 7)
		w.pass(1)
		w.calls("renew", 8)
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

func TestARenewalWithoutAnAnswerIsGivenUpInTime(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.ignore(true, "renew")
		w.pass(10*time.Second + callTimeout + time.Second)
		w.calls("renew", 2)
		w.f.ignore(false, "renew")
		w.pass(callTimeout + time.Second)
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

func TestAHoldWhoseLeaseEndedIsTakenUpAgainWhenNobodyCame(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		held := w.f.token(a.sequence("s").Record).Grant
		w.f.fail(true, "renew")
		w.pass(40 * time.Second)
		a.nobodyHolds("s")
		a.in("s", Held)
		w.f.fail(false, "renew")
		w.pass(time.Second)
		a.holds("s")
		if now := w.f.token(a.sequence("s").Record).Grant; now != held {
			w.Errorf("the hold goes on under grant %d, not %d", now, held)
		}
		w.did(a.write("s", k1))
	})
}

func TestAReadTakesUpAHoldWhoseLeaseEnded(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.fail(true, "renew")
		w.pass(40 * time.Second)
		a.nobodyHolds("s")
		w.did(a.read("s", k1))
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

// The store grants a waiter for less than the lease, until the hold is renewed.
func TestAGrantForAMomentIsBelievedForNoLonger(t *testing.T) {
	bubble(t, long, func(w *world) {
		s := w.client("a").sequence("s")
		b := w.f.begin(s.Record, s.Claim, "", tokenstore.Basis{})
		b.Lease = time.Second
		w.f.fail(true, "renew")
		s.Granted(b, time.Now())
		for _, want := range []How{Verify, Resume} {
			if how, _, err := s.BeforeRead(t.Context(), "get", time.Now()); how != want || err != nil {
				w.Errorf("a read does %v, want %v (%v)", how, want, err)
			}
			w.pass(time.Second)
		}
		w.f.fail(false, "renew")
		w.pass(time.Second)
		if how, _, _ := s.BeforeRead(t.Context(), "get", time.Now().Add(w.rule.Lease-2*time.Second)); how != Verify {
			w.Errorf("after a renewal, a read does %v", how)
		}
	})
}

func TestAReadThatCannotTakeUpItsHoldReportsTheLossOnce(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.f.fail(true, "renew")
		w.pass(40 * time.Second)
		w.did(b.read("s", k1))
		refused := w.fenced(a.read("s", k1), ReasonSuperseded)
		if refused.Holder.Client != "b" || refused.Newest <= refused.Grant {
			w.Errorf("refused with %+v", refused)
		}
		w.did(b.write("s", k1))
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
	})
}

func TestALostHoldIsReportedOnce(t *testing.T) {
	for name, next := range map[string]func(*client) error{
		"by a read":  func(a *client) error { return a.read("s", k1) },
		"by a write": func(a *client) error { return a.write("s", k1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, long, func(w *world) {
				a, b := w.client("a"), w.client("b")
				w.did(a.read("s", k1))
				w.f.lapse(a.sequence("s").Record)
				w.did(b.read("s", k1))
				w.pass(10 * time.Second)
				a.in("s", Broken)
				w.did(b.write("s", k1))

				refused := w.fenced(next(a), ReasonSuperseded)
				if refused.Holder.Client != "b" || refused.Newest <= refused.Grant {
					w.Errorf("refused with %+v", refused)
				}
				w.did(a.read("s", k1))
				w.did(a.write("s", k1))
			})
		})
	}
}

func TestAHoldLostToAnOwnerWhoHasLeftWasSupersededAllTheSame(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.f.lapse(a.sequence("s").Record)
		w.did(b.read("s", k1))
		w.did(b.write("s", k1))
		w.pass(10 * time.Second)
		refused := w.fenced(a.write("s", k1), ReasonSuperseded)
		if refused.Newest <= refused.Grant {
			w.Errorf("refused with %+v", refused)
		}
	})
}

func TestAHoldWhoseRecordIsGoneIsLost(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.flush(a.sequence("s").Record)
		w.pass(10 * time.Second)
		w.fenced(a.write("s", k1), ReasonMissing)
		w.did(a.write("s", k1))
	})
}

func TestALapsedHoldIsNotTakenUpWhileACommandRuns(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		s := a.enter("s")
		w.f.lapse(s.Record)
		w.pass(11 * time.Second)
		for _, renew := range w.f.made("renew") {
			if renew.flag {
				w.Fatal("the hold was taken up again behind the command's back")
			}
		}
		a.nobodyHolds("s")
		s.Leave()
		w.pass(busyRetry)
		a.holds("s")
	})
}

func TestAHoldThatACommitHasReleasedIsNotTakenUpAgain(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.lapse(a.sequence("s").Record)
		answer := w.f.keepBack("renew")
		w.pass(10 * time.Second) // the renewal has found it lapsed
		w.calls("renew", 1)
		w.did(a.write("s", k1))
		answer()
		synctest.Wait()
		a.nobodyHolds("s")
		a.in("s", Free)
	})
}

func TestAHoldThatCantBeReleasedIsReleasedWhenTheStoreAnswersAgain(t *testing.T) {
	bubble(t, rule.Rule{Idle: 5 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.fail(true, "release")
		w.pass(5 * time.Second)
		a.in("s", Ended)
		a.holds("s")
		if !strings.Contains(w.logged.String(), "hold not released yet") {
			w.Errorf("the log says nothing of it: %s", w.logged)
		}
		w.pass(5 * time.Second)
		a.holds("s")
		w.f.fail(false, "release")
		w.pass(ghostRetry)
		a.nobodyHolds("s")
		w.did(a.write("s", k1)) // nobody has come since it was read
	})
}

func TestAHoldThatIsNeverReleasedIsLeftToItsLease(t *testing.T) {
	bubble(t, rule.Rule{Idle: 5 * time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.fail(true, "release")
		w.pass(5 * time.Second)
		a.in("s", Ended)
		a.holds("s")
		w.pass(25 * time.Second)
		a.nobodyHolds("s")
		w.pass(10 * time.Second)
		tried := len(w.f.made("release"))
		w.pass(time.Minute)
		w.calls("release", tried)
	})
}

func TestAnOwnerThatClosesGivesAllItsHoldsBack(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		for _, session := range []string{"s", "t", "u"} {
			w.did(a.read(session, k1))
		}
		if n := w.m.Holds(); n != 3 {
			w.Fatalf("%d holds", n)
		}
		a.owner.Close()
		synctest.Wait()
		for _, session := range []string{"s", "t", "u"} {
			a.nobodyHolds(session)
		}
		if n := w.m.Holds(); n != 0 {
			w.Errorf("%d holds are left", n)
		}
		w.pass(time.Hour)
		w.calls("renew", 0)
	})
}

func TestAnOwnerThatClosesTriesToReleaseUntilItsLeaseEnds(t *testing.T) {
	t.Run("and succeeds when the store is back", func(t *testing.T) {
		bubble(t, long, func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			w.f.fail(true, "release")
			a.owner.Close()
			w.pass(5 * time.Second)
			a.holds("s")
			w.f.fail(false, "release")
			w.pass(time.Second)
			a.nobodyHolds("s")
		})
	})
	t.Run("and no longer", func(t *testing.T) {
		bubble(t, long, func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			w.f.fail(true, "release")
			a.owner.Close()
			w.pass(w.rule.Lease - time.Second)
			a.in("s", Held)
			w.pass(time.Second + time.Second)
			a.in("s", Free)
			tries := len(w.f.made("release"))
			w.pass(time.Hour)
			w.calls("release", tries)
		})
	})
}

func TestAnOwnerThatClosesWaitsForTheCommandInside(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		s := a.enter("s")
		a.owner.Close()
		w.pass(time.Second)
		w.calls("release", 0)
		s.Leave()
		synctest.Wait()
		w.calls("release", 1)
	})
}

func TestAHoldEndsWithTheLastConnectionThatHasAPartInIt(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.read("t", k1))
		first, last, stranger := new(int), new(int), new(int)
		a.sequence("s").Join(first)
		a.sequence("s").Join(last)
		a.sequence("t").Join(last)

		a.owner.Leave(stranger)
		a.owner.Leave(first)
		synctest.Wait()
		a.holds("s")
		a.owner.Leave(first) // twice is once
		synctest.Wait()
		a.holds("s")
		a.owner.Leave(last)
		synctest.Wait()
		a.nobodyHolds("s")
		a.nobodyHolds("t")

		w.did(a.write("s", k1)) // what was read may still be written, over another connection
		w.elsewhere("t")
		w.fenced(a.write("t", k1), ReasonSuperseded)
	})
}

func TestAConnectionThatJoinsWhileTheLastOneLeavesKeepsTheHold(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		leaving, joining := new(int), new(int)
		w.did(a.read("s", k1))
		a.sequence("s").Join(leaving)
		s := a.enter("s") // another's read is under way
		a.owner.Leave(leaving)
		synctest.Wait()
		s.Join(joining)
		s.Leave()
		w.pass(time.Minute)
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

func TestAHoldIsRenewedWhileItsOwnerWaitsForAnotherSession(t *testing.T) {
	bubble(t, rule.Rule{Lease: 3 * time.Second, Idle: time.Second}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		inside := a.enter("s")
		w.pass(time.Minute)
		a.holds("s")
		inside.Leave()
		w.pass(time.Second)
		a.in("s", Ended)
		a.nobodyHolds("s")
	})
}
