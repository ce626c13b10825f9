package metrics

import (
	"bufio"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns the series as Prometheus reads them, by name and labels.
func scrape(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		body, _ := io.ReadAll(w.Body)
		t.Fatalf("status %d: %s", w.Code, body)
	}
	series := map[string]string{}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			series[line[:at]] = line[at+1:]
		}
	}
	return series
}

func made(t *testing.T) *Metrics {
	t.Helper()
	m, err := New("v9")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return m
}

func TestSeriesHaveTheNamesThatAreDocumentedAndCount(t *testing.T) {
	m := made(t)
	if err := m.Learns(func() map[string]Learned {
		return map[string]Learned{"chat": {Locked: 7, Looked: 8, Kinds: 5, Locking: 2}}
	}); err != nil {
		t.Fatal(err)
	}
	m.Rule("chat")
	m.Connected(1)
	m.Connected(1)
	m.Connected(-1)
	m.ConnectionRefused()
	m.RequestRefused("bulk")
	m.PipelineStopped()
	m.ClientDropped(DroppedOutputBuffer)
	m.Event(&event.Event{Kind: event.Refuse, Rule: "chat", Error: event.Locked, Reason: event.Full})
	m.Event(&event.Event{Kind: event.Break, Rule: "chat", Reason: "max_hold"})
	m.Event(&event.Event{Kind: event.Break, Rule: "chat", Reason: "missing"})
	got := scrape(t, m)
	for series, want := range map[string]string{
		`fence_proxy_connections`:                                       "1",
		`fence_proxy_connections_refused_total`:                         "1",
		`fence_proxy_requests_refused_total{limit="bulk"}`:              "1",
		`fence_proxy_requests_refused_total{limit="request"}`:           "0",
		`fence_proxy_pipeline_stops_total`:                              "1",
		`fence_proxy_clients_dropped_total{reason="output_buffer"}`:     "1",
		`fence_proxy_clients_dropped_total{reason="output_timeout"}`:    "0",
		`fence_proxy_waiters_refused_total{rule="chat"}`:                "1",
		`fence_proxy_refusals_total{error="LOCKED",rule="chat"}`:        "1",
		`fence_proxy_refusals_total{error="FENCED",rule="chat"}`:        "0",
		`fence_proxy_holds_broken_total{reason="max_hold",rule="chat"}`: "1",
		`fence_proxy_holds_broken_total{reason="missing",rule="chat"}`:  "1",
		`fence_proxy_records_lost_total{rule="chat"}`:                   "1",
		`fence_proxy_auto_reads_total{decision="lock",rule="chat"}`:     "7",
		`fence_proxy_auto_reads_total{decision="look",rule="chat"}`:     "8",
		`fence_proxy_auto_kinds{decision="lock",rule="chat"}`:           "2",
		`fence_proxy_auto_kinds{decision="look",rule="chat"}`:           "3",
	} {
		if got[series] != want {
			t.Errorf("%s is %q, want %s", series, got[series], want)
		}
	}
	build := ""
	for series := range got {
		if strings.HasPrefix(series, "fence_proxy_build_info{") {
			build = series
		}
	}
	if !strings.Contains(build, `version="v9"`) || got[build] != "1" {
		t.Errorf("build info is %q %s", build, got[build])
	}
	for _, series := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes"} {
		if got[series] == "" {
			t.Errorf("%s is missing", series)
		}
	}
	for series := range got {
		if strings.Contains(series, "otel_scope") || strings.Contains(series, "_total_total") {
			t.Errorf("%s is not how it should look", series)
		}
	}
}

func TestMetricsThatCountNothingTakeEveryEvent(*testing.T) {
	m := None()
	m.Rule("chat")
	m.Connected(1)
	m.ConnectionRefused()
	m.RequestRefused("bulk")
	m.PipelineStopped()
	m.ClientDropped(DroppedNesting)
	m.Event(&event.Event{Kind: event.Break, Rule: "chat", Reason: "missing"})
}
