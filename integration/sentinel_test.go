//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A client whose connection has no state goes on at the new primary, one that has read hears of it, one whose state is
// lost is closed.
func TestClientsFollowThePrimary(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: set.URL(), ConfigYAML: guarding()})
	idle, _ := connect(t, "idle", proxy.Addr)
	reader, readerConn := connect(t, "reader", proxy.Addr)
	watcher, watcherConn := connect(t, "watcher", proxy.Addr)
	for range 2 {
		idle.does("OK", "SET", "free", "v")
		idle.does("OK", "SET", "ctx:s", "v")
		reader.sends("GET", "ctx:r")
		reader.reply()
		watcher.does("OK", "WATCH", "free")
		primary := set.Failover()
		hasFollowed(t, primary, proxy)
		idle.does("OK", "SET", "free", "w")
		idle.does("OK", "SET", "ctx:s", "w")
		if got := primary.Client().Get(t.Context(), "free").Val(); got != "w" {
			t.Errorf("at the new primary there is %q", got)
		}
		reader.fails("FENCED", "SET", "ctx:r", "stale")
		readerConn.ExpectClosed()
		watcherConn.ExpectClosed()
		reader, readerConn = connect(t, "reader", proxy.Addr)
		watcher, watcherConn = connect(t, "watcher", proxy.Addr)
		set.WaitHealthy()
	}
	if strings.Contains(proxy.Logs(), "level=ERROR") {
		t.Error("the proxy logs errors")
	}
}

// Case 39: what was written last is lost with the primary, and the clock of the next one is behind. Grants grow all the
// same, for whoever has seen the last one or takes the clock's word; an old one is refused.
func TestGrantsGrowThoughAFailoverHasLostTheLast(t *testing.T) {
	t.Parallel()
	clock := harness.NewClock(t)
	set := harness.StartSentinels(t, harness.WithNodeOptions(harness.WithClock(clock)))
	first := harness.StartProxy(t, harness.ProxyOptions{Name: "first", Upstream: set.URL(), ConfigYAML: endless("1s")})
	second := harness.StartProxy(t, harness.ProxyOptions{Name: "second", Upstream: set.URL(), ConfigYAML: endless("1s")})
	for _, step := range []time.Duration{0, -time.Hour} {
		a, _ := connect(t, "A", first.Addr)
		old := set.Primary()
		a.does("OK", "SET", "ctx:s", "before")
		old.CutReplicas()
		a.sends("FENCE.ACQUIRE", "ctx:s", "TTL", "600000")
		grant, _ := a.reply().(int64)
		a.does("OK", "FENCE.DO", fmt.Sprint(grant), "SET", "ctx:s", "lost")
		clock.Step(step)
		primary := set.Failover()
		hasFollowed(t, primary, first, second)

		again, _ := connect(t, "A again", first.Addr)
		again.fails("FENCED", "FENCE.DO", fmt.Sprint(grant), "SET", "ctx:s", "under a grant that was lost")
		next := second
		if step < 0 { // the clock says nothing now, and the second proxy has seen nothing
			next = first
		}
		b, _ := connect(t, "B", next.Addr)
		b.sends("FENCE.ACQUIRE", "ctx:s")
		newer, _ := b.reply().(int64)
		if newer <= grant {
			t.Errorf("with the clock %v behind, B is granted %d after %d", step, newer, grant)
		}
		again.fails("FENCED", "FENCE.DO", fmt.Sprint(grant), "SET", "ctx:s", "stale")
		b.does("OK", "FENCE.DO", fmt.Sprint(newer), "SET", "ctx:s", "after")
		b.does(int64(1), "FENCE.RELEASE", "ctx:s", fmt.Sprint(newer))
		old.Join()
		set.WaitHealthy()
	}
}

// A hold that was given back stands again at a primary that had not got that.
func TestAHoldThatWasGivenBackIsGivenBackAtTheNextPrimary(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	first := harness.StartProxy(t, harness.ProxyOptions{Name: "first", Upstream: set.URL(), ConfigYAML: endless("1s")})
	second := harness.StartProxy(t, harness.ProxyOptions{Name: "second", Upstream: set.URL(), ConfigYAML: endless("1s")})
	a, _ := connect(t, "A", first.Addr)
	other, _ := connect(t, "another", first.Addr)
	a.does(nil, "GET", "ctx:s")
	other.does(nil, "GET", "ctx:kept")
	old := set.Primary()
	if n := old.Client().Wait(t.Context(), 2, patience).Val(); n != 2 {
		t.Fatalf("%d replicas have got it", n)
	}
	old.CutReplicas()
	a.does("OK", "SET", "ctx:s", "lost")
	primary := set.Failover()
	hasFollowed(t, primary, second)
	b, _ := connect(t, "B", second.Addr)
	harness.Eventually(t, 0, func() bool {
		b.sends("GET", "ctx:s")
		return b.reply() == nil
	}, "B is served, though the lease is not over")
	b.does("OK", "SET", "ctx:s", "B's")
}

// Places that were left stand in line again at a primary that had not got that. They don't have to be served first.
func TestPlacesThatWereLeftAreGivenUpAtTheNextPrimary(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	first := harness.StartProxy(t, harness.ProxyOptions{Name: "first", Upstream: set.URL(), ConfigYAML: endless("60s")})
	second := harness.StartProxy(t, harness.ProxyOptions{Name: "second", Upstream: set.URL(), ConfigYAML: endless("60s")})
	a, _ := connect(t, "A", first.Addr)
	a.sends("FENCE.ACQUIRE", "ctx:s", "TTL", "600000") // a hold that stands all the time
	a.reply()
	old := set.Primary()
	line := lineFor(t, old.Redis, "ctx:s")
	b := line.join("B", first)
	c := line.joinWith("C", first, harness.Encode("SET", "ctx:s", "C's")) // it waits in the proxy
	d := line.join("D", second)
	e := line.join("E", second)
	if n := old.Client().Wait(t.Context(), 2, patience).Val(); n != 2 {
		t.Fatalf("%d replicas have got it", n)
	}
	old.CutReplicas()
	for _, gone := range []*waiter{b, c, d} {
		_ = gone.conn.Close()
	}
	harness.Eventually(t, 0, func() bool { return len(line.places()) == 1 }, "three have left")
	primary := set.Failover()
	hasFollowed(t, primary, first, second)
	next := lineFor(t, primary.Redis, "ctx:s")
	harness.Eventually(t, 0, func() bool {
		places := next.places()
		return len(places) == 1 && places[0] == e.place
	}, "who has not left stands in line alone")
}

// Without Sentinels, the last known primary serves as long as it says that it is one.
func TestTheLastKnownPrimaryServesWithoutSentinels(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: set.URL(), ConfigYAML: guarding()})
	primary, replica := set.Primary(), set.Replicas()[0]
	for _, sentinel := range set.Sentinels {
		sentinel.Kill()
	}
	client, _ := connect(t, "client", proxy.Addr)
	client.does("OK", "SET", "free", "v")
	client.does(nil, "GET", "ctx:s")
	client.does("OK", "SET", "ctx:s", "v")

	host, port, _ := strings.Cut(replica.Addr, ":")
	if err := primary.Client().Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	client.fails("READONLY", "SET", "free", "w")
	proxy.WaitLog(t, "no primary to connect to")
	for _, command := range []string{"SET free w", "GET free", "GET ctx:s"} {
		late, _ := connect(t, "late", proxy.Addr)
		late.sends(strings.Fields(command)...)
		if reply := late.reply(); !isError(reply, "ERR") && !isError(reply, "FENCEDOWN") {
			t.Errorf("%s at a replica: %v", command, reply)
		}
	}
	if err := primary.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	proxy.WaitLog(t, "the primary answers again")
	again, _ := connect(t, "again", proxy.Addr)
	again.does("OK", "SET", "free", "w")
	again.does("OK", "SET", "ctx:s", "w")
}

func TestSentinelsThatDoNotHelpAreNamedAtTheStart(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t, harness.WithSentinelPassword("hunter2"))
	nobody := harness.FreePort(t)
	addr := set.Sentinels[0].Addr
	for url, want := range map[string]string{
		fmt.Sprintf("redis+sentinel://127.0.0.1:%d/mymaster", nobody): "connection refused",
		"redis+sentinel://" + addr + "/mymaster":                      "NOAUTH",
		"redis+sentinel://" + addr + "/other":                         "know no primary by the name \"other\"",
	} {
		config := filepath.Join(t.TempDir(), "config.yaml")
		text := fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"\"\nupstream:\n  start_timeout: 0s\n  url: %q\n", url)
		if strings.HasSuffix(url, "other") {
			text += "  sentinel: {password: hunter2}\n"
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, output := harness.RunProxy(t, "--config", config)
		if code == 0 || !strings.Contains(output, want) || strings.Contains(output, "hunter2") {
			t.Errorf("%s: exit code %d, %s", url, code, output)
		}
	}
	proxy := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf("upstream:\n  url: %q\n  sentinel: {password: hunter2}\n", set.URL())})
	client, _ := connect(t, "client", proxy.Addr)
	client.does("OK", "SET", "free", "v")
}
