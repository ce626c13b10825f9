//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const wouldRefuse = `fence_proxy_would_refuse_total{rule="ctx"}`

func TestModeObserveCountsAcrossProxiesAndLetsEverythingThrough(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	var proxies []*harness.Proxy
	for range 2 {
		proxies = append(proxies, harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding("mode: observe")}))
	}
	a, _ := connect(t, "A", proxies[0].Addr)
	b, _ := connect(t, "B", proxies[1].Addr)
	counted := func(want float64, when string) {
		t.Helper()
		if n := proxies[0].Metric(wouldRefuse) + proxies[1].Metric(wouldRefuse); n != want {
			t.Errorf("%s: %v counted, want %v", when, n, want)
		}
	}
	a.does(nil, "GET", "ctx:s")
	b.does(nil, "GET", "ctx:s")
	b.does("OK", "SET", "ctx:s", "B's")
	counted(0, "after a write of what was read")
	a.does("OK", "SET", "ctx:s", "A's, stale")
	wantValue(t, server, "ctx:s", "A's, stale")
	counted(1, "after a stale write")
	a.does("OK", "SET", "ctx:s", "A's, blind")
	a.does("A's, blind", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "A's")
	counted(1, "after a blind write and a sequence")

	// In transactions, and under WATCH.
	b.does("A's", "GET", "ctx:s")
	a.does("A's", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "A's 2")
	b.does("OK", "MULTI")
	b.does("QUEUED", "SET", "ctx:s", "B's, stale")
	b.does([]any{"OK"}, "EXEC")
	counted(2, "after a stale transaction")
	wantValue(t, server, "ctx:s", "B's, stale")
	b.does("B's, stale", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "A's 3")
	b.does("OK", "WATCH", "ctx:other")
	b.does("OK", "MULTI")
	b.does("QUEUED", "SET", "ctx:s", "B's 2")
	b.does([]any{"OK"}, "EXEC")
	counted(3, "after a stale transaction under WATCH")

	// What can't be guarded is passed.
	b.does(int64(1), "MOVE", "ctx:s", "1")
	b.does(nil, "BLPOP", "ctx:list", "0.01")
	b.does("OK", "MULTI")
	b.does("QUEUED", "SET", "ctx:s", "x")
	b.does("QUEUED", "SELECT", "2")
	b.does([]any{"OK", "OK"}, "EXEC")
	counted(3, "after what can't be guarded")
}

func TestModeObserveNeedsNoRights(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding("mode: observe")})
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "agent", "on", ">secret", "+get", "+set", "~ctx:*").Err(); err != nil {
		t.Fatal(err)
	}
	a, _ := connect(t, "A", proxy.Addr)
	a.does("OK", "AUTH", "agent", "secret")
	a.does("OK", "SET", "ctx:s", "v")
	a.does("v", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "w")
}
