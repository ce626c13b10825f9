package providers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	// sessions are how many a pair uses in turn, so that each was used before and is free again.
	sessions = 32
	// settle is a time in which a waiter is sure to be in line.
	settle = 50 * time.Millisecond
)

const rules = `
rules:
  - name: bench
    prefix: ""
    mode: lock
    wait: 30s
    lease: 30s
`

// pair is two proxies with a client each, and what was measured there.
type pair struct {
	tb      testing.TB
	kind    string
	clients [2]*redis.Client
	next    int // counts sessions

	acquire, cycle, handOver []time.Duration
}

// startPair starts two proxies whose round trips are longer by rtt. Without servers the store itself grants.
func startPair(tb testing.TB, kind string, s *servers, rtt time.Duration) *pair {
	tb.Helper()
	p := &pair{tb: tb, kind: kind}
	store := harness.StartRedis(tb)
	for i := range p.clients {
		locks := "lock:\n  provider: " + kind + "\n"
		if s != nil {
			locks += s.settings(harness.StartNetwork(tb, s.addrs, harness.WithDelay(rtt)).Addrs())
		}
		proxy := harness.StartProxy(tb, harness.ProxyOptions{
			Name: fmt.Sprint(kind, i), Upstream: harness.StartRelay(tb, store.Addr, harness.WithDelay(rtt)).URL(),
			Admin: true, ConfigYAML: locks + rules,
		})
		harness.Eventually(tb, 0, func() bool { status, _ := proxy.Page("/readyz"); return status == 200 }, kind+" serves")
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: time.Minute, MaxRetries: -1, PoolSize: 1})
		tb.Cleanup(func() { _ = client.Close() })
		p.clients[i] = client
	}
	p.cycles(sessions)
	p.handOvers(sessions)
	p.acquire, p.cycle, p.handOver = nil, nil, nil
	return p
}

// key is one of the next session in turn.
func (p *pair) key() string {
	p.next++
	return fmt.Sprint("session:", p.next%sessions)
}

// cycles measures n cycles at the first proxy.
func (p *pair) cycles(n int) {
	p.tb.Helper()
	for range n {
		key, began := p.key(), time.Now()
		p.get(p.clients[0], key)
		got := time.Now()
		p.set(p.clients[0], key)
		p.acquire = append(p.acquire, got.Sub(began))
		p.cycle = append(p.cycle, time.Since(began))
	}
}

// handOvers measures n hand-overs, there and back in turn.
func (p *pair) handOvers(n int) {
	p.tb.Helper()
	for i := range n {
		from, to, key := p.clients[i%2], p.clients[1-i%2], p.key()
		p.get(from, key)
		answered := make(chan time.Time)
		go func() {
			defer close(answered)
			if _, err := to.Get(context.Background(), key).Result(); err == nil {
				answered <- time.Now()
			}
		}()
		time.Sleep(settle)
		written := time.Now()
		p.set(from, key)
		at, ok := <-answered
		if !ok {
			p.tb.Fatalf("%s: the one who waits is refused", p.kind)
		}
		p.handOver = append(p.handOver, at.Sub(written))
		p.set(to, key)
	}
}

func (p *pair) get(client *redis.Client, key string) {
	p.tb.Helper()
	if err := client.Get(context.Background(), key).Err(); err != nil && !errors.Is(err, redis.Nil) {
		p.tb.Fatalf("%s: get: %v", p.kind, err)
	}
}

func (p *pair) set(client *redis.Client, key string) {
	p.tb.Helper()
	if err := client.Set(context.Background(), key, "value", 0).Err(); err != nil {
		p.tb.Fatalf("%s: set: %v", p.kind, err)
	}
}
