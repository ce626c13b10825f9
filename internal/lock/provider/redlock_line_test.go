package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeRedlock is a redlock on three nodes that are well, for proxies in one bubble.
type fakeRedlock struct {
	nodes []*fakeNode
	tasks sync.WaitGroup
}

func newFakeRedlock() *fakeRedlock {
	f := &fakeRedlock{}
	for range 3 {
		n := newFakeNode(time.Now)
		n.memory = 0
		f.nodes = append(f.nodes, n)
	}
	return f
}

// open opens a proxy's, to be closed by the caller.
func (f *fakeRedlock) open(name string) *redlock {
	l := newRedlock(*redlockDefaults().(*RedlockSettings), Environment{Proxy: name, Log: slog.New(slog.DiscardHandler)})
	for i, n := range f.nodes {
		l.add(fmt.Sprint("n", i), &fakeLink{node: n, l: l, chance: newChance(1), tasks: &f.tasks})
	}
	return l
}

func (f *fakeRedlock) close(lockers ...*redlock) {
	for _, l := range lockers {
		_ = l.Close(context.Background())
	}
	f.tasks.Wait()
}

func TestWaitersOfOneProxyAreServedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		l, other := f.open("a"), f.open("b")
		defer f.close(l, other)
		first, err := other.Acquire(t.Context(), Request{Session: "s", Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var served []int
		var waiters sync.WaitGroup
		for i := range 20 {
			waiters.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%4 == 3 { // it gives up
					time.AfterFunc(time.Second, cancel)
				}
				h, err := l.Acquire(ctx, Request{Session: "s", Lease: time.Minute})
				if err != nil {
					return
				}
				served = append(served, i) // nobody else holds the session
				time.Sleep(10 * time.Millisecond)
				_ = h.Release(t.Context())
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if len(served) > 0 {
			t.Errorf("%v were served while another proxy holds the session", served)
		}
		_ = first.Release(t.Context())
		waiters.Wait()
		if want := "[0 1 2 4 5 6 8 9 10 12 13 14 16 17 18]"; fmt.Sprint(served) != want {
			t.Errorf("served %v, want %s", served, want)
		}
		if len(l.lines) > 0 {
			time.Sleep(2 * l.settings.BackoffMax)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.lines) > 0 || len(l.holds) > 0 {
			t.Errorf("%d lines and %d holds are left", len(l.lines), len(l.holds))
		}
	})
}

// A killed holder's session is taken when its lease ends, not when a backoff of a minute does.
func TestAWaiterAsksWhenTheHoldersLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		gone, l := f.open("a"), f.open("b")
		defer f.close(l, gone)
		l.settings.BackoffMin, l.settings.BackoffMax = 10*time.Millisecond, time.Minute
		h, err := gone.Acquire(t.Context(), Request{Session: "s", Lease: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range gone.nodes {
			n.redlockNode.(*fakeLink).setCut(true)
		}
		next, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(h.Until()); late < 0 || late > 300*time.Millisecond { // drift, and a backoff
			t.Errorf("granted %v after the hold's end", late)
		}
		_ = next.Release(t.Context())
	})
}

func TestRedlockDoesNotGrantBeyond53Bits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		l := f.open("a")
		defer f.close(l)
		h, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Minute, Above: largestGrant - 1})
		if err != nil || h.Grant() != largestGrant {
			t.Fatalf("%v, want the largest grant", err)
		}
		_ = h.Release(t.Context())
		if _, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Minute}); err == nil || !strings.Contains(err.Error(), "largest") {
			t.Errorf("Acquire returns %v after the largest grant", err)
		}
	})
}

func TestACancelledRenewalSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		l := f.open("a")
		defer f.close(l)
		h, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Renew(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Renew returns %v", err)
		}
		if err := h.Renew(t.Context()); err != nil {
			t.Errorf("Renew returns %v after one that was cancelled", err)
		}
	})
}

// Another's vain attempt has one node as the session is granted. Nobody renews.
func TestAHoldJoinsTheNodeThatWasTakenInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		l := f.open("a")
		defer f.close(l)
		f.nodes[1].run(redlockTake, redlockKey{"s", "vain"}, []any{"vain 60000 me", 60_000, 0})
		h, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * l.settings.BackoffMin)
		f.nodes[1].run(redlockRelease, redlockKey{"s", "vain"}, []any{"vain 60000 me", "", 0})
		time.Sleep(2 * l.settings.BackoffMax)
		for i, n := range f.nodes {
			if got := n.run(redlockTake, redlockKey{"s", "next"}, []any{"next 60000 me", 60_000, 0}); got[0] != "held" {
				t.Errorf("node %d says %s to another", i, got)
			}
		}
		_ = h.Release(t.Context())
	})
}

// A node that has just restarted says that it is loading. That is an answer, but nothing was released.
func TestAReleaseIsRepeatedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeRedlock()
		l := f.open("a")
		defer f.close(l)
		var loading []*loadingNode
		for _, m := range l.nodes {
			n := &loadingNode{redlockNode: m.redlockNode}
			loading, m.redlockNode = append(loading, n), n
		}
		h, err := l.Acquire(t.Context(), Request{Session: "s", Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range loading {
			n.loading.Store(true)
		}
		if err := h.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "LOADING") {
			t.Errorf("Release returns %v", err)
		}
		time.Sleep(5 * l.settings.BackoffMax)
		for _, n := range loading {
			n.loading.Store(false)
		}
		time.Sleep(2 * l.settings.BackoffMax)
		synctest.Wait()
		for i, n := range f.nodes {
			if len(n.locks) > 0 {
				t.Errorf("node %d still has its lock", i)
			}
		}
	})
}

type loadingNode struct {
	redlockNode
	loading atomic.Bool
}

func (n *loadingNode) ask(ctx context.Context, s *redlockScript, key redlockKey, args ...any) ([]string, error) {
	if n.loading.Load() {
		return nil, refusedByRedis("LOADING Redis is loading the dataset in memory")
	}
	return n.redlockNode.ask(ctx, s, key, args...)
}

type refusedByRedis string

func (e refusedByRedis) Error() string { return string(e) }
func (e refusedByRedis) RedisError()   {}
