//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	cycleClients  = 16
	cycleSessions = 4
	cyclesEach    = 200
)

// Cases 2 and 7.
func TestCyclesThroughTwoProxiesLoseNoUpdateAndStraightOnesDo(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)

	t.Run("straight at Redis", func(t *testing.T) {
		var met sync.WaitGroup // everybody has read, for the first time
		met.Add(cycleClients)
		all := cycles{addrs: []string{server.Addr}, prefix: "straight:", think: func(cycle int) {
			if cycle == 0 {
				met.Done()
				met.Wait()
			}
		}}
		acknowledged := all.run(t)
		found := all.found(t, server)
		lost := 0
		for id := range acknowledged {
			if found[id] == 0 {
				lost++
			}
		}
		// Of those who have read the same nothing, the last one to write stays at most.
		if least := cycleClients - cycleSessions; lost < least {
			t.Errorf("%d acknowledged updates are lost, want %d at least: this load shows nothing", lost, least)
		}
	})

	t.Run("through two proxies", func(t *testing.T) {
		first := harness.StartProxy(t, harness.ProxyOptions{Name: "first", Redis: server, ConfigYAML: guarding("wait: 30s")})
		second := harness.StartProxy(t, harness.ProxyOptions{Name: "second", Redis: server, ConfigYAML: guarding("wait: 30s")})
		all := cycles{addrs: []string{first.Addr, second.Addr}, prefix: "ctx:", think: func(int) { runtime.Gosched() }}
		acknowledged := all.run(t)
		if want := cycleClients * cyclesEach; len(acknowledged) != want {
			t.Errorf("%d cycles are acknowledged, want all %d", len(acknowledged), want)
		}
		// Whoever does not take what was handed to it within a second is passed over.
		if refused := all.refused.Load(); refused > cyclesEach {
			t.Errorf("%d cycles were refused: with this long a wait hardly any should be", refused)
		}
		found := all.found(t, server)
		for id := range acknowledged {
			if found[id] != 1 {
				t.Errorf("acknowledged update %q is in the value %d times", id, found[id])
			}
		}
		for id := range found {
			if !acknowledged[id] {
				t.Errorf("update %q was never acknowledged and is in the value", id)
			}
		}
	})
}

// cycles is a load: clients that each read a value, think, and write it back with an id of their own
// behind it, again and again, on one session after the other.
type cycles struct {
	addrs  []string // the clients take turns among these
	prefix string   // of the keys
	think  func(cycle int)

	refused atomic.Int64 // writes, which were then tried again
}

// run runs all clients to their end and returns the ids of the cycles whose write was acknowledged.
func (c *cycles) run(t *testing.T) map[string]bool {
	t.Helper()
	var (
		mu           sync.Mutex
		acknowledged = map[string]bool{}
		clients      sync.WaitGroup
	)
	for n := range cycleClients {
		// One connection, and nothing sent twice.
		client := redis.NewClient(&redis.Options{
			Addr: c.addrs[n%len(c.addrs)], PoolSize: 1, MaxRetries: -1, ReadTimeout: 2 * patience,
		})
		t.Cleanup(func() { _ = client.Close() })
		clients.Go(func() {
			for cycle := range cyclesEach {
				id := fmt.Sprintf("%d.%d", n, cycle)
				// Neighbours are behind different proxies and in the same session.
				err := c.once(t.Context(), client, c.key(n/2+cycle), cycle, id)
				for err != nil && redis.HasErrorPrefix(err, "FENCED ") {
					c.refused.Add(1)
					err = c.once(t.Context(), client, c.key(n/2+cycle), cycle, id)
				}
				if err != nil {
					t.Errorf("client %d, cycle %d: %v", n, cycle, err)
					continue
				}
				mu.Lock()
				acknowledged[id] = true
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return acknowledged
}

func (c *cycles) once(ctx context.Context, client *redis.Client, key string, cycle int, id string) error {
	value, err := client.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("GET: %w", err)
	}
	c.think(cycle)
	if err := client.Set(ctx, key, value+id+" ", 0).Err(); err != nil {
		return fmt.Errorf("SET: %w", err)
	}
	return nil
}

func (c *cycles) key(n int) string { return fmt.Sprintf("%ss%d", c.prefix, n%cycleSessions) }

// found counts the ids in the values at the end.
func (c *cycles) found(t *testing.T, server *harness.Redis) map[string]int {
	t.Helper()
	found := map[string]int{}
	for n := range cycleSessions {
		value, err := server.Client().Get(t.Context(), c.key(n)).Result()
		if err != nil {
			t.Fatalf("read %s: %v", c.key(n), err)
		}
		for _, id := range strings.Fields(value) {
			found[id]++
		}
	}
	return found
}
