package bench

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	sliceRun  = 2 * time.Millisecond // that a throttled node runs
	sliceStop = 18 * time.Millisecond

	growthClients = 256 // enough to keep nodes busy that are away for most of the time
)

// BenchmarkClusterGrowth compares a cluster of three with one of one node where the nodes are what is scarce: each is stopped for nine
// tenths of the time, so that the machine has cores left for the proxy and the clients. "count" is unguarded, "cycle" is a guarded
// read and write of one of many sessions.
func BenchmarkClusterGrowth(b *testing.B) {
	results := &report.Table{Title: fmt.Sprintf("Throttled nodes, %d clients; CPU µs for each", growthClients)}
	results.Add("what", "before", "per second", "x one node", "proxy CPU", "all nodes' CPU")
	for _, work := range []work{
		{"BITCOUNT of 256 KiB, unguarded", "count", func(ctx context.Context, r *redis.Client, key string) error { return r.BitCount(ctx, key, nil).Err() }},
		{"guarded cycle", "cycle", func(ctx context.Context, r *redis.Client, key string) error {
			guarded := fmt.Sprintf("ctx:%s:%p", key, r)                           // nobody waits for anybody
			if err := r.Get(ctx, guarded).Err(); err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
				return err
			}
			return r.Set(ctx, guarded, key, 0).Err()
		}},
	} {
		b.Run(work.name, func(b *testing.B) {
			var sides []*side
			for _, nodes := range []int{1, 3} {
				s := newSide(b, harness.StartCluster(b, nodes, 0), growthClients)
				s.throttle(b)
				sides = append(sides, s)
			}
			for b.Loop() {
				for _, s := range sides {
					s.turn(b, work.do)
				}
			}
			tellSides(b, results, work, sides[0], []string{"a cluster of 1", "a cluster of 3"}, sides)
		})
	}
	report.Publish(b, report.Section{
		Name: "cluster-growth", Heading: "Growth with a cluster's nodes",
		Says: fmt.Sprintf("Each node is stopped for %v of every %v, so that the nodes are what is scarce and the machine has cores left for proxy and clients. "+
			"BITCOUNT is unguarded; a cycle reads and writes one of many guarded sessions, for which nobody waits.", sliceStop, sliceRun+sliceStop),
		Tables: []*report.Table{results},
	})
}

// throttle gives each node a part of a core until the benchmark ends.
func (s *side) throttle(b *testing.B) {
	b.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		pid := n.Pid()
		wg.Go(func() {
			defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
			for {
				_ = syscall.Kill(pid, syscall.SIGCONT)
				time.Sleep(sliceRun)
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				select {
				case <-stop:
					return
				case <-time.After(sliceStop):
				}
			}
		})
	}
	b.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}
