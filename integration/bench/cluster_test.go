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

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
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
	results := &report.Table{Title: fmt.Sprintf("Unguarded commands, %d clients; CPU µs a command", clusterClients)}
	results.Add("command", "before", "commands/s", "x one node", "proxy CPU", "all nodes' CPU")
	for _, work := range []work{
		{"BITCOUNT of 256 KiB", "count", func(ctx context.Context, r *redis.Client, key string) error { return r.BitCount(ctx, key, nil).Err() }},
		{"GET of 256 bytes", "get", func(ctx context.Context, r *redis.Client, key string) error { return r.Get(ctx, key+":small").Err() }},
	} {
		b.Run(work.name, func(b *testing.B) {
			one := newSide(b, harness.StartCluster(b, 1, 0), clusterClients)
			three := newSide(b, harness.StartCluster(b, 3, 0), clusterClients)
			single := harness.StartRedis(b)
			plain := newSideOf(b, single.URL(), clusterClients, single)
			for b.Loop() {
				for _, s := range []*side{plain, one, three} {
					s.turn(b, work.do)
				}
			}
			tellSides(b, results, work, one, []string{"one Redis", "a cluster of 1", "a cluster of 3"}, []*side{plain, one, three})
		})
	}
	report.Publish(b, report.Section{
		Name: "cluster", Heading: "Redis Cluster",
		Says: "A proxy before a cluster of three next to one before a cluster of one node, and one before a Redis that is no cluster. BITCOUNT is work for Redis; what GET costs is the way. " +
			"All share the machine's cores, so the nodes do not grow together here.",
		Tables: []*report.Table{results},
	})
}

// work is a command, or a few, that clients repeat.
type work struct {
	title string
	name  string // of its benchmark
	do    func(ctx context.Context, r *redis.Client, key string) error
}

// tellSides adds the rows of a work, whose rates are compared with a base's.
func tellSides(b *testing.B, results *report.Table, work work, base *side, names []string, sides []*side) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	for i, s := range sides {
		x := s.rate.over(base.rate).median()
		results.Add(work.title, names[i], s.rate.median(), x, s.cpu.median(), s.redis.median())
		b.ReportMetric(x, strings.ReplaceAll(names[i], " ", "-")+"_x_one-node")
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
