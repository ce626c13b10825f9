package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	valueSize   = 1024
	countDigits = 20
)

// contestant is a way with its clients, and what it has done so far.
type contestant struct {
	way
	keys    []string // which the clients take turns among
	clients []*client

	rate   series // cycles per second
	proxy  series // CPU µs per cycle
	redis  series // likewise
	took   []time.Duration
	acked  int // cycles whose SET was acknowledged, the first ones included
	gaveUp int
}

// client is one party to the contest: a connection with its guard. Its counts are those of the
// present turn.
type client struct {
	redis *redis.Client
	key   string
	guard guard

	total  int // cycles that were acknowledged, of all turns
	gaveUp int
	took   []time.Duration // one for each cycle that was acknowledged
	inTime int             // cycles that ended before the turn did,
	last   time.Time       // and when the last of them did
	err    error
}

// newContestant connects n clients, which share some keys evenly, to addr and lets each do a cycle, so that connections,
// scripts and the values are there.
func newContestant(ctx context.Context, tb testing.TB, w way, addr string, n, keys int) *contestant {
	tb.Helper()
	c := &contestant{way: w}
	for i := range keys {
		c.keys = append(c.keys, fmt.Sprintf("bench:%s:%d", w.name, i))
	}
	for i := range n {
		key := c.keys[i%keys]
		r := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
		tb.Cleanup(func() { _ = r.Close() })
		one := &client{redis: r, key: key, guard: w.guard(r, key)}
		if err := one.guard(ctx, one.cycle); err != nil {
			tb.Fatalf("%s: the first cycle: %v", w.name, err)
		}
		c.acked++
		c.clients = append(c.clients, one)
	}
	return c
}

// turn lets all clients work for a time, and until the cycles begun in it have ended.
func (c *contestant) turn(ctx context.Context, length time.Duration, proxyPid, redisPid int) error {
	proxyCPU, redisCPU := cpuTime(proxyPid), cpuTime(redisPid)
	start := time.Now()
	var working sync.WaitGroup
	for _, one := range c.clients {
		working.Go(func() { one.work(ctx, start.Add(length)) })
	}
	working.Wait()
	done := time.Now()
	proxyCPU, redisCPU = cpuTime(proxyPid)-proxyCPU, cpuTime(redisPid)-redisCPU

	acked, inTime, last := 0, 0, start
	for _, one := range c.clients {
		if one.err != nil {
			return fmt.Errorf("%s: %w", c.name, one.err)
		}
		acked += len(one.took)
		one.total += len(one.took)
		inTime += one.inTime
		if one.last.After(last) {
			last = one.last
		}
		c.gaveUp += one.gaveUp
		c.took = append(c.took, one.took...)
	}
	c.acked += acked
	if acked == 0 {
		return fmt.Errorf("%s: no cycle was begun in %v and succeeded", c.name, length)
	}
	if inTime == 0 { // the machine is overloaded
		inTime, last = acked, done
	}
	c.rate = append(c.rate, float64(inTime)/last.Sub(start).Seconds())
	c.proxy = append(c.proxy, micros(proxyCPU, acked))
	c.redis = append(c.redis, micros(redisCPU, acked))
	return nil
}

// fairness is how many cycles the client that did most has done for each of the one that did least; 0 with one client.
func (c *contestant) fairness() float64 {
	least, most := c.clients[0].total, c.clients[0].total
	for _, one := range c.clients {
		least, most = min(least, one.total), max(most, one.total)
	}
	if len(c.clients) == 1 {
		return 0
	}
	return float64(most) / float64(max(least, 1))
}

// work does cycles until the end.
func (c *client) work(ctx context.Context, end time.Time) {
	c.gaveUp, c.inTime, c.took, c.err = 0, 0, c.took[:0], nil
	for begun := time.Now(); begun.Before(end); {
		err := c.guard(ctx, c.cycle)
		now := time.Now()
		switch {
		case errors.Is(err, errGaveUp):
			c.gaveUp++
			continue // a later success has taken this long, too
		case err != nil:
			c.err = err
			return
		}
		c.took = append(c.took, now.Sub(begun))
		if !now.After(end) {
			c.inTime++
			c.last = now
		}
		begun = now
	}
}

// cycle reads the value, counts one up and writes it.
func (c *client) cycle(ctx context.Context) error {
	n, err := count(ctx, c.redis, c.key)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%0*d", countDigits, n+1)
	return c.redis.Set(ctx, c.key, text+filler, 0).Err()
}

var filler = strings.Repeat("x", valueSize-countDigits)

// count reads the count in a value, 0 if there is none.
func count(ctx context.Context, r *redis.Client, key string) (n int, err error) {
	value, err := r.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(value) != valueSize {
		return 0, fmt.Errorf("%s has %d bytes, want %d", key, len(value), valueSize)
	}
	_, err = fmt.Sscanf(value[:countDigits], "%d", &n)
	return n, err
}
