//go:build integration

package clients

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A crowd are tasks of one client that take turns on one document. Two such clients have a proxy each, with the default
// rule. Whoever is refused begins again at once, without a pause: all of them must come through all the same.

func TestTasksOnSharedConnectionsComeThroughWithTheirTurnsOnOneSession(t *testing.T) {
	for _, c := range clients(t) {
		name, protocol, _ := strings.Cut(c.name, " RESP")
		if protocol == "2" || name == "go-redis" || name == "redis-py" {
			continue // once is enough, and these have a connection for each task
		}
		for _, tasks := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d tasks", name, tasks), func(t *testing.T) {
				server := harness.StartRedis(t)
				proxies := make([]*harness.Proxy, 2)
				for i := range proxies {
					proxies[i] = harness.StartProxy(t, harness.ProxyOptions{
						Name: fmt.Sprint("proxy ", i), Redis: server, Admin: true, ConfigYAML: guardingTurns,
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				var all sync.WaitGroup
				reports, errs := make([]report, len(proxies)), make([]error, len(proxies))
				for i, proxy := range proxies {
					all.Go(func() {
						reports[i], errs[i] = c.do(ctx, fmt.Sprint("crowd of ", tasks), servers{proxy.Addr, server.Addr})
					})
				}
				all.Wait()
				acknowledged, refusals, seconds := map[string]any{}, 0.0, 0.0
				for i, r := range reports {
					if errs[i] != nil {
						t.Fatal(errs[i])
					}
					if failed := r["turns"].Error; failed != "" {
						t.Fatalf("%.2000s", failed)
					}
					came := r["turns"].Value.([]any)
					maps.Copy(acknowledged, came[0].(map[string]any))
					refusals += came[1].(float64)
					seconds = max(seconds, came[2].(float64))
				}
				turns := 2 * tasks * crowdTurns
				t.Logf("%d turns in %.1f s: %.1f a second, %.2f refusals for each", turns, seconds, float64(turns)/seconds, refusals/float64(turns))
				if present := counted(t, server); len(present) != 2*tasks || !reflect.DeepEqual(present, acknowledged) {
					t.Errorf("the document has %v, want what was acknowledged: %v", present, acknowledged)
				}
			})
		}
	}
}

// crowdTurns is what each task takes; report.js has it, too.
const crowdTurns = 10

func (c rueidisTasks) crowd(tasks int) func(context.Context, report, servers) error {
	return func(ctx context.Context, r report, to servers) error {
		client, err := c.connect(to.proxy)
		if err != nil {
			return err
		}
		defer client.Close()
		r.step("turns", func() (any, error) { return rueidisStore(ctx, client).crowd("rueidis "+port(to.proxy), tasks) })
		return nil
	}
}

func (s store) crowd(name string, tasks int) (any, error) {
	for range 40 { // until now, a connection counts as one task
		together(2, func(int) error { _, err := s.get("turn:known"); return err })
		together(2, func(int) error { return s.set("turn:known", "{}") })
	}
	var mu sync.Mutex
	acknowledged, refusals, began := map[string]int{}, 0, time.Now()
	failed := together(tasks, func(i int) error {
		task := fmt.Sprint(name, " ", i)
		for n := 0; n < crowdTurns; {
			err := s.turn("turn:crowd", task, time.Duration(5+rand.IntN(46))*time.Millisecond)
			mu.Lock()
			switch {
			case err == nil:
				n++
				acknowledged[task] = n
			case strings.HasPrefix(err.Error(), "FENCED ") || strings.HasPrefix(err.Error(), "LOCKED "):
				refusals++
			}
			mu.Unlock()
			if err != nil && !strings.HasPrefix(err.Error(), "FENCED ") && !strings.HasPrefix(err.Error(), "LOCKED ") {
				return err
			}
		}
		return nil
	})
	if len(failed) > 0 {
		return nil, fmt.Errorf("%v", failed)
	}
	return []any{acknowledged, refusals, time.Since(began).Seconds()}, nil
}
