//go:build integration

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// clustered is two proxies in front of a cluster of three.
type clustered struct {
	*testing.T
	cluster       *harness.Cluster
	first, second *harness.Proxy
}

func startClustered(t *testing.T, options ...string) *clustered {
	t.Helper()
	c := &clustered{T: t, cluster: harness.StartCluster(t, 3, 0)}
	for _, p := range []**harness.Proxy{&c.first, &c.second} {
		*p = harness.StartProxy(t, harness.ProxyOptions{Upstream: c.cluster.URL(), ConfigYAML: guarding(options...)})
	}
	return c
}

// elsewhere returns a key of the same session that another node has.
func (c *clustered) elsewhere(key string) string {
	c.Helper()
	of := c.cluster.Of(key)
	for n := range 1000 {
		if other := fmt.Sprint(key, n); c.cluster.Of(other) != of {
			return other
		}
	}
	c.Fatal("no other node has a key of the session")
	return ""
}

// A session's keys are in slots of two nodes: it is held once, and each write is checked where its key is.
func TestASessionOverSeveralNodesIsHeldOnce(t *testing.T) {
	t.Parallel()
	c := startClustered(t, append([]string{`session: "ctx:<s>:*"`}, longHolds...)...)
	one := "ctx:s:a"
	two := c.elsewhere(one)
	a, conn := connect(t, "A", c.first.Addr)
	b, _ := connect(t, "B", c.second.Addr)

	a.does(nil, "GET", one)
	a.does(nil, "GET", two)
	b.sends("GET", two)
	waitFor(t, c, one, 1)
	a.does("OK", "SET", one, "A's")
	b.hears(nil) // the commit has given the session back
	b.does("OK", "SET", two, "B's")
	a.fails("FENCED", "SET", two, "stale")
	a.does("B's", "GET", two)
	a.does("OK", "SET", two, "A's, after B's")

	a.does("A's", "GET", one)
	b.sends("SET", two, "B's blind one") // waits for the holder, whatever key it has read
	waitFor(t, c, two, 1)
	_ = conn.Close()
	b.hears("OK")
	b.does("A's", "GET", one)
	b.does("OK", "SET", one, "B's")
}

// waitFor waits until so many stand in line for a key's session.
func waitFor(t *testing.T, c *clustered, key string, n int64) {
	t.Helper()
	d, _ := connect(t, "D", c.first.Addr)
	harness.Eventually(t, 0, func() bool {
		return d.asks("FENCE.INSPECT", key)["waiting"] == n
	}, fmt.Sprintf("%d wait for %s", n, key))
}

// Keys with one hash tag are in one slot: a read is granted where it reads, with no lock anywhere else.
func TestATaggedSessionIsLockedWhereItsDataIs(t *testing.T) {
	t.Parallel()
	c := startClustered(t, append([]string{`session: "ctx:{<s>}:*"`}, longHolds...)...)
	const one, two = "ctx:{s}:a", "ctx:{s}:b"
	a, _ := connect(t, "A", c.first.Addr)
	b, _ := connect(t, "B", c.second.Addr)
	a.does(nil, "GET", one)
	node := c.cluster.Of(one)
	for _, n := range c.cluster.Nodes {
		records := n.Client().Keys(t.Context(), "fence-proxy:*ctx:s:t").Val()
		if want := n == node; (len(records) == 1) != want {
			t.Errorf("node %s has the records %q", n.Addr, records)
		}
	}
	b.sends("GET", two)
	a.does("OK", "MSET", one, "1", two, "2")
	b.hears("2")
	a.fails("LOCKED", "FENCE.ACQUIRE", two, "WAIT", "0")
}

func TestAGrantCountsForAllKeysOfASessionOverSeveralNodes(t *testing.T) {
	t.Parallel()
	c := startClustered(t, append([]string{`session: "ctx:<s>:*"`}, longHolds...)...)
	one := "ctx:s:a"
	two := c.elsewhere(one)
	a, _ := connect(t, "A", c.first.Addr)
	b, _ := connect(t, "B", c.second.Addr)
	grant := a.acquires(one)
	b.fails("LOCKED", "FENCE.ACQUIRE", two, "WAIT", "0")
	a.does("OK", "SET", one, "1")
	a.does("OK", "SET", two, "1")
	a.does("1", "GET", two)
	b.does("OK", "FENCE.DO", grant, "SET", one, "2")
	b.does("OK", "FENCE.DO", grant, "SET", two, "2")
	b.does(int64(60_000), "FENCE.RENEW", two, grant, "TTL", "1m")
	held := b.asks("FENCE.LIST")
	if holds, ok := held["holds"].([]any); !ok || len(holds) != 1 {
		t.Errorf("the holds are %v", held)
	}
	b.does(int64(1), "FENCE.RELEASE", two, grant)
	a.fails("FENCED", "GET", two) // A's connection stood under it; it hears of that once
	a.does("2", "GET", two)
	a.does("OK", "SET", two, "2")
	for _, key := range []string{one, two} {
		b.fails("FENCED", "FENCE.DO", grant, "SET", key, "stale")
		b.does("2", "GET", key)
		b.does("OK", "SET", key, "3")
	}
}

func TestABrokenHoldOverSeveralNodesIsOverOnAll(t *testing.T) {
	t.Parallel()
	c := startClustered(t, append([]string{`session: "ctx:<s>:*"`}, longHolds...)...)
	one := "ctx:s:a"
	two := c.elsewhere(one)
	a, _ := connect(t, "A", c.first.Addr)
	b, _ := connect(t, "B", c.second.Addr)
	for _, key := range []string{one, two} {
		a.does(nil, "GET", one)
		b.does(int64(1), "FENCE.BREAK", key)
		b.does(nil, "GET", two)
		b.does(nil, "GET", one)
		if refusal := a.fails("FENCED", "SET", one, "stale"); !strings.Contains(refusal, `session "s"`) {
			t.Errorf("the refusal is %q", refusal)
		}
		b.does("OK", "SET", one, "B's")
		b.does(int64(1), "DEL", one)
	}
}

// A slot is on its way, and a session's record has gone ahead of its key: what is written at the other node now would be
// undone when the key comes.
func TestAWriteWaitsForItsKeyWhenTheRecordHasMovedAhead(t *testing.T) {
	t.Parallel()
	c := startClustered(t, longHolds...)
	const key = "ctx:s"
	a, _ := connect(t, "A", c.first.Addr)
	b, _ := connect(t, "B", c.second.Addr)
	b.does("OK", "SET", key, "before")
	a.does("before", "GET", key)
	b.sends("GET", key)
	waitFor(t, c, key, 1)

	from, slot := c.cluster.Of(key), c.cluster.Slot(key)
	to := c.cluster.Nodes[0]
	if to == from {
		to = c.cluster.Nodes[1]
	}
	record := from.Client().Keys(t.Context(), "fence-proxy:*").Val()
	if len(record) < 3 {
		t.Fatalf("the record has the keys %q", record)
	}
	c.cluster.BeginMigration(slot, to)
	c.cluster.MoveKeys(slot, to, record...)
	a.sends("SET", key, "A's")
	early := false
	harness.Eventually(t, 0, func() bool { // it is tried again and again, or carried out
		early = to.Client().Exists(t.Context(), key).Val() > 0
		_, asked, _ := strings.Cut(to.Client().Info(t.Context(), "commandstats").Val(), "cmdstat_asking:calls=")
		asked, _, _ = strings.Cut(asked, ",")
		n, _ := strconv.Atoi(asked)
		return early || n > 1
	}, "the write is on its way")
	if early {
		t.Error("the key is written where the slot is not yet")
	}
	c.cluster.MoveKeys(slot, to, key)
	c.cluster.EndMigration(slot, to)
	a.hears("OK")
	b.hears("A's")
}
