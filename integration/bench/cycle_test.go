package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A turn must have room for cycles that wait for a lock several times.
const (
	aloneTurn     = 400 * time.Millisecond
	contendedTurn = time.Second
)

func BenchmarkCycle(b *testing.B) {
	var done []contest
	for _, rtt := range []time.Duration{0, time.Millisecond} {
		for _, crowd := range [][2]int{{1, 1}, {8, 1}, {32, 4}} {
			b.Run(fmt.Sprintf("rtt=%v/clients=%d", rtt, crowd[0]), func(b *testing.B) {
				c := newContest(b, rtt, crowd[0], crowd[1])
				c.run(b)
				c.report(b)
				done = append(done, c)
			})
		}
	}
	if len(done) > 0 {
		report.Publish(b, cycled(done))
	}
}

// newContest starts servers, and relays that make them farther away, with all contestants.
func newContest(b *testing.B, rtt time.Duration, clients, keys int) contest {
	b.Helper()
	server, etcd := harness.StartRedis(b), harness.StartEtcd(b, 1).Members[0]
	straight := place{redis: server.Addr, etcd: etcd.Addr}
	if rtt > 0 {
		straight.redis = harness.StartRelay(b, server.Addr, harness.WithDelay(rtt)).Addr
		straight.etcd = harness.StartRelay(b, etcd.Addr, harness.WithDelay(rtt)).Addr
	}
	proxy := harness.StartProxy(b, harness.ProxyOptions{Upstream: "redis://" + straight.redis, ConfigYAML: rules})
	c := contest{rtt: rtt, clients: clients, keys: keys, server: server.Client(), distance: ping(b, straight.redis)}
	for _, w := range ways {
		to := straight
		if w.proxied {
			to.redis = proxy.Addr
		}
		one := newContestant(b, w, to, clients, keys)
		one.servers = []int{server.Pid()}
		if w.proxied {
			one.proxy = proxy.Pid()
		}
		if w.etcd {
			one.servers = append(one.servers, etcd.Pid())
		}
		c.contestants = append(c.contestants, one)
	}
	return c
}

// run lets everybody have a turn in each round, there and back.
func (c *contest) run(b *testing.B) {
	b.Helper()
	length := aloneTurn
	if c.clients > 1 {
		length = contendedTurn
	}
	order := slices.Clone(c.contestants)
	for b.Loop() {
		for _, one := range order {
			if err := one.turn(b.Context(), length); err != nil {
				b.Fatal(err)
			}
		}
		slices.Reverse(order)
	}
	for _, one := range c.contestants {
		n := 0
		for _, key := range one.keys {
			found, err := count(context.Background(), c.server, key)
			if err != nil {
				b.Fatal(err)
			}
			n += found
		}
		one.lost = one.acked - n
		if one.lost != 0 && one.lossless {
			b.Errorf("%s: %d cycles were acknowledged, %d are in the value", one.name, one.acked, n)
		}
	}
}

func (c *contest) report(b *testing.B) {
	b.Helper()
	for _, one := range c.contestants {
		b.Run("by="+one.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(one.rate.median(), "cycles/s")
			b.ReportMetric(c.over(one, redsyncName), "x_redsync")
			b.ReportMetric(percentile(one.took, 99).Seconds()*1000, "p99-ms")
			b.ReportMetric(float64(one.lost), "lost")
		})
	}
}

// ping is how far away Redis really is, the client's own work included.
func ping(b *testing.B, addr string) time.Duration {
	b.Helper()
	r := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer r.Close()
	took := make([]time.Duration, 101)
	for i := range took {
		start := time.Now()
		if err := r.Ping(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	return percentile(took, 50)
}
