package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The way of a command where a lock provider elsewhere grants, as package proxy goes it.

// elsewhere runs a test in a bubble, with locks elsewhere.
func elsewhere(t *testing.T, r rule.Rule, test func(*world, *locker)) {
	t.Helper()
	elsewhereOr(t, r, false, test)
}

// elsewhereOr is elsewhere; pass says that commands pass while the provider can't be asked.
func elsewhereOr(t *testing.T, r rule.Rule, pass bool, test func(*world, *locker)) {
	t.Helper()
	bubble(t, r, func(w *world) {
		l := newLocker()
		w.f.given = true
		w.m.Use(Outside{Name: "fake", Locker: l, Pass: pass})
		synctest.Wait()
		test(w, l)
	})
}

// given is the key of a session at the provider.
func given(session string) string { return "0:chat:" + session }

// ask has the provider grant a session to the sequence, if it is free.
func (c *client) ask(s *Sequence) error {
	if s.Given() > 0 || s.Share() {
		return nil
	}
	a, err := c.m.Ask(s)
	if err != nil {
		return err
	}
	synctest.Wait()
	select {
	case <-a.Done:
	default:
		a.Drop()
		synctest.Wait()
		return errHeld
	}
	h, err := a.Take()
	if err == nil {
		s.Give(h)
	}
	return err
}

// register registers what a sequence was given ahead of its read.
func (c *client) register(s *Sequence, expected tokenstore.Basis) error {
	for {
		if err := c.ask(s); err != nil {
			return err
		}
		sent := time.Now()
		b := c.f.register(s.Record, s.Claim, s.Given(), expected)
		if !b.Behind {
			s.Granted(b, sent)
			return nil
		}
		if err := s.Behind(b); err != nil {
			return err
		}
	}
}

// secure registers what a sequence was given ahead of a write. again: nothing has come of it yet.
func (c *client) secure(s *Sequence, token Token) (again bool, err error) {
	_, expected, err := s.BeforeTake(context.Background(), time.Now())
	if err != nil {
		return false, err
	}
	sent := time.Now()
	b := c.f.register(s.Record, s.Claim, s.Given(), expected)
	switch {
	case b.Behind:
		return true, s.Behind(b)
	case b.Continuous || token.OrBlind || token.Read == (tokenstore.Stamp{}):
		s.Granted(b, sent)
		return false, nil
	}
	if err := c.f.Release(context.Background(), s.Record, s.Claim, b.Grant, false); err != nil {
		return false, err
	}
	s.Drop()
	check := tokenstore.Check{Verdict: tokenstore.Changed, Token: tokenstore.Token{Grant: b.Grant}}
	if b.Missing {
		check.Verdict = tokenstore.Missing
	}
	return false, s.Refused(check)
}

// present is what a write presents.
func (c *client) present(s *Sequence, w Write, now time.Time) (Token, error) {
	for {
		token, err := s.BeforeWrite(context.Background(), w, now)
		if err != nil || token.Grant > 0 {
			return token, err
		}
		if err := c.ask(s); err != nil {
			return token, err
		}
		if _, err := c.secure(s, token); err != nil {
			return token, err
		}
	}
}

func TestAHoldElsewhereIsGivenBackWithTheWrite(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		a.holds("s")
		if err := b.read("s", k1); !errors.Is(err, errHeld) {
			t.Fatalf("b reads: %v", err)
		}
		w.did(a.write("s", k1))
		w.pass(0)
		if l.holds(given("s")) {
			t.Fatal("the provider has the session held")
		}
		w.did(b.read("s", k1))
		w.did(b.write("s", k1))
	})
}

// Whatever ends a hold gives it back.
func TestEveryEndOfAHoldElsewhereGivesItBack(t *testing.T) {
	brief := rule.Rule{Lease: 3 * time.Second, Idle: 5 * time.Second, MaxHold: 20 * time.Second}
	lingering := brief
	lingering.Linger = time.Second
	for name, end := range map[string]struct {
		rule rule.Rule
		do   func(w *world, a *client)
	}{
		"idle":   {brief, func(w *world, _ *client) { w.pass(5 * time.Second) }},
		"linger": {lingering, func(w *world, a *client) { w.did(a.write("s", k1)); w.pass(time.Second) }},
		"max_hold": {brief, func(w *world, a *client) {
			for range 7 {
				w.pass(3 * time.Second)
				_ = a.read("s", k1)
			}
		}},
		"its client leaves": {brief, func(_ *world, a *client) { a.owner.Close() }},
		"a broken upstream": {brief, func(_ *world, a *client) { a.owner.BreakOff(ReasonUpstream) }},
		"an abandoned read": {brief, func(_ *world, a *client) {
			s := a.enter("s")
			s.Abandon(context.Background())
			s.Leave()
		}},
		"an ill agent": {brief, func(w *world, _ *client) { w.m.Suspend(errDown) }},
		"its break at the store": {brief, func(w *world, a *client) {
			s := a.sequence("s")
			if _, broken, err := w.m.Break(context.Background(), s.Record, s.Claim); !broken || err != nil {
				w.Fatal(broken, err)
			}
		}},
		"a newer grant": {brief, func(w *world, a *client) {
			w.f.register(a.sequence("s").Record, w.client("x").sequence("s").Claim, 99, tokenstore.Basis{})
			if err := a.read("s", k1); err == nil {
				w.Fatal("it reads on")
			}
		}},
		"a lost record": {brief, func(w *world, a *client) {
			w.f.flush(a.sequence("s").Record)
			w.pass(time.Second) // it is renewed
		}},
		"a grant that came too late": {brief, func(w *world, a *client) {
			w.did(a.write("s", k1))
			s := a.enter("s")
			w.did(a.ask(s))
			s.Leave() // before it is registered
		}},
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere(t, end.rule, func(w *world, l *locker) {
				a := w.client("a")
				w.did(a.read("s", k1))
				a.holds("s")
				end.do(w, a)
				w.pass(0)
				if l.holds(given("s")) {
					t.Error("the provider has the session held")
				}
				if n := w.m.Holds(); n != 0 {
					t.Errorf("%d holds are counted", n)
				}
			})
		})
	}
}

func TestAHoldElsewhereIsRenewedAsLongAsItsOwnerHoldsIt(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: 3 * time.Second, Idle: time.Minute, MaxHold: time.Minute}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.pass(30 * time.Second)
		if !l.holds(given("s")) {
			t.Fatal("it was not renewed")
		}
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

// Invariant 3.
func TestAHoldThatIsLostElsewhereIsReportedOnce(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		l.lapse(given("s"), false)
		w.pass(0)
		w.did(b.read("s", k1))
		w.fenced(a.write("s", k1), ReasonLost)
		w.did(b.write("s", k1))
		w.pass(0)
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
	})
}

func TestAHoldThatCanNotBeRenewedElsewhereIsLostWithItsLease(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: 3 * time.Second, Idle: time.Minute}, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s", k1))
		l.fails(true, false)
		w.pass(2 * time.Second)
		a.in("s", Held)
		w.pass(time.Second)
		w.fenced(a.read("s", k1), ReasonLost)
	})
}

// Who has lost a hold and does not know it is refused by the store.
func TestAHolderThatDoesNotKnowOfItsLossIsRefusedAtTheStore(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		l.lapse(given("s"), true)
		w.pass(0)
		w.did(b.read("s", k1))
		w.fenced(a.write("s", k1), ReasonSuperseded)
		w.did(b.write("s", k1))
	})
}

func TestAGrantThatWasOvertakenIsNotRegistered(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		s := a.enter("s")
		w.did(a.ask(s))
		l.lapse(given("s"), true)
		w.pass(0)
		w.did(b.read("s", k1))
		if got := w.f.register(s.Record, s.Claim, 1, tokenstore.Basis{}); !got.Behind {
			t.Fatalf("%+v", got)
		}
		s.Leave()
		w.did(b.write("s", k1))
	})
}

// The provider counts anew: no grant of it comes above the record's.
func TestAProviderThatCountsAnewIsReported(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a := w.client("a")
		for range 20 {
			w.did(a.read("s", k1))
			w.did(a.write("s", k1))
			w.pass(0)
		}
		l.mu.Lock()
		l.last = 0
		l.mu.Unlock()
		err := a.read("s", k1)
		var behind *BehindError
		if !errors.As(err, &behind) || behind.Newest != 20 {
			t.Fatal(err)
		}
		w.pass(0)
		if l.holds(given("s")) {
			t.Error("the provider has the session held")
		}
	})
}

func TestWritesThatHoldNothingAreGrantedFirst(t *testing.T) {
	for name, write := range map[string]func(c *client) error{
		"a blind write":    func(c *client) error { return c.write("s", k1) },
		"an atomic update": func(c *client) error { return c.add("s", k1) },
	} {
		t.Run(name, func(t *testing.T) {
			elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
				a, b := w.client("a"), w.client("b")
				w.did(a.read("s", k1))
				if err := write(b); !errors.Is(err, errHeld) {
					t.Fatalf("b writes beside a holder: %v", err)
				}
				w.did(a.write("s", k1))
				w.pass(0)
				w.did(write(b))
				w.pass(0)
				if l.holds(given("s")) {
					t.Error("the provider has the session held")
				}
			})
		})
	}
}

func TestAWriteAfterALookIsRefusedIfSomebodyHasWritten(t *testing.T) {
	elsewhere(t, rule.Rule{Mode: rule.ModeFence}, func(w *world, l *locker) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.did(b.read("s", k1))
		w.did(a.write("s", k1))
		w.pass(0)
		w.fenced(b.write("s", k1), ReasonChanged)
		w.did(b.read("s", k1))
		w.f.flush(b.sequence("s").Record)
		w.fenced(b.write("s", k1), ReasonMissing)
		w.did(b.read("s", k1))
		w.did(b.add("s", k1))
		w.pass(0)
		w.did(a.write("s", k1))
		w.pass(0)
		if l.holds(given("s")) {
			t.Error("the provider has the session held")
		}
	})
}

func TestAProviderThatIsDownIsToldFromAHolder(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		a := w.client("a")
		for _, silent := range []bool{false, true} {
			l.fails(!silent, silent)
			began := time.Now()
			time.Sleep(time.Second)
			var down *DownError
			if err := a.sequence("s").Waited(began); !errors.As(err, &down) {
				t.Errorf("silent %v: waited in vain for %v", silent, err)
			}
			w.pass(2 * (checkTimeout + downEvery))
			if _, err := w.m.Ask(a.sequence("s")); !errors.As(err, &down) {
				t.Errorf("silent %v: asked: %v", silent, err)
			}
			if err := w.m.ProviderReady(); !errors.As(err, &down) {
				t.Errorf("silent %v: it is ready", silent)
			}
			l.fails(false, false)
			w.pass(checkTimeout + downEvery)
			if err := w.m.ProviderReady(); err != nil {
				t.Errorf("silent %v: %v", silent, err)
			}
			w.did(a.read("s", k1))
			w.did(a.write("s", k1))
			w.pass(0)
			if err := a.sequence("s").Waited(time.Now().Add(-time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestOneFailedCheckIsNoOutage(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		l.fails(true, false)
		w.pass(checkEvery)
		if err := w.m.ProviderReady(); err != nil {
			t.Error(err)
		}
		l.fails(false, false)
		w.pass(checkEvery)
		l.fails(true, false)
		down := w.client("b").sequence("s").ProviderDown()
		w.pass(checkEvery + downEvery)
		if err := w.m.ProviderReady(); err == nil {
			t.Error("it is not down")
		}
		select {
		case <-down:
		default:
			t.Error("who waits does not hear of it")
		}
	})
}

func TestAnIllAgentAcquiresNothing(t *testing.T) {
	for _, outside := range []bool{false, true} {
		run := func(w *world) {
			a := w.client("a")
			w.did(a.read("s", k1))
			w.m.Suspend(errDown)
			w.pass(0)
			a.nobodyHolds("s")
			w.fenced(a.write("s", k1), ReasonUnfit)
			var unfit *UnfitError
			if err := w.m.Fit(); !errors.As(err, &unfit) {
				t.Error(err)
			}
			if _, err := w.m.Acquire(context.Background(), w.apart("s", time.Second, 0)); !errors.As(err, &unfit) {
				t.Error(err)
			}
			w.m.Resume()
			w.did(a.read("s", k1))
			w.did(a.write("s", k1))
		}
		if outside {
			elsewhere(t, rule.Rule{}, func(w *world, _ *locker) { run(w) })
		} else {
			bubble(t, rule.Rule{}, run)
		}
	}
}

// acquired is a grant apart of a minute.
func (w *world) acquired(session string) *Sequence {
	w.Helper()
	s := w.apart(session, time.Second, 0)
	if _, err := w.m.Acquire(context.Background(), s); err != nil {
		w.Fatal(err)
	}
	return s
}

func TestAGrantApartIsKeptAliveElsewhereForItsTime(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: time.Minute}, func(w *world, l *locker) {
		s := w.acquired("s")
		w.pass(50 * time.Second)
		if !l.holds(given("s")) {
			t.Fatal("it was not kept alive")
		}
		if _, err := w.m.RenewGrant(context.Background(), s.Record, s.Claim, s.Grant()); err != nil {
			t.Fatal(err)
		}
		w.pass(50 * time.Second)
		if !l.holds(given("s")) {
			t.Fatal("it was renewed, and not kept alive")
		}
		w.pass(11 * time.Second)
		if l.holds(given("s")) {
			t.Error("its time is over, and the provider has the session held")
		}
		if _, err := w.m.RenewGrant(context.Background(), s.Record, s.Claim, s.Grant()); !errors.Is(err, tokenstore.ErrLost) {
			t.Errorf("renewed after its end: %v", err)
		}
	})
}

// It was renewed or released over another proxy, which tells the store, and this one.
func TestAGrantApartFollowsWhatTheStoreSaysOfIt(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: time.Minute}, func(w *world, l *locker) {
		s := w.acquired("s")
		w.pass(50 * time.Second)
		if _, err := w.f.RenewGrant(context.Background(), s.Record, s.Claim, s.Grant()); err != nil {
			t.Fatal(err)
		}
		w.pass(50 * time.Second)
		if !l.holds(given("s")) {
			t.Fatal("it was renewed elsewhere, and not kept alive")
		}
		if _, ended, err := w.f.ReleaseGrant(context.Background(), s.Record, s.Claim, s.Grant()); !ended || err != nil {
			t.Fatal(ended, err)
		}
		w.m.Woken(s.Claim.Owner, s.Grant())
		w.pass(0)
		if l.holds(given("s")) {
			t.Error("it was released elsewhere, and the provider has the session held")
		}
	})
}

func TestAGrantApartThatIsLostElsewhereIsUsedUp(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: time.Minute}, func(w *world, l *locker) {
		s := w.acquired("s")
		lost := w.m.GrantLost(s)
		l.lapse(given("s"), false)
		w.pass(0)
		select {
		case <-lost:
		default:
			t.Error("nobody hears of it")
		}
		if got := w.f.token(s.Record); got.Grant == s.Grant() {
			t.Error("it is the newest still")
		}
		if _, err := w.m.RenewGrant(context.Background(), s.Record, s.Claim, s.Grant()); !errors.Is(err, tokenstore.ErrLost) {
			t.Errorf("renewed: %v", err)
		}
	})
}

func TestAReleasedGrantApartGoesBackAtOnceAndTheNextIsServed(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: time.Minute}, func(w *world, l *locker) {
		s := w.acquired("s")
		next := w.acquires(context.Background(), w.apart("s", time.Minute, 0))
		synctest.Wait()
		if ended, err := w.m.ReleaseGrant(context.Background(), s.Record, s.Claim, s.Grant()); !ended || err != nil {
			t.Fatal(ended, err)
		}
		if got := <-next; got.err != nil || got.b.Grant != s.Grant()+1 { // it keeps its place
			t.Fatalf("%+v", got)
		}
		if n := len(l.asked); n != 2 {
			t.Errorf("%d asked", n)
		}
	})
}

func TestWhoWaitsForAGrantElsewhereHearsWhy(t *testing.T) {
	elsewhere(t, rule.Rule{Lease: time.Minute}, func(w *world, l *locker) {
		w.acquired("s")
		var locked *LockedError
		if _, err := w.m.Acquire(context.Background(), w.apart("s", time.Second, 0)); !errors.As(err, &locked) || !locked.Holder.Held() {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		left := errors.New("the client has left")
		time.AfterFunc(time.Second, func() { cancel(left) })
		if _, err := w.m.Acquire(ctx, w.apart("s", time.Minute, 0)); !errors.Is(err, left) {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second, func() { l.fails(true, false) })
		var down *DownError
		if _, err := w.m.Acquire(context.Background(), w.apart("s", time.Minute, 0)); !errors.As(err, &down) {
			t.Errorf("%v", err)
		}
		l.fails(false, false)
		w.pass(time.Minute)
		if n := w.m.Asking(w.apart("s", 0, 0).Record); n != 0 {
			t.Errorf("%d ask", n)
		}
	})
}

func TestAGrantThatCanNotBeANumberIsRefused(t *testing.T) {
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		for _, grant := range []uint64{0, tokenstore.LargestGrant + 1} {
			l.mu.Lock()
			l.last = grant - 1
			l.mu.Unlock()
			var down *DownError
			if err := w.client("a").read("s", k1); !errors.As(err, &down) {
				t.Errorf("grant %d: %v", grant, err)
			}
			w.pass(0)
		}
	})
}

func TestCommandsMayPassWhileTheProviderIsDown(t *testing.T) {
	elsewhereOr(t, rule.Rule{Mode: rule.ModeFence}, true, func(w *world, l *locker) {
		a := w.client("a")
		w.did(a.read("s", k1))
		l.fails(true, false)
		err := a.write("s", k1)
		if !w.m.Passes(err) {
			t.Fatal(err)
		}
		if w.m.Passes(errDown) {
			t.Error("any error passes")
		}
		s := a.enter("s")
		s.Passed(Write{Keys: []uint64{k1}})
		s.Leave()
		a.in("s", Free)
	})
	elsewhere(t, rule.Rule{}, func(w *world, l *locker) {
		l.fails(true, false)
		if err := w.client("a").read("s", k1); w.m.Passes(err) || err == nil {
			t.Errorf("it passes: %v", err)
		}
	})
}

var _ provider.Locker = (*locker)(nil)
