package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A turn must have room for cycles that wait for a lock several times.
const (
	aloneTurn     = 400 * time.Millisecond
	contendedTurn = time.Second
)

func BenchmarkCycle(b *testing.B) {
	results := table{title: "Read-modify-write cycles, GET and SET of 1 KiB"}
	results.add("to Redis", "clients on keys", "by", "cycles/s", "x bare", "x redsync", "x redislock", "p99 ms", "longest ms", "max/min", "lost", "gave up", "proxy CPU", "Redis CPU")
	for _, rtt := range []time.Duration{0, time.Millisecond} {
		for _, crowd := range [][2]int{{1, 1}, {8, 1}, {32, 4}} {
			b.Run(fmt.Sprintf("rtt=%v/clients=%d", rtt, crowd[0]), func(b *testing.B) {
				contest(b, &results, rtt, crowd[0], crowd[1])
			})
		}
	}
	results.print(os.Stdout)
}

// contest compares all ways at one distance with one number of clients that share some keys.
func contest(b *testing.B, results *table, rtt time.Duration, clients, keys int) {
	b.Helper()
	ctx := b.Context()
	server := harness.StartRedis(b)
	addr := server.Addr
	if rtt > 0 {
		addr = harness.StartRelay(b, addr, harness.WithDelay(rtt)).Addr
	}
	proxy := harness.StartProxy(b, harness.ProxyOptions{Upstream: "redis://" + addr, ConfigYAML: rules})

	contestants := make([]*contestant, len(ways))
	for i, w := range ways {
		to := addr
		if w.proxied {
			to = proxy.Addr
		}
		contestants[i] = newContestant(ctx, b, w, to, clients, keys)
	}
	distance := ping(b, addr)
	length := aloneTurn
	if clients > 1 {
		length = contendedTurn
	}
	order := slices.Clone(contestants)
	for b.Loop() {
		for _, c := range order {
			if err := c.turn(ctx, length, proxy.Pid(), server.Pid()); err != nil {
				b.Fatal(err)
			}
		}
		slices.Reverse(order)
	}

	direct := server.Client()
	bare, redsync, redislock := rateOf(contestants, bareName), rateOf(contestants, redsyncName), rateOf(contestants, redislockName)
	for _, c := range contestants {
		n := 0
		for _, key := range c.keys {
			found, err := count(ctx, direct, key)
			if err != nil {
				b.Fatal(err)
			}
			n += found
		}
		lost := c.acked - n
		if lost != 0 && c.lossless {
			b.Errorf("%s: %d cycles were acknowledged, %d are in the value", c.name, c.acked, n)
		}
		p99 := percentile(c.took, 99)
		xBare, xRedsync, xRedislock := c.rate.over(bare).median(), c.rate.over(redsync).median(), c.rate.over(redislock).median()
		results.add(fmt.Sprintf("%.2f ms", distance.Seconds()*1000), fmt.Sprintf("%d on %d", clients, keys), c.name, c.rate.median(), xBare, xRedsync, xRedislock, p99, slices.Max(c.took), c.fairness(),
			fmt.Sprintf("%d of %d", lost, c.acked), c.gaveUp, c.proxy.median(), c.redis.median())
		b.Run("by="+c.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(c.rate.median(), "cycles/s")
			b.ReportMetric(xBare, "x_bare")
			b.ReportMetric(xRedsync, "x_redsync")
			b.ReportMetric(xRedislock, "x_redislock")
			b.ReportMetric(p99.Seconds()*1000, "p99-ms")
			b.ReportMetric(float64(lost), "lost")
		})
	}
}

func rateOf(contestants []*contestant, name string) series {
	for _, c := range contestants {
		if c.name == name {
			return c.rate
		}
	}
	return nil
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
