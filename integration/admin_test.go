//go:build integration

package integration

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestHealthAndReadinessFollowTheProxysLife(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "drain: 30s\n" + guarding("max_hold: 2m")})
	page := func(path string) string {
		t.Helper()
		status, body := proxy.Page(path)
		return fmt.Sprint(status, " ", strings.TrimSpace(body))
	}
	if got := page("/healthz"); got != "200 ok" {
		t.Errorf("/healthz: %s", got)
	}
	if got := page("/readyz"); got != "200 ok" {
		t.Errorf("/readyz: %s", got)
	}
	server.Stop()
	if got := page("/readyz"); !strings.HasPrefix(got, "503 connect to the upstream: ") {
		t.Errorf("/readyz without Redis: %s", got)
	}
	if got := page("/healthz"); got != "200 ok" {
		t.Errorf("/healthz without Redis: %s", got)
	}
	server.Restart()
	client, _ := connect(t, "client", proxy.Addr)
	client.does(nil, "GET", "ctx:s") // it keeps the proxy from ending at once
	proxy.Terminate()
	harness.Eventually(t, 0, func() bool { return page("/readyz") == "503 draining" }, "/readyz says that the proxy drains")
	if got := page("/healthz"); got != "200 ok" {
		t.Errorf("/healthz while draining: %s", got)
	}
	client.does("OK", "SET", "ctx:s", "v")
	if code := proxy.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestAnAdminAddressThatIsTakenEndsTheStartWithARemedy(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, output := harness.RunProxy(t, "--listen", "127.0.0.1:0", "--upstream", server.URL(), "--admin", l.Addr().String())
	if want := `address already in use: give admin (FENCE_ADMIN, --admin) an address of its own, or "" to turn it off`; code != 1 || !strings.Contains(output, want) {
		t.Errorf("exit code %d, %s", code, output)
	}
}

// Case 19.
func TestAHoldThatIsRenewedUpToMaxHoldIsCountedWhenItIsRevoked(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, Admin: true, ConfigYAML: guarding("lease: 300ms", "max_hold: 1s", "idle: 10m"),
	})
	const broken = `fence_proxy_holds_broken_total{reason="max_hold",rule="ctx"}`
	session := recordOf(t, server, "ctx:s")
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", "ctx:s")
	if n := proxy.Metric(broken); n != 0 {
		t.Errorf("%v before anything was revoked", n)
	}
	for session.holder() != "" {
		a.does("PONG", "PING")
	}
	harness.Eventually(t, 0, func() bool { return proxy.Metric(broken) == 1 }, "the revoked hold is counted")
	a.fails("FENCED", "SET", "ctx:s", "stale")
	if n := proxy.Metric(`fence_proxy_refusals_total{error="FENCED",rule="ctx"}`); n != 1 {
		t.Errorf("%v refusals are counted, want 1", n)
	}
}

// Case 43.
func TestALostFenceRecordRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	const lost = `fence_proxy_records_lost_total{rule="ctx"}`
	for name, discover := range map[string]func(a, b *party){
		"by the next owner":     func(_, b *party) { b.does(nil, "GET", "ctx:s") },
		"by the holder's read":  func(a, _ *party) { a.fails("FENCED", "GET", "ctx:s") },
		"by the holder's write": func(a, _ *party) { a.fails("FENCED", "SET", "ctx:s", "v") },
	} {
		t.Run(name, func(t *testing.T) {
			empty(t, server)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: endless("1s")})
			session := recordOf(t, server, "ctx:s")
			a, _ := connect(t, "A", proxy.Addr)
			b, _ := connect(t, "B", proxy.Addr)
			a.does(nil, "GET", "ctx:s")
			if n := proxy.Metric(lost); n != 0 {
				t.Errorf("%v before anything is lost", n)
			}
			server.Client().Del(t.Context(), session.token)
			discover(a, b)
			if n := proxy.Metric(lost); n != 1 {
				t.Errorf("%v lost records are counted, want 1", n)
			}
		})
	}
}
