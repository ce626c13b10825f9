//go:build integration

package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Of the clients of two proxies nineteen in twenty only read, and the others read and write. In mode auto those who only
// read hardly ever wait for those who write, and no update is lost; also when all of a sudden the others are the writers.
func TestInModeAutoThoseWhoOnlyReadHardlyEverWait(t *testing.T) {
	t.Parallel()
	const clients, each, sessions = 40, 400, 4
	server := harness.StartRedis(t)
	var proxies []*harness.Proxy
	for _, name := range []string{"first", "second"} {
		proxies = append(proxies, harness.StartProxy(t, harness.ProxyOptions{
			Name: name, Redis: server, Admin: true, ConfigYAML: guarding("mode: auto", "wait: 30s"),
		}))
	}
	all := make([]*redis.Client, clients)
	for i := range all {
		all[i] = redis.NewClient(&redis.Options{Addr: proxies[i%2].Addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: 2 * patience})
		t.Cleanup(func() { _ = all[i].Close() })
	}
	waited := func() (n float64) {
		for _, p := range proxies {
			n += p.Metric(`fence_proxy_wait_duration_seconds_count{rule="ctx"}`)
		}
		return n
	}
	var acked atomic.Int64
	// phase has those of the clients write that are named; it ends when the readers have read.
	phase := func(writes func(i int) bool, reads int) (done int64) {
		var readers, writers sync.WaitGroup
		var over atomic.Bool
		var read atomic.Int64
		for i, client := range all {
			if writes(i) {
				writers.Go(func() {
					for n := i; !over.Load(); n++ {
						switch err := untilApplied(t.Context(), client, fmt.Sprintf("ctx:s%d", n%sessions), "x"); {
						case err == nil:
							acked.Add(1)
						case !strings.HasPrefix(err.Error(), "GET: LOCKED"):
							t.Errorf("writer %d: %v", i, err)
							return
						}
					}
				})
				continue
			}
			readers.Go(func() {
				for n := range reads {
					if err := client.Get(t.Context(), fmt.Sprintf("ctx:s%d", (i+n)%sessions)).Err(); err != nil && !errors.Is(err, redis.Nil) {
						t.Errorf("reader %d: %v", i, err)
						return
					}
					read.Add(1)
				}
			})
		}
		readers.Wait()
		over.Store(true)
		writers.Wait()
		return read.Load()
	}
	few := func(i int) bool { return i < clients/20 }
	others := func(i int) bool { return i >= clients/20 && i < clients/10 }
	for _, writers := range []func(int) bool{few, others} {
		phase(writers, 100) // it learns
		before := waited()
		reads := phase(writers, each)
		if n := waited() - before; n*100 >= float64(reads) {
			t.Errorf("%v commands waited while %d reads were made by those who only read", n, reads)
		}
	}
	phase(func(i int) bool { return !few(i) }, each) // now nearly all write
	var found int64
	for n := range sessions {
		found += int64(strings.Count(server.Client().Get(t.Context(), fmt.Sprintf("ctx:s%d", n)).Val(), "x"))
	}
	if found != acked.Load() {
		t.Errorf("%d updates are acknowledged, %d are in the values", acked.Load(), found)
	}
}
