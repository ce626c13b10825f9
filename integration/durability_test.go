//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// replicate starts a replica of a server, whose link to it is slow.
func replicate(t *testing.T, primary *harness.Redis, delay time.Duration) *harness.Redis {
	t.Helper()
	link := harness.StartRelay(t, primary.Addr, harness.WithDelay(delay))
	host, port, _ := strings.Cut(link.Addr, ":")
	replica := harness.StartRedis(t, harness.WithArgs("--replicaof", host, port))
	harness.Eventually(t, 0, func() bool {
		return strings.Contains(replica.Client().Info(t.Context(), "replication").Val(), "master_link_status:up")
	}, "the replica has its primary's data")
	return replica
}

// A write that only a primary has had that was replaced meanwhile is not what the next one's replicas have.
func TestADurableWriteThatItsPrimaryTookAlongIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: set.URL(), ConfigYAML: guarding("wait: 20s", "durability: {replicas: 1, timeout: 60s}")})
	client, _ := connect(t, "client", proxy.Addr)
	client.does("OK", "SET", "ctx:s", "before")
	old := set.Primary()
	old.Isolate()
	client.sends("SET", "ctx:s", "lost")
	harness.Eventually(t, 0, func() bool { return old.Client().Get(t.Context(), "ctx:s").Val() == "lost" }, "the old primary has the write")
	primary := set.WaitOther(old)
	client.hearsError("FENCEUNKNOWN")
	wantValue(t, primary.Redis, "ctx:s", "before")
	old.Join()
	set.WaitHealthy()
	client.does("before", "GET", "ctx:s")
	client.does("OK", "SET", "ctx:s", "after")
}

// What a client has heard of is on the replica, whatever the form of the write, and survives the primary.
func TestADurableWriteIsOnTheReplicaWhenItsClientHears(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithArgs("--repl-diskless-sync-delay", "0"))
	replica := replicate(t, server, 100*time.Millisecond)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding("durability: {replicas: 1, timeout: 30s}")})
	copied := replica.Client()
	client, conn := connect(t, "client", proxy.Addr)
	is := func(key, want string) {
		t.Helper()
		if got := copied.Get(t.Context(), key).Val(); got != want {
			t.Errorf("the replica has %q for %s, want %q", got, key, want)
		}
	}

	client.does(nil, "GET", "ctx:s")
	client.does("OK", "SET", "ctx:s", "read")
	is("ctx:s", "read")
	client.does("OK", "SET", "ctx:s", "blind")
	is("ctx:s", "blind")
	client.does("blind", "GETSET", "ctx:s", strings.Repeat("x", 100_000))
	client.does(strings.Repeat("x", 100_000), "GETSET", "ctx:s", "large")
	is("ctx:s", "large")
	client.does("OK", "MULTI")
	client.does("QUEUED", "SET", "ctx:s", "transaction")
	client.does("QUEUED", "INCR", "ctx:n")
	client.does("QUEUED", "GET", "free")
	client.does([]any{"OK", int64(1), nil}, "EXEC")
	is("ctx:s", "transaction")
	client.fails("WRONGTYPE", "LPUSH", "ctx:s", "a")

	client.sends("FENCE.ACQUIRE", "ctx:s")
	grant := fmt.Sprint(client.reply())
	client.does("OK", "FENCE.DO", grant, "SET", "ctx:s", "under a grant")
	is("ctx:s", "under a grant")
	client.does(int64(1), "FENCE.RELEASE", "ctx:s", grant)
	client.does("OK", "FENCE.ONCE", "id", "60000", "SET", "ctx:s", "once")
	is("ctx:s", "once")

	conn.Send(harness.Encode("SET", "ctx:s", "1") + harness.Encode("ECHO", "x") + harness.Encode("SET", "ctx:s", "2"))
	client.hears("OK")
	is("ctx:s", "1")
	client.hears("x")
	client.hears("OK")
	is("ctx:s", "2")

	for i, direction := range []harness.Direction{harness.ToClient, harness.ToServer} {
		client.does("OK", "SET", "ctx:s", "before")
		cut := relay.CutAfterBytes(direction, 0)
		value := fmt.Sprint("cut ", i)
		client.sends("SET", "ctx:s", value)
		<-cut
		if !client.hearsOfLost(server, direction, "OK") {
			value = "before"
		}
		wantValue(t, server, "ctx:s", value)
		if findsOut(t, server.Client()) {
			is("ctx:s", value)
		}
	}

	client.does("OK", "SET", "ctx:s", "last words")
	server.Kill()
	if err := copied.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	is("ctx:s", "last words")
}

// A write that no replica has in time is carried out, and its client hears that.
func TestAWriteThatTooFewReplicasHaveIsToldOfSo(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithArgs("--repl-diskless-sync-delay", "0"))
	replica := replicate(t, server, 0)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding("durability: {replicas: 1, timeout: 100ms}") + `
  - name: more
    prefix: "more:"
    mode: lock
    durability: {replicas: 2, timeout: 2s}
  - name: patient
    prefix: "patient:"
    mode: lock
    durability: {replicas: 1, timeout: 1m}
  - name: none
    prefix: "none:"
    mode: lock
`,
	})
	client, _ := connect(t, "client", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	short := func(p *party, says string, args ...string) {
		t.Helper()
		if message := p.fails("FENCEUNKNOWN", args...); !strings.Contains(message, "was carried out, once") || !strings.Contains(message, says) {
			t.Errorf("it hears %q", message)
		}
	}

	client.does("OK", "SET", "patient:s", "there")
	wantValue(t, server, "patient:s", "there")
	server.Client().Set(t.Context(), "ctx:s", "there", 0)
	short(client, "only 1 of 2 replicas", "MSET", "more:s", "1", "none:s", "1") // the most that one of its rules asks for
	wantValue(t, server, "more:s", "1")

	replica.Pause()
	client.does("there", "GET", "ctx:s")
	short(client, "only 0 of 1 replicas", "SET", "ctx:s", "here")
	wantValue(t, server, "ctx:s", "here")
	other.does("here", "GET", "ctx:s") // the hold has ended
	short(other, "only 0 of 1 replicas", "SET", "ctx:s", "theirs")
	client.does("OK", "SET", "none:s", "2")
	client.does("OK", "MULTI")
	client.does("QUEUED", "RPUSH", "ctx:list", "a")
	short(client, "only 0 of 1 replicas", "EXEC")

	replica.Resume()
	client.does("theirs", "GET", "ctx:s")
	harness.Eventually(t, 0, func() bool {
		return server.Client(func(o *redis.Options) { o.MaxRetries = -1 }).Do(t.Context(), "WAIT", "1", "1000").Val() == int64(1)
	}, "the replica listens again")
	client.does("OK", "SET", "ctx:s", "there again")
}

// A write whose answer is lost waits for the replicas of the node that has carried it out, not of another one.
func TestADurableWriteToAClusterWaitsForItsOwnNodesReplicas(t *testing.T) {
	t.Parallel()
	cluster := harness.StartSeverableCluster(t, 3, 1)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: cluster.URL(), ConfigYAML: guarding("durability: {replicas: 1, timeout: 100ms}")})
	known := findsOut(t, cluster.Direct())
	for i, node := range cluster.Nodes[:2] { // one of them at least is not asked for what has no keys
		client, _ := connect(t, fmt.Sprint("client ", i), proxy.Addr)
		key := "ctx:" + cluster.Key(i*5461+100, "")
		client.does("OK", "SET", key, "copied")
		replica := cluster.Replicas(node)[0]
		replica.Stop()
		found := func() bool {
			for line := range strings.Lines(proxy.Logs()) {
				if strings.Contains(line, "commit lost") && strings.Contains(line, key) && strings.Contains(line, "applied=true") == known {
					return true
				}
			}
			return false
		}
		for try := 0; !found(); try++ {
			if try == 50 {
				t.Fatal("no answer was lost")
			}
			cut := node.Way().CutAfterBytes(harness.ToClient, 0)
			client.fails("FENCEUNKNOWN", "SET", key, fmt.Sprint("not copied ", try))
			<-cut
			client, _ = connect(t, fmt.Sprint("client ", i, " ", try), proxy.Addr)
			client.fails("FENCEUNKNOWN", "SET", key, "not copied") // and Redis knows its name
		}
		replica.Restart()
		cluster.WaitOK()
	}
}
