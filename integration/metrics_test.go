//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// busy is a proxy that has been through most of what is counted.
func busy(t *testing.T) (*harness.Redis, *harness.Proxy) {
	t.Helper()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding("wait: 60s", "idle: 10m")})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	a.does(nil, "GET", "ctx:s")
	b.sends("GET", "ctx:s")
	harness.Eventually(t, 0, func() bool { return proxy.Metric(`fence_proxy_queue_length{rule="ctx"}`) == 1 }, "B is in line")
	if n := proxy.Metric(`fence_proxy_holds{rule="ctx"}`); n != 1 {
		t.Errorf("%v holds while A holds", n)
	}
	if age := proxy.Metric(`fence_proxy_hold_age_max_seconds{rule="ctx"}`); age <= 0 {
		t.Errorf("A holds for %v s", age)
	}
	a.does("OK", "SET", "ctx:s", "A's")
	b.hears("A's")
	b.does("OK", "SET", "ctx:s", "B's")
	return server, proxy
}

// Case 82.
func TestMetricsSayWhatHasHappened(t *testing.T) {
	_, proxy := busy(t)
	for series, want := range map[string]float64{
		`fence_proxy_acquisitions_total{outcome="granted",rule="ctx"}`:                1,
		`fence_proxy_acquisitions_total{outcome="waited",rule="ctx"}`:                 1,
		`fence_proxy_wait_duration_seconds_count{rule="ctx"}`:                         1,
		`fence_proxy_queue_length{rule="ctx"}`:                                        0,
		`fence_proxy_holds{rule="ctx"}`:                                               0,
		`fence_proxy_hold_age_max_seconds{rule="ctx"}`:                                0,
		`fence_proxy_hold_duration_seconds_count{rule="ctx"}`:                         2,
		`fence_proxy_holds_released_total{reason="commit",rule="ctx"}`:                2,
		`fence_proxy_operation_duration_seconds_count{operation="read",rule="ctx"}`:   2,
		`fence_proxy_operation_duration_seconds_count{operation="commit",rule="ctx"}`: 2,
		`fence_proxy_refusals_total{rule="ctx"}`:                                      0,
	} {
		harness.Eventually(t, 0, func() bool { return proxy.Metric(series) == want }, fmt.Sprintf("%s is %v", series, want))
	}
}

// Names that are documented are there, and those that are there are documented.
func TestDocumentedMetricsAreThereAndTheOthersToo(t *testing.T) {
	_, proxy := busy(t)
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(fence_proxy_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, match[1])
	}
	_, page := proxy.Page("/metrics")
	var there []string
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (fence_proxy_[a-z_]+) `).FindAllStringSubmatch(page, -1) {
		there = append(there, match[1])
	}
	for _, name := range there {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not documented", name)
		}
	}
	elsewhere := []string{ // what there is with other configurations only
		"fence_proxy_provider_up", "fence_proxy_agent_healthy", "fence_proxy_would_refuse_total", "fence_proxy_auto_reads_total", "fence_proxy_auto_kinds",
	}
	for _, name := range documented {
		if !slices.Contains(there, name) && !slices.Contains(elsewhere, name) {
			t.Errorf("%s is documented, and not there", name)
		}
	}
}

func TestPromtoolFindsNothingWrongWithTheMetrics(t *testing.T) {
	_, proxy := busy(t)
	_, page := proxy.Page("/metrics")
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(page)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBytesConnectionsAndBatchesOfUnguardedCommandsAreCounted(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding()})
	metric := func(series string) float64 { return proxy.Metric("fence_proxy_" + series) }
	counts := []string{
		`network_io_bytes_total{direction="receive",side="downstream"}`, `network_io_bytes_total{direction="transmit",side="downstream"}`,
		`pipeline_commands_count`, `pipeline_commands_sum`, `connections_accepted_total`,
	}
	before := map[string]float64{}
	for _, series := range counts {
		before[series] = metric(series)
	}
	client := harness.Dial(t, proxy.Addr)
	get := harness.Encode("GET", "k")
	client.Send(strings.Repeat(get, 16))
	for range 16 {
		client.ReadReply()
	}
	grown := map[string]float64{}
	for _, series := range counts {
		grown[series] = metric(series) - before[series]
	}
	for i, want := range []float64{float64(16 * len(get)), 16 * 5, 1, 16, 1} {
		if got := grown[counts[i]]; got != want {
			t.Errorf("%s has grown by %v, want %v", counts[i], got, want)
		}
	}
	if up := metric(`upstream_connections{kind="own"}`); up != 1 {
		t.Errorf("%v connections of clients' own", up)
	}
	for _, direction := range []string{"receive", "transmit"} {
		if n := metric(fmt.Sprintf(`network_io_bytes_total{direction=%q,side="upstream"}`, direction)); n <= 0 {
			t.Errorf("%s with Redis: %v bytes", direction, n)
		}
	}

	crowd := make([]*harness.RawConn, 20) // so many that they share
	for i := range crowd {
		crowd[i] = harness.Dial(t, proxy.Addr)
	}
	var all sync.WaitGroup
	for _, c := range crowd {
		all.Go(func() {
			for range 200 {
				c.Do("GET", "k")
			}
		})
	}
	all.Wait()
	if up := metric(`upstream_connections{kind="shared"}`); up < 1 {
		t.Errorf("%v shared connections", up)
	}
	if n := metric("added_latency_seconds_count"); n < 20 {
		t.Errorf("the latency of %v batches is known, of 4,000", n)
	}
	if sum, n := metric("added_latency_seconds_sum"), metric("added_latency_seconds_count"); sum <= 0 || sum/n > 1 {
		t.Errorf("%v s of latency in %v batches", sum, n)
	}
	own := metric(`upstream_connections{kind="own"}`) // the first of the crowd may have one, too
	client.Close()
	harness.Eventually(t, 0, func() bool { return metric(`upstream_connections{kind="own"}`) == own-1 }, "the client's own connection is gone")
	if n := metric(`upstream_connections_lost_total{kind="own"}`); n != 0 {
		t.Errorf("%v own connections were lost", n)
	}
	if got := string(harness.Dial(t, server.Addr).Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")); !strings.HasPrefix(got, ":") {
		t.Fatal(got)
	}
	crowd[0].Do("GET", "k")
	harness.Eventually(t, 0, func() bool { return metric(`upstream_connections_lost_total{kind="shared"}`) >= 1 }, "a shared connection was lost")
}

func TestScriptsThatRedisHasForgottenAreCounted(t *testing.T) {
	server, proxy := busy(t)
	if n := proxy.Metric("fence_proxy_script_reloads_total"); n != 0 {
		t.Errorf("%v reloads before there was a reason", n)
	}
	if got := string(harness.Dial(t, server.Addr).Do("SCRIPT", "FLUSH")); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c, _ := connect(t, "C", proxy.Addr)
	c.does("B's", "GET", "ctx:s")
	if n := proxy.Metric("fence_proxy_script_reloads_total"); n != 1 {
		t.Errorf("%v reloads", n)
	}
}
