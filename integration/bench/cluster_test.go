package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	clusterClients = 32
	clusterKeys    = 48
	clusterSlice   = time.Second
)

// side is a proxy before one node or three, with its clients.
type side struct {
	proxy   *harness.Proxy
	nodes   []*harness.Redis
	clients []*redis.Client

	rate  series // commands per second
	redis series // CPU µs of all nodes per command
	cpu   series // and the proxy's
}

// BenchmarkCluster compares a proxy before a cluster of three with one before one node, in turns. "count" is work for Redis:
// BITCOUNT of 256 KiB. "get" is none: what it costs is the way.
func BenchmarkCluster(b *testing.B) {
	for name, command := range map[string]func(ctx context.Context, r *redis.Client, key string) error{
		"count": func(ctx context.Context, r *redis.Client, key string) error { return r.BitCount(ctx, key, nil).Err() },
		"get":   func(ctx context.Context, r *redis.Client, key string) error { return r.Get(ctx, key+":small").Err() },
	} {
		b.Run(name, func(b *testing.B) {
			one := newSide(b, harness.StartCluster(b, 1, 0), clusterClients)
			three := newSide(b, harness.StartCluster(b, 3, 0), clusterClients)
			single := harness.StartRedis(b)
			plain := newSideOf(b, single.URL(), clusterClients, single)
			for range b.N {
				for _, s := range []*side{plain, one, three} {
					s.turn(b, command)
				}
			}
			b.ReportMetric(three.rate.over(one.rate).median(), "x-three/one")
			b.ReportMetric(one.rate.over(plain.rate).median(), "x-one/plain")
			for name, s := range map[string]*side{"plain": plain, "one": one, "three": three} {
				b.ReportMetric(s.rate.median(), name+"-cmds/s")
				b.ReportMetric(s.redis.median(), name+"-redis-µs")
				b.ReportMetric(s.cpu.median(), name+"-proxy-µs")
			}
		})
	}
}

func newSide(b *testing.B, c *harness.Cluster, clients int) *side {
	b.Helper()
	var nodes []*harness.Redis
	for _, n := range c.Nodes {
		nodes = append(nodes, n.Redis)
	}
	return newSideOf(b, c.URL(), clients, nodes...)
}

func newSideOf(b *testing.B, url string, clients int, nodes ...*harness.Redis) *side {
	b.Helper()
	s := &side{proxy: harness.StartProxy(b, harness.ProxyOptions{Upstream: url, ConfigYAML: "rules: [{name: ctx, prefix: \"ctx:\", mode: lock}]\n"}), nodes: nodes}
	for range clients {
		s.clients = append(s.clients, s.proxy.Client(func(o *redis.Options) { o.PoolSize, o.MaxRetries = 1, -1 }))
	}
	for i := range clusterKeys {
		key := fmt.Sprint("bench:", i)
		for k, v := range map[string]string{key: strings.Repeat("x", 256<<10), key + ":small": strings.Repeat("x", 256)} {
			if err := s.clients[0].Set(b.Context(), k, v, 0).Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
	return s
}

// turn has all clients send commands for a while.
func (s *side) turn(b *testing.B, command func(ctx context.Context, r *redis.Client, key string) error) {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	redisBefore, proxyBefore := s.redisTime(), cpuTime(s.proxy.Pid())
	began := time.Now()
	for i, r := range s.clients {
		wg.Go(func() {
			for n := i; time.Since(began) < clusterSlice; n++ {
				if err := command(context.Background(), r, fmt.Sprint("bench:", n%clusterKeys)); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	n := int(done.Load())
	s.rate = append(s.rate, float64(n)/time.Since(began).Seconds())
	s.redis = append(s.redis, micros(s.redisTime()-redisBefore, n))
	s.cpu = append(s.cpu, micros(cpuTime(s.proxy.Pid())-proxyBefore, n))
}

func (s *side) redisTime() (sum time.Duration) {
	for _, n := range s.nodes {
		sum += cpuTime(n.Pid())
	}
	return sum
}
