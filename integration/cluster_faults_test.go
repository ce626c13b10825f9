//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// failing is a cluster whose nodes fail under turns: on sessions of all nodes, half of which span slots.
type failing struct {
	*turns
	cluster *harness.Cluster
}

// startFailing starts the turns of so many owners, behind a quarter as many proxies.
func startFailing(t *testing.T, owners, replicas int, options ...string) *failing {
	t.Helper()
	f := &failing{newTurns(t), harness.StartSeverableCluster(t, 3, replicas)}
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

// replaced waits until another node has the slot of a primary that has failed.
func (f *failing) replaced(slot int, old *harness.ClusterNode) {
	harness.Eventually(f.T, 0, func() bool { now := f.cluster.Owner(slot); return now != nil && now != old }, "another takes over")
}

func (f *failing) kills(slot int) {
	n := f.cluster.Owner(slot)
	f.while("the end of a primary", n.Kill, func() { n.Restart(); f.cluster.WaitOK() })
}

func (f *failing) freezes(slot int) {
	n := f.cluster.Owner(slot)
	f.while("a frozen primary", n.Pause, func() { n.Resume(); f.cluster.WaitOK() })
}

func (f *failing) isolates(slot int) {
	n := f.cluster.Owner(slot)
	f.while("a primary that is cut off from all others, and not from clients",
		func() { f.cluster.Isolate(n); f.replaced(slot, n) }, func() { f.cluster.Join(); f.cluster.WaitOK() })
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
