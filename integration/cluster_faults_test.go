//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// failing is a cluster whose nodes fail under turns: on sessions of all nodes, half of which span slots.
type failing struct {
	*turns
	cluster *harness.Cluster
	lapsed  *lapses
}

// startFailing starts the turns of so many owners, behind a quarter as many proxies.
func startFailing(t *testing.T, owners, replicas int, options ...string) *failing {
	t.Helper()
	f := &failing{turns: newTurns(t), cluster: harness.StartSeverableCluster(t, 3, replicas, harness.WithArgs("--notify-keyspace-events", "Ex"))}
	f.lapsed = hearLapses(t, f.cluster)
	for i := range 3 {
		f.keys = append(f.keys, "own:"+f.cluster.Key(i*5461+100, ""), fmt.Sprint("ctx:", i, ":a"))
	}
	options = append([]string{"mode: lock", "wait: 5s", "lease: 30s", "owner: connection"}, options...)
	config := guarding(append(options, `session: "ctx:<s>:*"`)...) + "  - name: own\n    prefix: \"own:\"\n"
	for _, option := range options {
		config += "    " + option + "\n"
	}
	var proxies []*harness.Proxy
	for range owners / 4 {
		proxies = append(proxies, harness.StartProxy(t, harness.ProxyOptions{Upstream: f.cluster.URL(), ConfigYAML: config}))
	}
	for i := range owners {
		f.owner(fmt.Sprint("o", i), proxies[i%len(proxies)])
	}
	f.acquirer(proxies[0])
	f.goesOn("the start")
	return f
}

// lapsesMost is how often a session's hold may end by itself until all sessions are written again, counted in seconds that nobody uses: one that the
// failover has left behind, and a waiter or two whose proxy has not heard yet, or is slow. Of those that have left before there may be any number.
const lapsesMost = 3

// replaces has the nodes replace the primary of a slot that fails. How long the nodes take for that is measured at the nodes, and
// how long all sessions take to be written again counts from then.
func (f *failing) replaces(what string, slot int, fail, mend func(*harness.ClusterNode)) {
	f.Helper()
	n := f.cluster.Owner(slot)
	probe := f.cluster.Key(slot, "probe")
	var heirs []*redis.Client
	for _, r := range f.cluster.Replicas(n) {
		heirs = append(heirs, r.Client())
	}
	f.while(what, func() {
		start := time.Now()
		fail(n)
		harness.Eventually(f.T, 0, func() bool {
			return slices.ContainsFunc(heirs, func(c *redis.Client) bool { return c.Set(f.Context(), probe, "", 0).Err() == nil })
		}, "another node takes writes")
		f.lapsed.forget()
		f.Logf("%s: the nodes have replaced it after %v", what, time.Since(start).Round(time.Millisecond))
	}, func() {
		lapsed := f.lapsed.beside(n)
		f.Logf("%s: holds whose time was over by itself: %v", what, lapsed)
		for hold, n := range lapsed {
			if n > lapsesMost {
				f.Errorf("%s: %s was held by nobody %d times", what, hold, n)
			}
		}
		mend(n)
		f.cluster.WaitOK()
	})
}

func (f *failing) kills(slot int) {
	f.replaces("the end of a primary", slot, func(n *harness.ClusterNode) { n.Kill() }, func(n *harness.ClusterNode) { n.Restart() })
}

func (f *failing) freezes(slot int) {
	f.replaces("a frozen primary", slot, func(n *harness.ClusterNode) { n.Pause() }, func(n *harness.ClusterNode) { n.Resume() })
}

func (f *failing) isolates(slot int) {
	f.replaces("a primary that is cut off from all others, and not from clients", slot, f.cluster.Isolate, func(*harness.ClusterNode) { f.cluster.Join() })
}

// lapses are the holds whose time ends by itself, as all nodes tell: above all those of sessions that were handed to somebody who did not
// take them up.
type lapses struct {
	mu sync.Mutex
	by map[*harness.ClusterNode]map[string]int
}

func hearLapses(t *testing.T, c *harness.Cluster) *lapses {
	t.Helper()
	l := &lapses{}
	l.forget()
	for _, n := range c.Nodes {
		sub := n.Client().Subscribe(t.Context(), "__keyevent@0__:expired")
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		told := sub.Channel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for m := range told {
				if strings.HasPrefix(m.Payload, "fence-proxy:") && strings.HasSuffix(m.Payload, ":h") {
					l.mu.Lock()
					if l.by[n] == nil {
						l.by[n] = map[string]int{}
					}
					l.by[n][m.Payload]++
					l.mu.Unlock()
				}
			}
		}()
		t.Cleanup(func() { _ = sub.Close(); <-done })
	}
	return l
}

func (l *lapses) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by = map[*harness.ClusterNode]map[string]int{}
}

// beside returns how many there were of each session, but at the node that was replaced.
func (l *lapses) beside(replaced *harness.ClusterNode) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for n, by := range l.by {
		if n != replaced {
			maps.Copy(all, by)
		}
	}
	return all
}

// Cases 39 and 70.
func TestNoUpdateIsLostWhateverHappensToACluster(t *testing.T) {
	t.Parallel()
	f := startFailing(t, 16, 1)
	c := f.cluster
	f.kills(100)
	f.while("a failover", func() { c.Failover(c.Replicas(c.Owner(5561))[0]) }, c.WaitOK)

	for i := range 6 {
		to := c.Owner([]int{5561, 11022}[i%2])
		for _, slot := range []int{100, c.Slot("ctx:0:a")} {
			if c.Owner(slot) != to {
				c.Migrate(slot, to)
			}
		}
		f.goesOn("the move of slots")
	}
	t.Logf("slots have moved; all sessions were written again after %v", f.goesOn("the move of slots"))

	for _, n := range c.Nodes {
		f.while("the restart of "+n.Addr, n.Kill, func() { n.Restart(); c.WaitOK() })
	}
	f.freezes(11022)
	f.isolates(100)
	f.end(c.Client())
}

// What was acknowledged is at a replica, too: as long as one survives, the store loses nothing either.
func TestADurableUpdateSurvivesItsPrimary(t *testing.T) {
	t.Parallel()
	f := startFailing(t, 8, 2, "durability: {replicas: 1, timeout: 1s}")
	f.durable = true
	f.kills(100)
	f.freezes(5561)
	f.isolates(11022)
	f.end(f.cluster.Client())
}
