//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Two proxies both take the session for theirs: A's write is on its way to Redis while the proxy is frozen past its lease, and B
// is granted the session. So only the store can refuse it. Case 7.
func TestTheStoreRefusesAHolderThatTheLockProviderGaveUp(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("its successor has written: %v", written), func(t *testing.T) {
			eachProvider(t, func(e *elsewhere) {
				t := e.t
				const key = "ctx:s"
				far := harness.StartRelay(t, e.redis.Addr)
				near := harness.StartRelay(t, far.Addr, harness.WithCapture())
				proxyA := e.proxyBefore("A's", near.URL(), keptHolds...)
				proxyB := e.proxy("B's", keptHolds...)
				a, _ := connect(t, "A", proxyA.Addr)
				b, _ := connect(t, "B", proxyB.Addr)
				b.does("OK", "SET", key, "before")
				a.does("before", "GET", key)

				far.Blackhole(true)
				a.sends("SET", key, "A's, stale")
				harness.Eventually(t, 0, func() bool { return carries(near, "A's, stale") }, "A's write is on its way")
				proxyA.Pause()
				b.does("before", "GET", key) // waits until A's lease has ended
				want := "before"
				if written {
					b.does("OK", "SET", key, "B's")
					want = "B's"
				}
				blocks := e.redis.CommandCalls(t.Context())["exec"]
				far.Blackhole(false)
				harness.Eventually(t, 0, func() bool { return e.redis.CommandCalls(t.Context())["exec"] > blocks }, "A's write arrives")
				wantValue(t, e.redis, key, want)
				if !written {
					b.does("OK", "SET", key, "B's")
				}
				proxyA.Resume()
				a.hearsError("FENCED")
				wantValue(t, e.redis, key, "B's")
				a.does("B's", "GET", key)
				a.does("OK", "SET", key, "A's")
			})
		})
	}
}

func carries(r *harness.Relay, text string) bool {
	return slices.ContainsFunc(r.Connections(), func(c harness.Connection) bool {
		return strings.Contains(string(c.Bytes[harness.ToServer]), text)
	})
}

// Cases 17 and 41.
func TestWhatAProxyHeldElsewhereGoesOnWhenItIsGone(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		proxyB := e.proxy("B's", keptHolds...)
		b, _ := connect(t, "B", proxyB.Addr)
		b.does("OK", "SET", key, "before")

		ended := e.proxy("ended", keptHolds...)
		a, _ := connect(t, "A", ended.Addr)
		a.does("before", "GET", key)
		b.sends("GET", key)
		ended.Terminate()
		b.hears("before")
		b.does("OK", "SET", key, "B's")

		killed := e.proxy("killed", keptHolds...)
		a, _ = connect(t, "A", killed.Addr)
		a.does("B's", "GET", key)
		killed.Kill()
		b.does("B's", "GET", key) // at the end of the lease
		b.does("OK", "SET", key, "B's again")

		c, conn := connect(t, "C", proxyB.Addr)
		c.does("B's again", "GET", key)
		b.sends("GET", key)
		conn.Close() // its client leaves
		b.hears("B's again")
	})
}

func TestWhileTheLockProviderIsDownNothingIsWritten(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		proxy := e.proxy("proxy", "wait: 20s")
		a, _ := connect(t, "A", proxy.Addr)
		a.does("OK", "SET", key, "before")
		e.stop()
		for _, command := range [][]string{
			{"SET", key, "lost"}, {"GET", key}, {"RPUSH", "ctx:list", "lost"}, {"FENCE.ACQUIRE", key},
		} {
			text := a.fails("FENCEDOWN", command...)
			if !strings.Contains(text, e.name) || !strings.Contains(text, "nothing was written") {
				t.Errorf("%s: %s", command, text)
			}
		}
		a.does("OK", "SET", "other", "unguarded")
		wantValue(t, e.redis, key, "before")
		wantValue(t, e.redis, "ctx:list", "")
		proxy.WaitLog(t, "the lock provider can't be asked: guarded commands are refused until it can")
		harness.Eventually(t, 0, func() bool { return !isReady(proxy) }, "the proxy is not ready")
		if up := proxy.Metric("fence_proxy_provider_up"); up != 0 {
			t.Errorf("fence_proxy_provider_up is %v", up)
		}

		e.start()
		e.ready(proxy)
		a.does("before", "GET", key)
		a.does("OK", "SET", key, "after")
	})
}

func TestAProxyStartsBeforeItsLockProvider(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		e.stop()
		proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: e.redis, Admin: true, ConfigYAML: e.locks() + guarding("wait: 500ms")})
		a, _ := connect(t, "A", proxy.Addr)
		a.does("OK", "SET", "other", "unguarded")
		a.fails("FENCEDOWN", "SET", "ctx:s", "lost")
		if status, page := proxy.Page("/readyz"); status != 503 || !strings.Contains(page, e.name) {
			t.Errorf("/readyz: %d %s", status, page)
		}
		e.start()
		e.ready(proxy)
		a.does("OK", "SET", "ctx:s", "v")
	})
}

// What is written unguarded makes stale what was read before.
func TestWhileTheLockProviderIsDownCommandsMayPass(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		e.also = "  on_provider_down: pass\n"
		proxy := e.proxy("proxy", append([]string{"mode: fence"}, keptHolds...)...)
		a, _ := connect(t, "A", proxy.Addr)
		b, _ := connect(t, "B", proxy.Addr)
		a.does("OK", "SET", key, "before")
		a.does("before", "GET", key)
		e.stop()
		proxy.WaitLog(t, "GUARDED COMMANDS GO THROUGH UNGUARDED")
		b.does("before", "GET", key)
		b.does("OK", "SET", key, "B's, unguarded")
		b.does("B's, unguarded", "GET", key)
		b.does("OK", "SET", key, "B's, unguarded again")
		b.does("B's, unguarded again", "GET", key) // which is known when the provider is back
		if n := proxy.Metric(`fence_proxy_unguarded_writes_total{rule="ctx"}`); n != 2 {
			t.Errorf("%v writes counted as unguarded", n)
		}

		e.start()
		e.ready(proxy)
		a.fails("FENCED", "SET", key, "A's, stale")
		wantValue(t, e.redis, key, "B's, unguarded again")
		a.does("B's, unguarded again", "GET", key)
		a.does("OK", "SET", key, "A's")
		b.fails("FENCED", "SET", key, "B's, stale")
		wantValue(t, e.redis, key, "A's")
	})
}

func TestHoldsEndWithTheAgentsHealth(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, start func(name string, also string) *harness.Proxy, server *harness.Redis) {
		t.Helper()
		const key = "ctx:s"
		var ill atomic.Bool
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if ill.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(agent.Close)
		proxyA := start("A's", fmt.Sprintf("  agent_health: {http: %q, interval: 100ms, failures: 2}\n", agent.URL))
		proxyB := start("B's", "")
		a, _ := connect(t, "A", proxyA.Addr)
		b, _ := connect(t, "B", proxyB.Addr)
		c, _ := connect(t, "C", proxyA.Addr)
		b.does("OK", "SET", key, "before")
		a.does("before", "GET", key)
		c.does("OK", "SET", "ctx:other", "v")
		ill.Store(true)
		b.does("before", "GET", key)
		a.fails("FENCED", "SET", key, "A's, stale")
		c.fails("FENCEDOWN", "SET", "ctx:other", "w")
		c.fails("FENCEDOWN", "GET", "ctx:other")
		c.fails("FENCEDOWN", "FENCE.ACQUIRE", "ctx:other")
		c.does("OK", "SET", "other", "unguarded")
		b.does("OK", "SET", key, "B's")
		if healthy := proxyA.Metric("fence_proxy_agent_healthy"); healthy != 0 {
			t.Errorf("fence_proxy_agent_healthy is %v", healthy)
		}
		ill.Store(false)
		harness.Eventually(t, 0, func() bool { return proxyA.Metric("fence_proxy_agent_healthy") == 1 }, "the agent is healthy")
		a.does("B's", "GET", key)
		a.does("OK", "SET", key, "A's")
		wantValue(t, server, key, "A's")
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := harness.StartRedis(t)
		test(t, func(name, also string) *harness.Proxy {
			return harness.StartProxy(t, harness.ProxyOptions{
				Name: name, Redis: server, Admin: true, ConfigYAML: "lock:\n  provider: redis\n" + also + guarding(keptHolds...),
			})
		}, server)
	})
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		test(t, func(name, also string) *harness.Proxy {
			e.also = also
			return e.proxy(name, keptHolds...)
		}, e.redis)
	})
}

// The way there and back. Those who have read before are refused, whichever proxy they use.
func TestALockProviderIsChangedWhileClientsAreServed(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		options := append([]string{"mode: fence"}, keptHolds...)
		configuration := func(locks string) string {
			path := filepath.Join(t.TempDir(), "migrate.yaml")
			text := fmt.Sprintf("upstream:\n  url: %q\n", e.redis.URL()) + locks + guarding(options...)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		migrate := func(status int, locks string, flags ...string) string {
			t.Helper()
			code, output := harness.RunProxy(t, append([]string{"migrate", "--config", configuration(locks)}, flags...)...)
			if code != status {
				t.Fatalf("migrate %v ends with %d: %s", flags, code, output)
			}
			return output
		}
		own := "lock:\n  provider: redis\n"
		old := harness.StartProxy(t, harness.ProxyOptions{Name: "old", Redis: e.redis, ConfigYAML: own + guarding(options...)})
		a, _ := connect(t, "A", old.Addr)
		a.does("OK", "SET", key, "before")
		a.does("before", "GET", key)
		next := e.proxy("new", options...)
		b, _ := connect(t, "B", next.Addr)
		if text := b.fails("FENCEDOWN", "SET", key, "B's, too early"); !strings.Contains(text, "fence-proxy migrate") {
			t.Errorf("it does not say how to go on: %s", text)
		}

		holder, _ := connect(t, "holder", old.Addr)
		holder.sends("FENCE.ACQUIRE", "ctx:held", "TTL", "1m")
		grant := fmt.Sprint(holder.reply())
		if output := migrate(0+75, e.locks(), "--dry-run"); !strings.Contains(output, "1 sessions to migrate to lock provider "+e.name+", 1 held") {
			t.Error(output)
		}
		a.does("before", "GET", key)
		if output := migrate(75, e.locks()); !strings.Contains(output, `session "ctx:held" (provider redis) is held by client`) {
			t.Error(output)
		}
		b.does("before", "GET", key)
		a.fails("FENCEDOWN", "SET", key, "A's, by the old proxy")
		b.does("OK", "SET", key, "B's")
		b.does("B's", "GET", key)
		holder.does("OK", "SET", "ctx:held", "by its holder")
		migrate(0, e.locks(), "--force")
		b.fails("FENCED", "FENCE.DO", grant, "SET", "ctx:held", "by its former grant")

		migrate(0, own)
		b.fails("FENCEDOWN", "SET", key, "B's, by the proxy that is old now")
		a.fails("FENCED", "SET", key, "A's, stale")
		holder.fails("FENCED", "SET", "ctx:held", "by its former grant")
		a.does("B's", "GET", key)
		a.does("OK", "SET", key, "A's")
		wantValue(t, e.redis, key, "A's")
		if output := migrate(0, own); !strings.Contains(output, "0 sessions migrated") {
			t.Error(output)
		}
	})
}
