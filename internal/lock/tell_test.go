package lock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// story fails the test unless this was told of a client so far.
func (w *world) story(client, want string) {
	w.Helper()
	synctest.Wait()
	if got := w.told.Story(client); got != want {
		w.Fatalf("told of %s:\n%s\nwant\n%s", client, got, want)
	}
}

// last returns the last event of a kind.
func (w *world) last(kind event.Kind) event.Event {
	w.Helper()
	all := w.told.Of(kind)
	if len(all) == 0 {
		w.Fatalf("no %s was told", kind)
	}
	return all[len(all)-1]
}

func TestACycleIsToldStepByStep(t *testing.T) {
	bubble(t, rule.Rule{Owner: rule.OwnerConnection}, func(w *world) {
		a := w.client("a")
		s := a.sequence("s")
		w.did(a.read("s", k1))
		grant := s.Grant()
		w.pass(2 * time.Second)
		w.did(a.write("s", k1))
		w.story("a", "grant, read, commit, release commit")
		all := w.told.All()
		for _, e := range all {
			if e.Sequence != all[0].Sequence || e.Rule != "chat" || e.Mode != "lock" || e.Kept != "connection" || e.Session != "s" || e.Grant != grant ||
				e.Owner.Owner != a.owner.ID || e.Owner.Proxy != "proxy" || e.Apart {
				w.Errorf("%+v", e)
			}
		}
		if commit := all[2]; commit.Seq != 1 || commit.Newest != grant {
			w.Errorf("%+v", commit)
		}
		if release := all[3]; release.Took != 2*time.Second || release.Owner.Since.IsZero() {
			w.Errorf("%+v", release)
		}
		w.did(a.read("s", k1))
		if next := w.last(event.Grant); next.Sequence == all[0].Sequence || next.Grant <= grant {
			w.Errorf("the next hold: %+v", next)
		}
	})
}

func TestEachEndOfAHoldIsToldOnceWithItsReason(t *testing.T) {
	type act = func(*world, *client)
	for name, tt := range map[string]struct {
		rule rule.Rule
		act  act
		want string
	}{
		"idle": {brief, func(w *world, _ *client) { w.pass(brief.Idle) }, "grant, read, release idle"},
		"idle, and its write comes after all": {brief, func(w *world, a *client) {
			w.pass(brief.Idle)
			w.did(a.write("s", k1))
		}, "grant, read, release idle, commit"},
		"linger": {rule.Rule{Linger: time.Second}, func(w *world, a *client) {
			w.did(a.write("s", k1))
			w.pass(time.Second)
		}, "grant, read, commit, release linger"},
		"many writes": {rule.Rule{WritesPerRead: rule.Many, Idle: time.Second}, func(w *world, a *client) {
			w.did(a.write("s", k1))
			w.did(a.write("s", k1))
			w.pass(time.Second)
		}, "grant, read, commit, commit, release idle"},
		"max_hold": {
			rule.Rule{MaxHold: time.Minute, Idle: time.Hour, Lease: time.Minute},
			func(w *world, _ *client) { w.pass(time.Minute) },
			"grant, read, renew, renew, break max_hold",
		},
		"closed": {long, func(_ *world, a *client) { a.owner.Close() }, "grant, read, release closed"},
		"in vain": {long, func(w *world, a *client) {
			s := a.enter("s")
			s.Abandon(w.Context())
			s.Leave()
		}, "grant, read, release vain"},
		"in the way": {long, func(w *world, a *client) {
			s := a.enter("s")
			s.PutDown(w.Context())
			s.Leave()
		}, "grant, read, release yielded"},
		"the upstream connection broke": {long, func(_ *world, a *client) { a.owner.BreakOff(ReasonUpstream) }, "grant, read, break upstream"},
		"the agent is ill":              {long, func(w *world, _ *client) { w.m.Suspend(errDown) }, "grant, read, break unfit"},
		"the command itself failed": {long, func(w *world, a *client) {
			w.did(a.commit("s", Write{Keys: []uint64{k1}}, func() bool { return false }))
		}, "grant, read, release vain"},
		"superseded, and told at the write": {long, func(w *world, a *client) {
			w.f.lapse(a.sequence("s").Record)
			w.did(w.client("b").read("s", k1))
			w.fenced(a.write("s", k1), ReasonSuperseded)
		}, "grant, read, break superseded"},
		"superseded under an update that goes on": {long, func(w *world, a *client) {
			w.f.lapse(a.sequence("s").Record)
			b := w.client("b")
			w.did(b.read("s", k1))
			w.did(b.write("s", k1))
			w.did(a.add("s", k1))
		}, "grant, read, break superseded, commit"},
		"the record is gone": {long, func(w *world, a *client) {
			w.f.flush(a.sequence("s").Record)
			w.fenced(a.write("s", k1), ReasonMissing)
		}, "grant, read, break missing"},
		"reads from before it": {rule.Rule{Idle: time.Second}, func(w *world, a *client) {
			w.pass(time.Second)
			b := w.client("b")
			w.did(b.read("s", k1))
			w.did(b.write("s", k1))
			w.did(a.read("s", k2))
			w.fenced(a.write("s", k2), ReasonSuperseded)
		}, "grant, read, release idle, grant, read, release stale"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tt.rule, func(w *world) {
				a := w.client("a")
				w.did(a.read("s", k1))
				tt.act(w, a)
				w.story("a", tt.want)
			})
		})
	}
}

func TestALostLeaseIsToldWithWhoCame(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		mine := a.sequence("s").Grant()
		w.pass(time.Second)
		w.f.lapse(a.sequence("s").Record)
		w.did(b.read("s", k1))
		came := time.Now()
		its := b.sequence("s").Grant()
		w.pass(long.Lease / 3) // a's renewal
		w.story("a", "grant, read, break superseded")
		if e := w.last(event.Break); e.Grant != mine || e.Newest != its || e.Other.Grant != its || e.Other.Owner != b.owner.ID || !e.Other.Since.Equal(came) {
			w.Errorf("%+v", e)
		}
	})
}

// The store knows of a holder only as long as he holds.
func TestWhoHasComeAndGoneIsRemembered(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.f.lapse(a.sequence("s").Record)
		w.pass(time.Second)
		w.did(b.read("s", k1))
		came, its := time.Now(), b.sequence("s").Grant()
		w.pass(time.Second)
		w.did(b.write("s", k1))
		refused := w.fenced(a.write("s", k1), ReasonSuperseded)
		if refused.Holder.Held() || refused.Newest != its {
			w.Fatalf("%+v", refused)
		}
		if e := w.last(event.Break); e.Other.Client != "b" || e.Other.Grant != its || !e.Other.Since.Equal(came) {
			w.Errorf("%+v", e.Other)
		}
		if got := w.m.Against(refused.Record, a.owner.ID, refused.Grant, refused.Newest, refused.Holder); got.Client != "b" {
			w.Errorf("%+v", got)
		}
		elsewhere := its + 1000 // of another proxy's client
		if got := w.m.Against(refused.Record, a.owner.ID, its, elsewhere, tokenstore.Holder{}); got.Client != "" || !got.Since.Equal(time.UnixMicro(int64(elsewhere))) {
			w.Errorf("of another proxy's: %+v", got)
		}
	})
}

func TestOfTooManySessionsTheLastOnesAreRemembered(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		for i := range 2 * maxRecent {
			s := &Sequence{Record: tokenstore.NewRecord(tokenstore.Area{}, "chat", string(rune(i+1000))), Claim: a.sequence("s").Claim}
			w.m.recent.note(s, uint64(i+1), time.Now())
		}
		if n := len(w.m.recent.by); n != maxRecent {
			w.Errorf("%d are remembered, want %d", n, maxRecent)
		}
	})
}

func TestRenewalsAreTold(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.pass(long.Lease / 3)
		w.story("a", "grant, read, renew")
		w.f.fail(true, "renew")
		w.pass(long.Lease / 3)
		w.story("a", "grant, read, renew, renew down")
		w.f.fail(false, "renew")
		w.pass(time.Second)
		w.story("a", "grant, read, renew, renew down, renew")
	})
}

func TestAWaitIsToldOnceAndEndsWithAGrantOrWithout(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b, c := w.client("a"), w.client("b"), w.client("c")
		w.did(a.read("s", k1))
		holder := w.f.holder(a.sequence("s").Record)
		for _, x := range []*client{b, c} {
			s := x.enter("s")
			x.f.begin(s.Record, s.Claim, x.waiter.ID(), tokenstore.Basis{})
			s.Serves("GET", trace.SpanContext{})
			s.Waits(holder)
			s.Waits(holder) // another attempt
		}
		w.pass(3 * time.Second)
		w.did(a.write("s", k1))
		s := b.sequence("s")
		now := time.Now()
		s.Granted(w.f.begin(s.Record, s.Claim, b.waiter.ID(), tokenstore.Basis{}), now)
		s.Read(k1, []uint64{k1}, now)
		s.Leave()
		w.story("b", "wait, grant, read")
		wait, grant := w.last(event.Wait), w.last(event.Grant)
		if wait.Other.Owner != a.owner.ID || wait.Other.Grant != holder.Grant || wait.Command != "GET" {
			w.Errorf("%+v", wait)
		}
		if grant.Took != 3*time.Second || grant.Other.Owner != a.owner.ID || grant.Command != "GET" {
			w.Errorf("%+v", grant)
		}
		s = c.sequence("s")
		s.Quits(event.Timeout)
		s.Quits(event.Gone) // it has left already
		s.Leave()
		w.story("c", "wait, quit timeout")
		s = c.enter("s")
		s.Waits(holder)
		s.Leave() // without a word
		w.story("c", "wait, quit timeout, wait, quit other")
	})
}

func TestReadsWithoutAHoldAreTold(t *testing.T) {
	bubble(t, rule.Rule{Mode: rule.ModeFence}, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		if e := w.last(event.Read); e.Grant != 0 || e.Mode != "fence" || e.Sequence == 0 {
			w.Errorf("%+v", e)
		}
		w.did(b.read("s", k1))
		w.did(b.write("s", k1))
		if e := w.last(event.Commit); e.Grant == 0 || e.Seq != 1 {
			w.Errorf("%+v", e)
		}
		refused := w.fenced(a.write("s", k1), ReasonChanged)
		w.story("a", "read") // the refusal is told by who refuses
		w.story("b", "read, commit")
		if got := w.m.Against(refused.Record, a.owner.ID, refused.Grant, refused.Newest, refused.Holder); got.Client != "b" {
			w.Errorf("who has changed it: %+v", got)
		}
		w.did(a.write("s", k1)) // blindly
		all := w.told.All()
		if e := all[len(all)-1]; e.Kind != event.Commit || e.Sequence == all[0].Sequence {
			w.Errorf("%+v", e)
		}
	})
}

func TestALostRecordIsToldWithTheGrant(t *testing.T) {
	bubble(t, long, func(w *world) {
		s := w.client("a").enter("s")
		defer s.Leave()
		s.Granted(tokenstore.Begin{Granted: true, Grant: 5, RecordLost: true}, time.Now())
		w.story("a", "grant record_lost")
	})
}

func TestGrantsApartAreTold(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.apart("s", 0, 0)
		<-w.acquires(w.Context(), a)
		if e := w.last(event.Grant); !e.Apart || e.Grant == 0 || e.Grant != a.Grant() || e.Owner.Client != "apart" {
			w.Errorf("%+v", e)
		}
		b := w.apart("s", time.Second, 0)
		if got := <-w.acquires(w.Context(), b); got.err == nil {
			w.Fatal("it was granted")
		}
		w.story("apart", "grant, wait, quit timeout")
		ctx, leave := context.WithCancelCause(w.Context())
		c := w.apart("s", time.Hour, 0)
		done := w.acquires(ctx, c)
		w.inLine(c, 1)
		leave(errors.New("left"))
		<-done
		w.story("apart", "grant, wait, quit timeout, wait, quit gone")
		d := w.apart("s", time.Hour, 0)
		done = w.acquires(w.Context(), d)
		w.inLine(d, 1)
		w.pass(time.Second)
		w.release(a.Record, w.f.holder(a.Record))
		<-done
		if e := w.last(event.Grant); e.Took != time.Second || e.Other.Grant != a.Grant() {
			w.Errorf("%+v", e)
		}
		_ = a.Stale(d.Grant(), w.f.holder(d.Record))
		_ = a.Stale(d.Grant(), w.f.holder(d.Record)) // told once
		if e := w.told.Of(event.Break); len(e) != 1 || e[0].Grant != a.Grant() || e[0].Newest != d.Grant() || e[0].Other.Grant != d.Grant() {
			w.Errorf("%+v", e)
		}
		d.Released(event.Released)
		d.Released(event.Released)
		if e := w.told.Of(event.Release); len(e) != 1 || e[0].Grant != d.Grant() || e[0].Reason != event.Released {
			w.Errorf("%+v", e)
		}
		presented := w.apart("s", 0, 7) // from another process
		_ = presented.Stale(9, tokenstore.Holder{})
		if n := len(w.told.Of(event.Break)); n != 1 {
			w.Errorf("%d breaks", n)
		}
	})
}

func TestAStoreThatCanNotBeAskedEndsAWait(t *testing.T) {
	bubble(t, long, func(w *world) {
		<-w.acquires(w.Context(), w.apart("s", 0, 0))
		s := w.apart("s", time.Hour, 0)
		done := w.acquires(w.Context(), s)
		w.inLine(s, 1)
		holder := w.f.holder(s.Record)
		w.f.fail(true, "begin")
		w.release(s.Record, holder)
		<-done
		w.story("apart", "grant, wait, quit down")
	})
}

func TestReasonsAreThoseThatAreDocumented(t *testing.T) {
	ours := []Reason{
		ReasonSuperseded, ReasonMissing, ReasonChanged, ReasonHeld, ReasonStored, ReasonMaxHold, ReasonUsedUp, ReasonUnsure, ReasonUnnamed, ReasonUnheard,
		ReasonUpstream, ReasonRevised, ReasonLost, ReasonUnfit, ReasonNotNewest,
	}
	for _, r := range ours {
		if !slices.Contains(event.FencedReasons(), string(r)) {
			t.Errorf("%s is missing", r)
		}
	}
	if n := len(event.FencedReasons()); n != len(ours) {
		t.Errorf("%d are documented, there are %d", n, len(ours))
	}
}

func TestWithoutAListenerNothingIsPutTogether(t *testing.T) {
	bubble(t, long, func(w *world) {
		w.m.Observe(nil)
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		s := a.sequence("s")
		s.Waits(tokenstore.Holder{})
		if s.story.number != 0 || !s.story.since.IsZero() || len(w.m.recent.by) != 0 {
			w.Errorf("%+v", s.story)
		}
		if n := testing.AllocsPerRun(100, func() {
			s.Tell(event.Event{Kind: event.Renew})
			s.Serves("GET", trace.SpanContext{})
			s.Waits(tokenstore.Holder{})
			s.Quits(event.Timeout)
		}); n != 0 {
			w.Errorf("%v allocations", n)
		}
	})
}
