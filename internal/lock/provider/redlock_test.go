//go:build integration

package provider_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// redlockLease is long beside what a node takes on a busy machine; a node has a fifth of it.
const redlockLease = 5 * time.Second

func TestRedlockKeepsThePromisesOfAProvider(t *testing.T) {
	nodes := startRedlockNodes(t, 3)
	locktest.Run(t, locktest.Harness{
		Open:    func(tb testing.TB) locktest.Proxy { tb.Helper(); return nodes.open(tb) },
		Servers: nodes,
		End: func(tb testing.TB, session string) {
			tb.Helper()
			for _, c := range nodes.clients {
				if err := c.Del(tb.Context(), redlockPrefix+"lock:"+session).Err(); err != nil {
					tb.Fatal(err)
				}
			}
		},
		KillOne: func(testing.TB) { nodes.kill(0) },
		StepClock: func(_ testing.TB, by time.Duration) {
			nodes.awaitSame() // a hold that two nodes of three have may end with one of them
			nodes.clocks[0].Step(by)
		},
		Lease: redlockLease, Gone: redlockLease, OwnLeases: true, GoesAbove: true,
	})
}

const redlockPrefix = "test:"

// redlockNodes are real servers that keep nothing on a disk: they restart empty. Each has a clock of its own.
type redlockNodes struct {
	tb      testing.TB
	servers []*harness.Redis
	clocks  []*harness.Clock
	clients []*redis.Client // straight at the servers
	stopped []int           // those that were killed
}

func startRedlockNodes(tb testing.TB, n int) *redlockNodes {
	tb.Helper()
	nodes := &redlockNodes{tb: tb}
	for range n {
		clock := harness.NewClock(tb)
		server := harness.StartRedis(tb, harness.WithClock(clock))
		nodes.clocks = append(nodes.clocks, clock)
		nodes.servers = append(nodes.servers, server)
		client := server.Client()
		if err := client.Set(tb.Context(), redlockPrefix+"memory", 0, 0).Err(); err != nil { // it is no new one
			tb.Fatal(err)
		}
		nodes.clients = append(nodes.clients, client)
	}
	return nodes
}

// awaitAll waits until all nodes take part.
func (n *redlockNodes) awaitAll() {
	n.tb.Helper()
	locker := openRedlock(n.tb, n.addrs())
	defer func() { _ = locker.Close(context.Background()) }()
	harness.Eventually(n.tb, 0, func() bool {
		_ = locker.Check(context.Background())
		for _, c := range n.clients {
			if c.Get(context.Background(), redlockPrefix+"memory").Val() != "0" {
				return false
			}
		}
		return true
	}, "all nodes take part")
}

// awaitLocks waits until so many nodes have a lock of the session.
func (n *redlockNodes) awaitLocks(session string, want int) {
	n.tb.Helper()
	harness.Eventually(n.tb, 0, func() bool {
		locks := 0
		for _, c := range n.clients {
			locks += int(c.Exists(context.Background(), redlockPrefix+"lock:"+session).Val())
		}
		return locks == want
	}, fmt.Sprintf("%d nodes have a lock", want))
}

// awaitSame waits until all nodes have the same locks.
func (n *redlockNodes) awaitSame() {
	n.tb.Helper()
	harness.Eventually(n.tb, 0, func() bool {
		var first string
		for i, c := range n.clients {
			keys := c.Keys(context.Background(), redlockPrefix+"lock:*").Val()
			slices.Sort(keys)
			var locks strings.Builder
			for _, key := range keys {
				fmt.Fprintln(&locks, key, c.Get(context.Background(), key).Val())
			}
			if i > 0 && locks.String() != first {
				return false
			}
			first = locks.String()
		}
		return true
	}, "all nodes have the same locks")
}

func (n *redlockNodes) addrs() []string {
	var addrs []string
	for _, r := range n.servers {
		addrs = append(addrs, r.Addr)
	}
	return addrs
}

func (n *redlockNodes) kill(i int) {
	n.servers[i].Kill()
	n.stopped = append(n.stopped, i)
}

// Stop, Start, Pause and Resume are the suite's.
func (n *redlockNodes) Stop() {
	for i := range n.servers {
		n.kill(i)
	}
}

func (n *redlockNodes) Start() {
	for _, i := range n.stopped {
		n.servers[i].RestartEmpty()
	}
	n.stopped = nil
	n.awaitAll()
}

func (n *redlockNodes) Pause() {
	for _, r := range n.servers {
		r.Pause()
	}
}

func (n *redlockNodes) Resume() {
	for _, r := range n.servers {
		r.Resume()
	}
}

// open opens a Locker for a new proxy, over a network of its own.
func (n *redlockNodes) open(tb testing.TB, edits ...func(*provider.RedlockSettings)) locktest.Proxy {
	tb.Helper()
	network := harness.StartNetwork(tb, n.addrs())
	return locktest.Proxy{Locker: openRedlock(tb, network.Addrs(), edits...), Network: network}
}

func openRedlock(tb testing.TB, addrs []string, edits ...func(*provider.RedlockSettings)) provider.Locker {
	tb.Helper()
	settings, ok := provider.Redlock.Settings().(*provider.RedlockSettings)
	if !ok {
		tb.Fatal("these are not redlock's settings")
	}
	for _, addr := range addrs {
		settings.Nodes = append(settings.Nodes, "redis://"+addr)
	}
	settings.Prefix, settings.NodeTimeout, settings.RestartDelay = redlockPrefix, 4*time.Second, redlockLease
	for _, edit := range edits {
		edit(settings)
	}
	locker, err := provider.Redlock.Open(settings, provider.Environment{Proxy: rand.Text(), Log: slog.New(slog.NewTextHandler(tb.Output(), nil))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = locker.Close(ctx)
	})
	return locker
}
