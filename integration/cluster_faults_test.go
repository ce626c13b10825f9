//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Cases 39 and 70.
func TestNoUpdateIsLostWhateverHappensToACluster(t *testing.T) {
	t.Parallel()
	c := harness.StartSeverableCluster(t, 3, 1)
	w := newTurns(t)
	for i := range 3 {
		w.keys = append(w.keys, "own:"+c.Key(i*5461+100, ""), fmt.Sprint("ctx:", i, ":a"))
	}
	config := guarding("mode: lock", "wait: 5s", "lease: 2s", "owner: connection", `session: "ctx:<s>:*"`) + `  - name: own
    prefix: "own:"
    mode: lock
    wait: 5s
    lease: 2s
    owner: connection
`
	var proxies []*harness.Proxy
	for range 4 {
		proxies = append(proxies, harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: config}))
	}
	for i := range 16 {
		w.owner(fmt.Sprint("o", i), proxies[i%4])
	}
	w.acquirer(proxies[0])
	w.goesOn("the start")

	primary := c.Owner(100)
	w.while("the end of a primary", primary.Kill, func() { primary.Restart(); c.WaitOK() })

	w.while("a failover", func() { c.Failover(c.Replicas(c.Owner(5561))[0]) }, c.WaitOK)

	from, to := c.Owner(100), c.Owner(5561)
	for _, slot := range []int{100, c.Slot("ctx:0:a")} {
		if c.Owner(slot) != to {
			c.Migrate(slot, to)
		}
	}
	t.Logf("slots have moved from %s to %s; all sessions were written again after %v", from.Addr, to.Addr, w.goesOn("the move of slots"))

	for _, n := range c.Nodes {
		w.while("the restart of "+n.Addr, n.Kill, func() { n.Restart(); c.WaitOK() })
	}

	frozen := c.Owner(11022)
	w.while("a frozen primary", frozen.Pause, func() { frozen.Resume(); c.WaitOK() })

	alone := c.Owner(100)
	w.while("a primary that is cut off from all others, and not from clients", func() {
		c.Isolate(alone)
		harness.Eventually(t, 0, func() bool { now := c.Owner(100); return now != nil && now != alone }, "another takes over")
	}, func() { c.Join(); c.WaitOK() })

	w.end(c.Client())
}
