package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookEvery is how often the slots are asked for while all is well.
	lookEvery = 10 * time.Second
	// lookOut is how often it is looked whether a node leaves commands unanswered.
	lookOut = time.Second
	// lookPause is the least time between two searches that are asked for.
	lookPause = 100 * time.Millisecond
)

// finding makes one search of many that are asked for at once.
type finding struct {
	mu    sync.Mutex // held during a search
	began time.Time  // the last one that found something
}

// find asks nodes for the slots until one answers, unless that was done just now.
func (c *Cluster) find(ctx context.Context) error {
	asked := time.Now()
	c.finding.mu.Lock()
	defer c.finding.mu.Unlock()
	if c.finding.began.After(asked.Add(-lookPause)) {
		return nil
	}
	began := time.Now()
	var errs []error
	for _, patience := range []time.Duration{min(lookOut, c.options.DialTimeout), c.options.DialTimeout} { // one may be frozen
		t, failed := c.askAll(ctx, patience)
		if t != nil {
			c.found(t, began)
			return nil
		}
		errs = failed
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("ask the cluster's nodes for its slots: %w", errors.Join(errs...))
}

// askAll asks one node after the other, each for so long at most, until one sees a whole cluster. One that does not is
// second choice: it is cut off from the others.
func (c *Cluster) askAll(ctx context.Context, patience time.Duration) (second *topology, errs []error) {
	for _, addr := range c.candidates() {
		t, ok, err := c.askNode(ctx, addr, patience)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
			if ctx.Err() != nil {
				return nil, errs
			}
		case ok:
			return t, nil
		default:
			second = t
		}
	}
	return second, errs
}

// candidates are whom to ask: primaries in any order, then seeds.
func (c *Cluster) candidates() []string {
	var addrs []string
	if t := c.topology.Load(); t != nil {
		for _, i := range rand.Perm(len(t.primaries)) {
			addrs = append(addrs, t.primaries[i].addr)
		}
	}
	for _, seed := range c.options.Seeds {
		if !slices.Contains(addrs, seed) {
			addrs = append(addrs, seed)
		}
	}
	return addrs
}

// askNode asks one node. ok is false if it does not see a whole cluster.
func (c *Cluster) askNode(ctx context.Context, addr string, patience time.Duration) (t *topology, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := c.options.Dial(ctx, "tcp", addr) // here, since go-redis logs each failure
	if err != nil {
		return nil, false, err
	}
	options := c.ask(addr)
	options.Dialer = func(context.Context, string, string) (net.Conn, error) { return nc, nil }
	client := redis.NewClient(options)
	defer client.Close()
	pipe := client.Pipeline()
	info, slots, nodes := pipe.ClusterInfo(ctx), pipe.ClusterSlots(ctx), pipe.ClusterNodes(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		if strings.Contains(err.Error(), "cluster support disabled") {
			err = fmt.Errorf("%w: it is no cluster, write redis:// for a single Redis", err)
		}
		return nil, false, err
	}
	if t = c.read(addr, slots.Val(), nodes.Val()); len(t.primaries) == 0 {
		return nil, false, ErrNoSlots
	}
	return t, strings.Contains(info.Val(), "cluster_state:ok"), nil
}

// found takes in what a search has found.
func (c *Cluster) found(t *topology, began time.Time) {
	c.finding.began = began
	c.mu.Lock()
	old := c.topology.Load()
	changed := old == nil || old.sum != t.sum || len(old.failed)+len(t.failed) > 0
	if changed {
		c.topology.Store(t)
	}
	c.mu.Unlock()
	if changed && old != nil {
		c.each(func(f *front) { f.nudge() })
		if old.sum != t.sum {
			c.changed()
		}
	}
}

func (c *Cluster) changed() {
	if c.options.Changed != nil {
		c.options.Changed()
	}
}

// follow keeps the topology fresh until ctx ends.
func (c *Cluster) follow(ctx context.Context) {
	ticker := time.NewTicker(lookOut)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.look:
			_ = c.find(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(lookPause):
			}
		case now := <-ticker.C:
			late := false
			c.each(func(f *front) {
				late = f.late(now) || late
				if f.partial.Load() {
					f.nudge()
				}
			})
			if !late && now.Sub(last) < lookEvery {
				continue
			}
			last = now
			if err := c.find(ctx); err != nil && ctx.Err() == nil {
				c.options.Log.Warn("the cluster's nodes don't tell of its slots", "error", err)
				continue
			}
			c.each(func(f *front) { f.desert(now) })
		}
	}
}
