//go:build integration

package provider_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func TestEnteringAPlaceAgainFindsWhatTheFirstAttemptHasDone(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	place := e.place(t, "session")
	first, err := place.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.place(t, "session").Enter(t.Context()); err != nil { // somebody comes in between
		t.Fatal(err)
	}
	again, err := place.Forget().Enter(t.Context())
	if err != nil || again != first {
		t.Errorf("grant %d and %v when entered again, want %d", again, err, first)
	}
	if line := etcdLine(t, e.operator, "session"); len(line) != 2 {
		t.Errorf("%d places in line, want 2", len(line))
	}
}

func TestAnAttemptThatComesAfterItsPlaceWasLeftDoesNothing(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	for name, again := range map[string]bool{"one attempt": false, "two attempts": true} {
		place := e.place(t, name)
		late := place.Forget()
		if _, err := place.Enter(ended); err == nil {
			t.Fatal("a place was entered without an answer")
		}
		if again {
			if _, err := place.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := place.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if grant, err := late.Enter(t.Context()); err == nil {
			t.Errorf("%s: a place that was left is entered, with grant %d", name, grant)
		}
		if line := etcdLine(t, e.operator, name); len(line) != 0 {
			t.Errorf("%s: %d places in line, want none", name, len(line))
		}
	}
}

// A request is with a frozen etcd, its client gives up, and the connection breaks before the answer.
func TestAGhostOfALostRequestIsNotLeftInLine(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	proxy := e.open(t)
	closed(t, proxy.Locker)
	harness.Eventually(t, 0, func() bool { return proxy.Check(t.Context()) == nil }, "the proxy has a lease")
	for range 5 {
		e.servers.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if hold, err := proxy.Acquire(ctx, provider.Request{Session: "session"}); err == nil {
			t.Fatalf("a frozen etcd has given grant %d", hold.Grant())
		}
		cancel()
		proxy.Network.Cut()
		proxy.Network.Restore()
		e.servers.Resume()
		harness.Eventually(t, 0, func() bool { return proxy.Check(t.Context()) == nil }, "etcd answers again")
	}
	next := acquire(t, e.locker(t), "session")
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOneWaiterIsWokenAtATime(t *testing.T) {
	t.Parallel()
	const waiters = 20
	e := newEtcdBench(t, 1)
	locker := e.locker(t)
	holder := acquire(t, locker, "session")
	served := make(chan error, waiters)
	for i := range waiters {
		go func() {
			hold, err := locker.Acquire(t.Context(), provider.Request{Session: "session"})
			if err == nil {
				err = hold.Release(t.Context())
			}
			served <- err
		}()
		harness.Eventually(t, 0, func() bool { return e.waiting(t, "session") == i+1 }, "a waiter is in line")
	}
	const events = "etcd_debugging_mvcc_events_total"
	member := e.servers.Members[0]
	watching := func() bool { return member.Metric("etcd_debugging_mvcc_watcher_total") == waiters }
	harness.Eventually(t, 0, watching, "each waiter watches")
	before := member.Metric(events)
	if err := holder.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range waiters {
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	if sent := member.Metric(events) - before; sent != waiters {
		t.Errorf("etcd has sent %v events to serve %d waiters", sent, waiters)
	}
}

func TestAHoldOfALeaseThatAnOperatorRevokesIsLost(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	locker := e.locker(t)
	first := acquire(t, locker, "session")
	leases, err := e.operator.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases %v, %v; want one", leases, err)
	}
	if _, err := e.operator.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 0, func() bool {
		select {
		case <-first.Lost():
			return true
		default:
			return false
		}
	}, "the loss is seen though nobody renews")
	second := acquire(t, locker, "session")
	if second.Grant() <= first.Grant() {
		t.Errorf("grant %d after %d", second.Grant(), first.Grant())
	}
}

func TestOperatorsSeeWhoHolds(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	hold, err := e.locker(t).Acquire(t.Context(), provider.Request{Session: "agent:ctx:7", Holder: "worker-3 behind pod-a"})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := e.operator.Get(t.Context(), "fence-proxy/line/agent:ctx:7/", clientv3.WithPrefix())
	if err != nil || len(reply.Kvs) != 1 {
		t.Fatalf("%v, %v; want one place", reply, err)
	}
	place := reply.Kvs[0]
	if string(place.Value) != "worker-3 behind pod-a" || uint64(place.CreateRevision) != hold.Grant() {
		t.Errorf("place %s: %s, revision %d; grant %d", place.Key, place.Value, place.CreateRevision, hold.Grant())
	}
}

// locker is a Locker straight at the servers, closed when the test ends.
func (e *etcdBench) locker(t *testing.T) provider.Locker {
	t.Helper()
	locker := openEtcd(t, e.servers.Addrs())
	closed(t, locker)
	return locker
}

// place is a place of a new Locker.
func (e *etcdBench) place(t *testing.T, session string) provider.EtcdPlace {
	t.Helper()
	place, err := provider.NewEtcdPlace(t.Context(), e.locker(t), provider.Request{Session: session})
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// closed closes a Locker when the test ends.
func closed(t *testing.T, locker provider.Locker) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = locker.Close(ctx)
	})
}

func acquire(t *testing.T, locker provider.Locker, session string) provider.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hold, err := locker.Acquire(ctx, provider.Request{Session: session, Lease: time.Minute})
	if err != nil {
		t.Fatalf("acquire %q: %v", session, err)
	}
	return hold
}
