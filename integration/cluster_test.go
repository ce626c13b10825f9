//go:build integration

package integration

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 70.
func TestTurnsOnSessionsOfAllNodesLoseNothing(t *testing.T) {
	t.Parallel()
	const clients, turns, sessions = 12, 25, 6
	c := harness.StartCluster(t, 3, 0)
	p := harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: guarding("mode: lock", "wait: 20s", "owner: connection")})
	other := harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: guarding("mode: lock", "wait: 20s", "owner: connection")})
	var wg sync.WaitGroup
	for i := range clients {
		of := []*harness.Proxy{p, other}[i%2]
		r := of.Client(func(o *redis.Options) { o.PoolSize, o.MaxRetries, o.ReadTimeout = 1, -1, -1 })
		wg.Go(func() {
			ctx := context.Background()
			for n := range turns {
				key := fmt.Sprint("ctx:", (i+n)%sessions)
				text, err := r.Get(ctx, key).Result()
				if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
					t.Errorf("read: %v", err)
					return
				}
				value, _ := strconv.Atoi(text)
				if err := r.Set(ctx, key, value+1, 0).Err(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for i := range sessions {
		n, _ := p.Client().Get(t.Context(), fmt.Sprint("ctx:", i)).Int()
		sum += n
	}
	if sum != clients*turns {
		t.Errorf("%d updates are in the values, want %d", sum, clients*turns)
	}
}
