//go:build integration

package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// forLong lets nothing end by itself: whatever ends was ended by the test.
func forLong(s *provider.ConsulSettings) { s.SessionTTL = 24 * time.Hour }

func withLockDelay(d time.Duration) func(*provider.ConsulSettings) {
	return func(s *provider.ConsulSettings) { s.LockDelay = d }
}

// Case 36, whose TTL is that of the test.
func TestALockDelayIsKeptAndTold(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	for name, delay := range map[string]time.Duration{"none": 0, "1s": time.Second, "3s": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := "delayed " + name
			relay := harness.StartRelay(t, c.server.Addr)
			one, two := openConsul(t, relay.Addr, withLockDelay(delay)), openConsul(t, c.server.Addr)
			t.Cleanup(func() { closeInTime(t, one); closeInTime(t, two) })
			held := takeTurn(t, one, session)
			if info, _, err := c.client.Session().Info(c.key(t, session).Session, nil); err != nil || info.LockDelay != delay {
				t.Fatalf("the session has another lock-delay: %+v (%v)", info, err)
			}

			killed := time.Now()
			relay.Cut()
			harness.Eventually(t, 0, func() bool {
				pair := c.key(t, session)
				return pair != nil && pair.Session == ""
			}, "Consul ends the session of a proxy that is gone")
			ended := time.Now()
			if delay > 0 {
				ctx, cancel := context.WithTimeout(t.Context(), delay/4)
				err := startTurn(ctx, two, session).fails(t)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lock-delay") {
					t.Errorf("a wait for the lock-delay ends with: %v", err)
				}
			}
			next := takeTurn(t, two, session)
			t.Logf("TTL %v, lock_delay %v: granted %v after the holder was gone, %v after its session",
				consulTTL, delay, time.Since(killed).Round(100*time.Millisecond), time.Since(ended).Round(100*time.Millisecond))
			if early := killed.Add(consulTTL + delay); time.Now().Before(early) {
				t.Errorf("granted %v before TTL and lock_delay were over", time.Until(early))
			}
			if next.Grant() <= held.Grant() {
				t.Errorf("grant %d comes after grant %d", next.Grant(), held.Grant())
			}
			next.release()
		})
	}
}

func TestAReleaseHasNoLockDelay(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	one, two := openConsul(t, c.server.Addr, withLockDelay(time.Minute)), openConsul(t, c.server.Addr)
	t.Cleanup(func() { closeInTime(t, two) })
	takeTurn(t, one, "released").release()
	takeTurn(t, one, "closed")
	takeTurn(t, two, "released").release()
	waiter := startTurn(t.Context(), two, "closed")
	closeInTime(t, one)
	waiter.granted(t).release()
}

func TestACriticalCheckEndsHolds(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	check := &api.AgentCheckRegistration{ID: "agent-alive", Name: "agent-alive"}
	check.TTL, check.Status = "24h", api.HealthPassing
	if err := c.client.Agent().CheckRegister(check); err != nil {
		t.Fatal(err)
	}
	one := openConsul(t, c.server.Addr, forLong, func(s *provider.ConsulSettings) { s.Checks = []string{"agent-alive"} })
	two := openConsul(t, c.server.Addr, forLong, func(s *provider.ConsulSettings) { s.Checks = nil })
	t.Cleanup(func() { closeInTime(t, one); closeInTime(t, two) })

	held := takeAtLast(t, one, "checked")
	waiter := startTurn(t.Context(), two, "checked")
	if err := c.client.Agent().UpdateTTL("agent-alive", "the agent's container is unhealthy", api.HealthCritical); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 0, held.lost, "the hold ends with its check")
	if held.Until().After(time.Now()) {
		t.Errorf("a hold that is lost ends in %v", time.Until(held.Until()))
	}
	waiter.granted(t).release()

	err := one.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "agent-alive") {
		t.Errorf("without its check, Check says: %v", err)
	}
	if err := c.client.Agent().UpdateTTL("agent-alive", "", api.HealthPassing); err != nil {
		t.Fatal(err)
	}
	takeAtLast(t, one, "checked").release()
}

// takeAtLast takes a session of a provider that may not grant yet.
func takeAtLast(t *testing.T, l provider.Locker, session string) *turnHold {
	t.Helper()
	harness.Eventually(t, 0, func() bool { return l.Check(t.Context()) == nil }, "the provider grants")
	return takeTurn(t, l, session)
}

// The connection breaks when Consul answers that the key is locked.
func TestAKeyWhoseLockWasNotAnsweredIsOnesOwn(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	relay := harness.StartRelay(t, c.server.Addr)
	l := openConsul(t, relay.Addr, forLong)
	t.Cleanup(func() { closeInTime(t, l) })
	takeTurn(t, l, "s").release()

	for range 3 {
		broken := relay.CutAfterBytes(harness.ToClient, 0)
		held := takeTurn(t, l, "s")
		<-broken
		if pair := c.key(t, "s"); pair == nil || pair.ModifyIndex != held.Grant() {
			t.Fatalf("the grant is %d, the key %+v", held.Grant(), pair)
		}
		if err := held.Renew(t.Context()); err != nil {
			t.Fatalf("renew: %v", err)
		}
		held.release()
		if pair := c.key(t, "s"); pair != nil {
			t.Fatalf("a released key is there: %+v", pair)
		}
	}
}

// Who gives up leaves no key locked, whether the answer was lost or the question comes late.
func TestALockThatNobodyWaitsForIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	relay := harness.StartRelay(t, c.server.Addr)
	l, other := openConsul(t, relay.Addr, forLong), openConsul(t, c.server.Addr)
	t.Cleanup(func() { closeInTime(t, l); closeInTime(t, other) })
	takeTurn(t, l, "s").release()

	broken := relay.CutAfterBytes(harness.ToClient, 0)
	ctx, cancel := context.WithCancel(context.Background())
	attempt := startTurn(ctx, l, "s")
	<-broken
	cancel()
	<-attempt.done
	if attempt.err == nil {
		attempt.granted(t).release() // it was asked again before it was cancelled
	}
	takeTurn(t, other, "s").release()

	for range 10 {
		relay.Blackhole(true)
		for range 3 {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			_ = startTurn(ctx, l, "s").fails(t)
			cancel()
		}
		relay.Blackhole(false) // now the three questions arrive
		held := takeTurn(t, l, "s")
		for range 5 {
			if err := held.Renew(t.Context()); err != nil {
				t.Fatalf("a lock that came late has ended a hold: %v", err)
			}
		}
		held.release()
		takeTurn(t, other, "s").release()
	}
	harness.Eventually(t, 0, func() bool { return c.key(t, "s") == nil }, "nobody holds the key")
}

func TestKeysThatNobodyHoldsAreDeleted(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	one := openConsul(t, c.server.Addr, forLong)
	two := openConsul(t, c.server.Addr, func(s *provider.ConsulSettings) { s.CleanupInterval = time.Second })
	t.Cleanup(func() { closeInTime(t, one); closeInTime(t, two) })
	left, kept := takeTurn(t, one, "left"), takeTurn(t, two, "kept")
	if _, err := c.client.Session().Destroy(c.key(t, "left").Session, nil); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 0, left.lost, "the hold of a session that was destroyed is lost")
	harness.Eventually(t, 0, func() bool { return c.key(t, "left") == nil }, "its key is deleted")
	next := takeTurn(t, one, "left")
	if next.Grant() <= left.Grant() {
		t.Errorf("grant %d comes after grant %d", next.Grant(), left.Grant())
	}
	next.release()
	if err := kept.Renew(t.Context()); err != nil {
		t.Errorf("what is held: %v", err)
	}
	kept.release()
}

func TestOwnersOfOneProxyAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	l, other := openConsul(t, c.server.Addr, forLong), openConsul(t, c.server.Addr, forLong)
	t.Cleanup(func() { closeInTime(t, l); closeInTime(t, other) })
	provider.ConsulWithoutWatches(other)
	held := takeTurn(t, l, "s")
	stranger := startTurn(t.Context(), other, "s") // its turn may come between any two
	left := make(chan error, 1)
	go func() {
		<-stranger.done
		if stranger.err != nil {
			left <- stranger.err
			return
		}
		left <- stranger.hold.Release(context.Background())
	}()
	var line []*turn
	for i := range 6 {
		line = append(line, startTurn(t.Context(), l, "s"))
		harness.Eventually(t, 0, func() bool { return provider.ConsulInLine(l, "s") == i+2 }, "the next is in line")
	}
	held.release()
	for i, next := range line {
		hold := next.granted(t)
		for _, later := range line[i+1:] {
			if later.over() {
				t.Fatal("one who came later was served before")
			}
		}
		hold.release()
	}
	stranger.granted(t)
	if err := <-left; err != nil {
		t.Error(err)
	}
}

// One proxy always has somebody in line and is nearer to Consul, the other one's turn comes all the same.
func TestAProxyWithALongLineDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	farAway := harness.StartRelay(t, c.server.Addr, harness.WithDelay(2*time.Millisecond))
	busy, other := openConsul(t, c.server.Addr), openConsul(t, farAway.Addr)
	t.Cleanup(func() { closeInTime(t, busy); closeInTime(t, other) })
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	const owners = 3
	for range owners {
		go func() {
			for {
				hold, err := busy.Acquire(ctx, provider.Request{Session: "s"})
				if err == nil {
					err = hold.Release(ctx)
				}
				if err != nil {
					results <- err
					return
				}
			}
		}()
	}
	for range 10 {
		takeTurn(t, other, "s").release()
	}
	cancel()
	for range owners {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestConsulNeedsTheRightsThatTheSettingsName(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t, `acl { enabled = true, default_policy = "deny" }`)
	node, err := c.client.Agent().NodeName()
	if err != nil {
		t.Fatal(err)
	}
	open := func(name, rules string) provider.Locker {
		policy, _, err := c.client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, _, err := c.client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := openConsul(t, c.server.Addr, func(s *provider.ConsulSettings) { s.Token = token.SecretID })
		t.Cleanup(func() { closeInTime(t, l) })
		return l
	}
	session := `session "` + node + `" { policy = "write" } `
	enough := open("enough", session+`key_prefix "fence-proxy/" { policy = "write" }`)
	held := takeAtLast(t, enough, "s")
	if err := held.Renew(t.Context()); err != nil {
		t.Fatalf("renew: %v", err)
	}
	held.release()

	for name, rules := range map[string]string{
		"no-keys": session, "no-session": `key_prefix "fence-proxy/" { policy = "write" }`,
		"reader": session + `key_prefix "fence-proxy/" { policy = "read" }`,
	} {
		l := open(name, rules)
		if err := l.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("%s: Check says %v", name, err)
		}
		if err := startTurn(t.Context(), l, "s").fails(t); !strings.Contains(err.Error(), "Permission denied") {
			t.Errorf("%s: Acquire says %v", name, err)
		}
	}
}

func TestConsulOverTLS(t *testing.T) {
	t.Parallel()
	c := newConsulBench(t)
	addr, ca := wrapInTLS(t, c.server.Addr)
	open := func(ca string) provider.Locker {
		l := openConsul(t, addr, func(s *provider.ConsulSettings) { s.Address, s.TLSCA = "https://"+addr, ca })
		t.Cleanup(func() { closeInTime(t, l) })
		return l
	}
	takeTurn(t, open(ca), "s").release()
	if err := open("").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with a certificate that nobody knows: %v", err)
	}
}
