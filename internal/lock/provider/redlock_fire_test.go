//go:build integration

package provider_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// The explorer's story of restarts and clock steps, on real servers. It says less, since less of it happens, and is no fake.
func TestRedlockGrantsGrowUnderFire(t *testing.T) {
	t.Parallel()
	const owners, lease, misfortunes = 8, 2 * time.Second, 12
	nodes := startRedlockNodes(t, 3)
	quick := func(s *provider.RedlockSettings) { s.NodeTimeout, s.RestartDelay = 300*time.Millisecond, lease }
	proxies := []locktest.Proxy{nodes.open(t, quick), nodes.open(t, quick)}

	type grant struct {
		number           uint64
		called, returned time.Time
	}
	var mu sync.Mutex
	var grants []grant
	ctx, cancel := context.WithCancel(t.Context())
	var acting sync.WaitGroup
	for i := range owners {
		acting.Go(func() {
			for ctx.Err() == nil {
				called := time.Now()
				wait, cancel := context.WithTimeout(ctx, time.Second)
				h, err := proxies[i%2].Acquire(wait, provider.Request{Session: "s", Lease: lease})
				cancel()
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				grants = append(grants, grant{h.Grant(), called, time.Now()})
				mu.Unlock()
				if rand.IntN(3) == 0 {
					_ = h.Renew(ctx)
				}
				time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
				if rand.IntN(100) > 0 { // else it is forgotten
					_ = h.Release(ctx)
				}
			}
		})
	}
	wrong := -1 // the node whose clock is
	var offset time.Duration
	for range misfortunes {
		i, r := rand.IntN(3), redlockRelay(proxies[rand.IntN(2)], rand.IntN(3))
		switch rand.IntN(5) {
		case 0:
			nodes.servers[i].RestartEmpty()
		case 1:
			nodes.servers[i].Pause()
			time.Sleep(time.Second)
			nodes.servers[i].Resume()
		case 2:
			r.Cut()
			time.Sleep(500 * time.Millisecond)
			r.Restore()
		case 3:
			r.Blackhole(true)
			time.Sleep(time.Second)
			r.Blackhole(false)
		case 4:
			if wrong < 0 {
				wrong, offset = i, []time.Duration{-10 * time.Minute, 10 * time.Minute}[rand.IntN(2)]
				nodes.clocks[wrong].Step(offset)
			} else {
				nodes.clocks[wrong].Step(-offset)
				wrong = -1
			}
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
	}
	mu.Lock()
	before := len(grants)
	mu.Unlock()
	harness.Eventually(t, 0, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(grants) > before
	}, "there are grants when all is well again")
	cancel()
	acting.Wait()

	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.number, b.number) })
	for i, g := range grants {
		for _, smaller := range grants[:i] {
			if smaller.number == g.number || smaller.called.After(g.returned) {
				t.Fatalf("grant %d comes after grant %d", smaller.number, g.number)
			}
		}
	}
	t.Logf("%d grants", len(grants))
}
