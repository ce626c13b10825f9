//go:build integration

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A turn is a read, a moment's thought and a write. Sixteen tasks of a client take turns at once, and its commands go
// over whatever connection the library likes.

// turner is a client library, as sixteen tasks of a process use it.
type turner struct {
	name  string
	pools bool // it has many connections, with one command at a time on each
	turns func(ctx context.Context, shared bool, to servers) (report, error)
}

func turners(t *testing.T) []turner {
	t.Helper()
	var all []turner
	for _, c := range clients(t) {
		name, protocol, _ := strings.Cut(c.name, " RESP")
		task := "turns"
		add := func(name, before string, pools bool) {
			all = append(all, turner{name, pools, func(ctx context.Context, shared bool, to servers) (report, error) {
				if shared {
					return c.do(ctx, before+"shared "+task, to)
				}
				return c.do(ctx, before+task, to)
			}})
		}
		switch {
		case protocol == "2": // once is enough
		case name == "node-redis":
			add("node-redis", "", false)
			add("node-redis pool", "pooled ", true)
		default:
			add(name, "", name == "go-redis" || name == "redis-py")
		}
	}
	return all
}

// store is a client in this process.
type store struct {
	get func(key string) (string, error) // "" for nothing
	set func(key, value string) error
}

// turns are those of report.js.
func (s store) turns(r report, name string, shared bool, to servers) {
	r.step("turns", func() (any, error) {
		var mu sync.Mutex
		acknowledged, refusals := map[string]int{}, []string{}
		failed := together(16, func(i int) error {
			key, task, most := fmt.Sprintf("turn:%s %d", name, i), fmt.Sprintf("%s %s %d", name, port(to.proxy), i), 125
			if shared {
				key, most = fmt.Sprintf("turn:shared %d", i%8), 62
			}
			for n := 0; n < most; {
				err := s.turn(key, task, time.Duration(1+(i+n)%5)*time.Millisecond)
				switch {
				case err == nil:
					n++
					mu.Lock()
					acknowledged[task] = n
					mu.Unlock()
				case strings.HasPrefix(err.Error(), "FENCED ") || strings.HasPrefix(err.Error(), "LOCKED "):
					mu.Lock()
					refusals = append(refusals, err.Error())
					mu.Unlock()
				default:
					return err
				}
			}
			return nil
		})
		if len(failed) > 0 {
			return nil, fmt.Errorf("%v", failed)
		}
		if shared {
			return []any{acknowledged, len(refusals) > 0}, nil
		}
		return []any{acknowledged, refusals}, nil
	})
}

func (s store) turn(key, task string, think time.Duration) error {
	document, err := s.get(key)
	if err != nil {
		return err
	}
	if document, err = increment(document, task); err != nil {
		return err
	}
	time.Sleep(think)
	return s.set(key, document)
}

func (g goRedisClient) turns(shared bool) func(context.Context, report, servers) error {
	return func(ctx context.Context, r report, to servers) error {
		client := redis.NewClient(&redis.Options{Addr: to.proxy, Protocol: g.protocol, PoolSize: 16})
		defer client.Close()
		store{
			func(key string) (string, error) {
				value, err := client.Get(ctx, key).Result()
				if errors.Is(err, redis.Nil) {
					err = nil
				}
				return value, err
			},
			func(key, value string) error { return client.Set(ctx, key, value, 0).Err() },
		}.turns(r, "go-redis", shared, to)
		return nil
	}
}

func (c rueidisTasks) turns(shared bool) func(context.Context, report, servers) error {
	return func(ctx context.Context, r report, to servers) error {
		client, err := c.connect(to.proxy)
		if err != nil {
			return err
		}
		defer client.Close()
		rueidisStore(ctx, client).turns(r, "rueidis", shared, to)
		return nil
	}
}

func rueidisStore(ctx context.Context, client rueidis.Client) store {
	return store{
		func(key string) (string, error) {
			value, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				err = nil
			}
			return value, err
		},
		func(key, value string) error {
			return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
		},
	}
}

// guardingTurns is the default rule, for the documents of turns.
const guardingTurns = "rules:\n  - name: turns\n    prefix: \"turn:\"\n"

func TestTurnsOnSessionsOfTheirOwnAreNeitherRefusedNorWait(t *testing.T) {
	t.Parallel()
	for _, c := range turners(t) {
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guardingTurns})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			r, err := c.turns(ctx, false, servers{proxy.Addr, server.Addr})
			if err != nil {
				t.Fatal(err)
			}
			acknowledged, refusals := r.turnsOf(t)
			if !reflect.DeepEqual(refusals, []any{}) {
				t.Errorf("refused: %.1000v", refusals)
			}
			if n := proxy.Metric(`fence_proxy_wait_duration_seconds_count{rule="turns"}`); n > 0 {
				t.Errorf("%v commands waited for another owner", n)
			}
			if len(acknowledged) != 16 {
				t.Errorf("%d tasks took turns", len(acknowledged))
			}
			for task, n := range acknowledged {
				if n != float64(125) {
					t.Errorf("task %s took %v turns", task, n)
				}
			}
			if present := counted(t, server); !reflect.DeepEqual(present, acknowledged) {
				t.Errorf("the documents have %v, want %v", present, acknowledged)
			}
		})
	}
}

// Tasks that share a connection are told apart from the start only if the rule says that a client is one owner. And
// they wait for each other's sessions at another proxy while their own writes wait behind them, so they have one proxy here.
//
// Not parallel: a pool's task that takes two seconds from its read to its write is not told from others.
func TestTurnsOnSharedSessionsLoseNothing(t *testing.T) {
	for _, c := range turners(t) {
		proxies, config := 1, guardingTurns+"    owner: client\n"
		if c.pools {
			proxies, config = 2, guardingTurns
		}
		t.Run(fmt.Sprintf("%s through %d", c.name, proxies), func(t *testing.T) {
			server := harness.StartRedis(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var all sync.WaitGroup
			reports, errs := make([]report, proxies), make([]error, proxies)
			for i := range reports {
				proxy := harness.StartProxy(t, harness.ProxyOptions{
					Name: fmt.Sprint("proxy ", i), Redis: server, Admin: true, ConfigYAML: config,
				})
				all.Go(func() { reports[i], errs[i] = c.turns(ctx, true, servers{proxy.Addr, server.Addr}) })
			}
			all.Wait()
			acknowledged := map[string]any{}
			for i, r := range reports {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				here, _ := r.turnsOf(t)
				maps.Copy(acknowledged, here)
			}
			if len(acknowledged) != 16*proxies {
				t.Errorf("%d tasks took turns", len(acknowledged))
			}
			if present := counted(t, server); !reflect.DeepEqual(present, acknowledged) {
				t.Errorf("the documents have %v, want what was acknowledged: %v", present, acknowledged)
			}
		})
	}
}

// turnsOf is what the step came to: how many turns of each task were acknowledged, and refusals.
func (r report) turnsOf(t *testing.T) (acknowledged map[string]any, refusals any) {
	t.Helper()
	step := r["turns"]
	if step.Error != "" {
		t.Fatalf("%.2000s", step.Error)
	}
	pair := step.Value.([]any)
	return pair[0].(map[string]any), pair[1]
}

// counted is what all documents of turns have.
func counted(t *testing.T, server *harness.Redis) map[string]any {
	t.Helper()
	all, direct := map[string]any{}, server.Client()
	for _, key := range direct.Keys(t.Context(), "turn:*").Val() {
		if err := json.Unmarshal([]byte(direct.Get(t.Context(), key).Val()), &all); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
