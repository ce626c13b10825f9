package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	valueSize   = 1024
	countDigits = 20
)

var filler = strings.Repeat("x", valueSize-countDigits)

// contestant is a way with its clients, and what it has done so far.
type contestant struct {
	way
	crowd

	keys    []string // which the clients take turns among
	proxy   int      // the proxy's process, 0 if there is none,
	servers []int    // and those of Redis and of what else grants locks

	rate     series // cycles per second
	proxyCPU series // µs per cycle
	serveCPU series // likewise, of all servers
	took     []time.Duration
	cycles   []int // that were acknowledged, by client, of all turns
	acked    int   // all of them, the first ones included
	lost     int   // of the acknowledged ones
	gaveUp   int
}

// newContestant has n clients, which share some keys evenly.
func newContestant(tb testing.TB, w way, to place, n, keys int) *contestant {
	tb.Helper()
	c := &contestant{way: w, cycles: make([]int, n), acked: n}
	for i := range keys {
		c.keys = append(c.keys, fmt.Sprintf("bench:%s:%d", strings.ReplaceAll(w.name, " ", "-"), i))
	}
	c.crowd = w.gather(tb, to, c.keys, n)
	return c
}

// turn lets all clients work for a time, and until the cycles begun in it have ended.
func (c *contestant) turn(ctx context.Context, length time.Duration) error {
	proxyCPU, serveCPU := cpuTime(c.proxy), cpuTime(c.servers...)
	start := time.Now()
	spells, err := c.work(ctx, length)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	whole := time.Since(start)
	proxyCPU, serveCPU = cpuTime(c.proxy)-proxyCPU, cpuTime(c.servers...)-serveCPU

	acked, inTime, last := 0, 0, time.Duration(0)
	for i, s := range spells {
		acked += len(s.took)
		c.cycles[i] += len(s.took)
		inTime += s.inTime
		last = max(last, s.last)
		c.gaveUp += s.gaveUp
		c.took = append(c.took, s.took...)
	}
	c.acked += acked
	if acked == 0 {
		return fmt.Errorf("%s: no cycle was begun in %v and succeeded", c.name, length)
	}
	if inTime == 0 { // the machine is overloaded
		inTime, last = acked, whole
	}
	c.rate = append(c.rate, float64(inTime)/last.Seconds())
	c.proxyCPU = append(c.proxyCPU, micros(proxyCPU, acked))
	c.serveCPU = append(c.serveCPU, micros(serveCPU, acked))
	return nil
}

// fairness is how many cycles the client that did most has done for each of the one that did least; 0 with one client.
func (c *contestant) fairness() float64 {
	least, most := c.cycles[0], c.cycles[0]
	for _, n := range c.cycles {
		least, most = min(least, n), max(most, n)
	}
	if len(c.cycles) == 1 {
		return 0
	}
	return float64(most) / float64(max(least, 1))
}
