package harness_test

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestAClusterOfThreeServesAndItsSlotsMove(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, 0)
	slot := c.Slot("k")
	from, to := c.Of("k"), c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	conn, other := harness.Dial(t, from.Addr), harness.Dial(t, to.Addr)
	conn.Do("SET", "k", "v")
	if got := string(other.Do("GET", "k")); !strings.HasPrefix(got, "-MOVED ") || !strings.Contains(got, from.Addr) {
		t.Errorf("another node says %q", got)
	}
	c.BeginMigration(slot, to)
	c.MoveKeys(slot, to, "k")
	if got := string(conn.Do("GET", "k")); !strings.HasPrefix(got, "-ASK ") {
		t.Errorf("in the middle of the move its node says %q", got)
	}
	c.EndMigration(slot, to)
	if got := string(other.Do("GET", "k")); got != "$1\r\nv\r\n" || c.Of("k") != to {
		t.Errorf("after the move the new node says %q", got)
	}
	joined := c.AddPrimary()
	c.Migrate(slot, joined)
	if got := string(harness.Dial(t, joined.Addr).Do("GET", "k")); got != "$1\r\nv\r\n" {
		t.Errorf("the node that joined says %q", got)
	}
	if key := c.Key(slot, ":x"); c.Slot(key) != slot {
		t.Errorf("%q is not of slot %d", key, slot)
	}
}

func TestAClustersReplicaTakesOver(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, 1)
	primary := c.Of("k")
	replica := c.Replicas(primary)[0]
	harness.Dial(t, primary.Addr).Do("SET", "k", "v")
	c.Failover(replica)
	if c.Of("k") != replica || len(c.Replicas(replica)) != 1 {
		t.Error("the replica has not taken over")
	}
	replica.Kill()
	harness.Eventually(t, 0, func() bool { return c.Of("k") == primary }, "the nodes elect another")
	c.WaitOK()
	if got := string(harness.Dial(t, primary.Addr).Do("GET", "k")); got != "$1\r\nv\r\n" {
		t.Errorf("it says %q", got)
	}
	replica.Restart()
	harness.Eventually(t, 0, func() bool { return len(c.Replicas(primary)) == 1 }, "who comes back is a replica")
	c.WaitOK()
}
