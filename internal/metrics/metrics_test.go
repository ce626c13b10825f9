package metrics

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
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

// told has the metrics hear of what has happened under rule chat, in mode lock.
func told(m *Metrics, events ...event.Event) {
	for i := range events {
		e := events[i]
		e.Rule, e.Mode = "chat", "lock"
		m.Event(&e)
	}
}

func readings() Readings {
	return Readings{
		Learned:  map[string]Learned{"chat": {Locked: 7, Looked: 8, Kinds: 5, Locking: 2}},
		Standing: []Standing{{Rule: "chat", Mode: "lock", Holds: 3, Oldest: 1.5}}, Limits: []Limit{{"chat", "lock", "max_hold", 120}},
		Downstream: Bytes{1, 2}, Upstream: Bytes{3, 4}, Own: Links{5, 6, 7}, Shared: Links{8, 9, 10}, ConnectErrors: 11, ScriptReloads: 12,
		Batches: Batches{Sizes: [batchSizes]uint64{4, 3, 2, 1}, Commands: 4 + 6 + 7 + 8},
	}
}

func TestSeriesHaveTheNamesThatAreDocumentedAndCount(t *testing.T) {
	m := made(t)
	if err := m.Reads(readings); err != nil {
		t.Fatal(err)
	}
	m.Rule("chat", "lock")
	m.Rule("seen", "observe")
	m.Provider("acquire", "renew")
	m.Connected(1)
	m.Connected(1)
	m.Connected(-1)
	m.ConnectionRefused()
	m.LoginRefused()
	m.RequestRefused("bulk")
	m.PipelineStopped()
	m.ClientDropped(DroppedOutputBuffer)
	m.ClientPools("chat", "lock")
	m.ProviderCalled("renew", time.Millisecond, errors.New("down"))
	m.LatencyAdded(30 * time.Microsecond)
	told(m,
		event.Event{Kind: event.Grant},
		event.Event{Kind: event.Grant, Reason: event.RecordLost},
		event.Event{Kind: event.Wait}, event.Event{Kind: event.Grant, Took: 20 * time.Millisecond},
		event.Event{Kind: event.Wait}, event.Event{Kind: event.Quit, Reason: event.Deadlock, Took: time.Second},
		event.Event{Kind: event.Wait},
		event.Event{Kind: event.Read, Took: time.Millisecond},
		event.Event{Kind: event.Commit, Took: time.Millisecond},
		event.Event{Kind: event.Commit, Took: time.Millisecond, Reason: event.Unguarded},
		event.Event{Kind: event.Refuse, Error: event.Locked, Reason: event.Deadlock},
		event.Event{Kind: event.Refuse, Error: event.Locked, Reason: event.Full},
		event.Event{Kind: event.Refuse, Error: event.Fenced, Reason: "superseded"},
		event.Event{Kind: event.Refuse, Reason: "superseded"}, // which the client hears of as a nil
		event.Event{Kind: event.Refuse, Error: event.Down},
		event.Event{Kind: event.Renew}, event.Event{Kind: event.Renew, Reason: event.Unasked},
		event.Event{Kind: event.Release, Reason: event.Committed, Took: time.Second},
		event.Event{Kind: event.Release, Reason: event.Released, Apart: true}, // of a hold that began elsewhere
		event.Event{Kind: event.Break, Reason: "max_hold", Took: time.Minute},
		event.Event{Kind: event.Break, Reason: "missing", Took: time.Minute},
	)
	m.Event(&event.Event{Kind: event.WouldRefuse, Rule: "seen", Mode: "observe", Reason: "changed"})
	m.Event(&event.Event{Kind: event.Refuse, Error: event.Denied})
	got := scrape(t, m)
	for series, want := range map[string]string{
		`fence_proxy_connections`:                                                                  "1",
		`fence_proxy_connections_accepted_total`:                                                   "2",
		`fence_proxy_connections_refused_total`:                                                    "1",
		`fence_proxy_logins_refused_total`:                                                         "1",
		`fence_proxy_requests_refused_total{limit="bulk"}`:                                         "1",
		`fence_proxy_requests_refused_total{limit="request"}`:                                      "0",
		`fence_proxy_pipeline_stops_total`:                                                         "1",
		`fence_proxy_clients_dropped_total{reason="output_buffer"}`:                                "1",
		`fence_proxy_clients_dropped_total{reason="output_timeout"}`:                               "0",
		`fence_proxy_clients_pooling_total{mode="lock",rule="chat"}`:                               "1",
		`fence_proxy_acquisitions_total{mode="lock",outcome="granted",rule="chat"}`:                "2",
		`fence_proxy_acquisitions_total{mode="lock",outcome="waited",rule="chat"}`:                 "1",
		`fence_proxy_acquisitions_total{mode="lock",outcome="deadlock",rule="chat"}`:               "1",
		`fence_proxy_acquisitions_total{mode="lock",outcome="full",rule="chat"}`:                   "1",
		`fence_proxy_acquisitions_total{mode="lock",outcome="timeout",rule="chat"}`:                "0",
		`fence_proxy_queue_length{mode="lock",rule="chat"}`:                                        "1",
		`fence_proxy_wait_duration_seconds_count{mode="lock",rule="chat"}`:                         "2",
		`fence_proxy_wait_duration_seconds_sum{mode="lock",rule="chat"}`:                           "1.02",
		`fence_proxy_wait_duration_seconds_bucket{mode="lock",rule="chat",le="0.025"}`:             "1",
		`fence_proxy_hold_duration_seconds_count{mode="lock",rule="chat"}`:                         "3",
		`fence_proxy_holds{mode="lock",rule="chat"}`:                                               "3",
		`fence_proxy_hold_age_max_seconds{mode="lock",rule="chat"}`:                                "1.5",
		`fence_proxy_holds_released_total{mode="lock",reason="commit",rule="chat"}`:                "1",
		`fence_proxy_holds_released_total{mode="lock",reason="idle",rule="chat"}`:                  "0",
		`fence_proxy_holds_broken_total{mode="lock",reason="max_hold",rule="chat"}`:                "1",
		`fence_proxy_holds_broken_total{mode="lock",reason="missing",rule="chat"}`:                 "1",
		`fence_proxy_renewals_total{mode="lock",outcome="success",rule="chat"}`:                    "1",
		`fence_proxy_renewals_total{mode="lock",outcome="failure",rule="chat"}`:                    "1",
		`fence_proxy_deadlocks_total{mode="lock",rule="chat"}`:                                     "1",
		`fence_proxy_operation_duration_seconds_count{mode="lock",operation="read",rule="chat"}`:   "1",
		`fence_proxy_operation_duration_seconds_count{mode="lock",operation="commit",rule="chat"}`: "2",
		`fence_proxy_refusals_total{error="LOCKED",mode="lock",reason="deadlock",rule="chat"}`:     "1",
		`fence_proxy_refusals_total{error="FENCED",mode="lock",reason="superseded",rule="chat"}`:   "2",
		`fence_proxy_refusals_total{error="FENCED",mode="lock",reason="changed",rule="chat"}`:      "0",
		`fence_proxy_refusals_total{error="FENCEDOWN",mode="lock",reason="",rule="chat"}`:          "1",
		`fence_proxy_refusals_total{error="FENCEDENIED",mode="",reason="",rule=""}`:                "1",
		`fence_proxy_would_refuse_total{mode="observe",reason="changed",rule="seen"}`:              "1",
		`fence_proxy_records_lost_total{mode="lock",rule="chat"}`:                                  "2",
		`fence_proxy_unguarded_writes_total{mode="lock",rule="chat"}`:                              "1",
		`fence_proxy_auto_reads_total{decision="lock",rule="chat"}`:                                "7",
		`fence_proxy_auto_reads_total{decision="look",rule="chat"}`:                                "8",
		`fence_proxy_auto_kinds{decision="lock",rule="chat"}`:                                      "2",
		`fence_proxy_auto_kinds{decision="look",rule="chat"}`:                                      "3",
		`fence_proxy_provider_call_duration_seconds_count{call="renew"}`:                           "1",
		`fence_proxy_provider_call_duration_seconds_count{call="acquire"}`:                         "0",
		`fence_proxy_provider_errors_total{call="renew"}`:                                          "1",
		`fence_proxy_rule_limit_seconds{limit="max_hold",mode="lock",rule="chat"}`:                 "120",
		`fence_proxy_network_io_bytes_total{direction="receive",side="downstream"}`:                "1",
		`fence_proxy_network_io_bytes_total{direction="transmit",side="downstream"}`:               "2",
		`fence_proxy_network_io_bytes_total{direction="receive",side="upstream"}`:                  "3",
		`fence_proxy_network_io_bytes_total{direction="transmit",side="upstream"}`:                 "4",
		`fence_proxy_upstream_connections{kind="own"}`:                                             "5",
		`fence_proxy_upstream_connections_opened_total{kind="own"}`:                                "6",
		`fence_proxy_upstream_connections_lost_total{kind="own"}`:                                  "7",
		`fence_proxy_upstream_connections{kind="shared"}`:                                          "8",
		`fence_proxy_upstream_connect_errors_total`:                                                "11",
		`fence_proxy_script_reloads_total`:                                                         "12",
		`fence_proxy_pipeline_commands_count`:                                                      "10",
		`fence_proxy_pipeline_commands_sum`:                                                        "25",
		`fence_proxy_pipeline_commands_bucket{le="1"}`:                                             "4",
		`fence_proxy_pipeline_commands_bucket{le="4"}`:                                             "9",
		`fence_proxy_pipeline_commands_bucket{le="+Inf"}`:                                          "10",
		`fence_proxy_added_latency_seconds_bucket{le="5e-05"}`:                                     "1",
		`fence_proxy_added_latency_seconds_bucket{le="2.5e-05"}`:                                   "0",
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
	if !strings.Contains(build, `version="v9"`) || !strings.Contains(build, `goversion="go`) || got[build] != "1" {
		t.Errorf("build info is %q %s", build, got[build])
	}
	for _, series := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes"} {
		if got[series] == "" {
			t.Errorf("%s is missing", series)
		}
	}
	for series := range got {
		if strings.Contains(series, "otel_") || strings.Contains(series, "_total_total") {
			t.Errorf("%s is not how it should look", series)
		}
	}
}

// families returns what Prometheus gets when it asks for protobuf, by name.
func families(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	all := map[string]*dto.MetricFamily{}
	in := expfmt.NewDecoder(w.Body, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := new(dto.MetricFamily)
		if err := in.Decode(f); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[f.GetName()] = f
	}
}

func TestHistogramsAreNativeAndClassicAtOnce(t *testing.T) {
	m := made(t)
	if err := m.Reads(readings); err != nil {
		t.Fatal(err)
	}
	told(m, event.Event{Kind: event.Wait}, event.Event{Kind: event.Grant, Took: 30 * time.Millisecond})
	m.ProviderCalled("renew", time.Millisecond, nil)
	m.LatencyAdded(time.Millisecond)
	histograms := 0
	for name, f := range families(t, m) {
		if f.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		histograms++
		for _, series := range f.GetMetric() {
			h := series.GetHistogram()
			if h.Schema == nil || len(h.GetPositiveSpan()) == 0 && h.GetSampleCount() > 0 || len(h.GetBucket()) < 10 {
				t.Errorf("%s is not both: schema %v, spans %v, %d buckets", name, h.Schema, h.GetPositiveSpan(), len(h.GetBucket()))
			}
		}
	}
	if histograms != 6 {
		t.Errorf("%d histograms", histograms)
	}
	wait := families(t, m)["fence_proxy_wait_duration_seconds"].GetMetric()[0].GetHistogram()
	if n := nativeCount(wait); n != 1 || wait.GetSampleCount() != 1 {
		t.Errorf("%d in native buckets, %d in all", n, wait.GetSampleCount())
	}
	sizes := families(t, m)["fence_proxy_pipeline_commands"].GetMetric()[0].GetHistogram()
	if n := nativeCount(sizes); n != 10 || sizes.GetSampleCount() != 10 {
		t.Errorf("%d in native buckets, %d in all", n, sizes.GetSampleCount())
	}
}

func nativeCount(h *dto.Histogram) (n int64) {
	at := int64(0)
	for _, d := range h.GetPositiveDelta() {
		at += d
		n += at
	}
	return n
}

func TestBatchesAreCountedByPowersOfTwo(t *testing.T) {
	for n, want := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 16: 4, 32768: 15, 32769: 16, 1 << 30: 16} {
		if got := BatchSize(n); got != want {
			t.Errorf("a batch of %d counts as %d, want %d", n, got, want)
		}
	}
}

// Other readers than Prometheus, OTLP's say, see OpenTelemetry's own instruments.
func TestAnotherReaderSeesTheSame(t *testing.T) {
	reader := sdk.NewManualReader()
	m, err := New("v9", sdk.WithReader(reader))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(t.Context()) }()
	told(m, event.Event{Kind: event.Grant}, event.Event{Kind: event.Read, Took: time.Millisecond})
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, i := range all.ScopeMetrics[0].Metrics {
		names[i.Name] = i.Unit
	}
	for name, unit := range map[string]string{"fence_proxy.acquisitions": "{acquisition}", "fence_proxy.operation.duration": "s"} {
		if got, ok := names[name]; !ok || got != unit {
			t.Errorf("%s has unit %q (%v): %v", name, got, ok, names)
		}
	}
}

// Case 81.
func TestSeriesDependOnRulesAlone(t *testing.T) {
	m := made(t)
	m.Rule("chat", "lock")
	kinds := []event.Kind{event.Wait, event.Quit, event.Grant, event.Read, event.Commit, event.Refuse, event.WouldRefuse, event.Break, event.Renew, event.Release}
	tell := func(i int) {
		id := strconv.Itoa(i)
		for _, kind := range kinds {
			told(m, event.Event{
				Kind: kind, Session: "session-" + id, Owner: event.Party{Client: id, Name: id, Owner: id}, Command: "GET" + id, Grant: uint64(i), DB: i,
				Took: time.Duration(i) * time.Microsecond, Error: event.Fenced, Reason: "reason-" + id, Other: event.Party{Proxy: id},
			})
		}
	}
	tell(0)
	before := len(scrape(t, m))
	for i := range 100_000 {
		tell(i)
	}
	if after := len(scrape(t, m)); after != before {
		t.Errorf("%d series after 100,000 sessions, %d before", after, before)
	}
}

func TestAnEventCostsNoMemory(t *testing.T) {
	m := made(t)
	m.Rule("chat", "lock")
	for _, e := range []event.Event{
		{Kind: event.Grant, Took: time.Millisecond},
		{Kind: event.Read, Took: time.Millisecond},
		{Kind: event.Commit, Took: time.Millisecond},
		{Kind: event.Release, Reason: event.Committed, Took: time.Millisecond},
	} {
		e.Rule, e.Mode = "chat", "lock"
		if n := testing.AllocsPerRun(1000, func() { m.Event(&e) }); n > 1 {
			t.Errorf("%s: %v allocations", e.Kind, n)
		}
	}
}

func BenchmarkACycleOfEvents(b *testing.B) {
	m, err := New("v9")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	var cycle []event.Event
	for _, kind := range []event.Kind{event.Grant, event.Read, event.Commit, event.Release} {
		cycle = append(cycle, event.Event{Kind: kind, Rule: "chat", Mode: "lock", Took: time.Millisecond})
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range cycle {
			m.Event(&cycle[i])
		}
	}
}

func TestMetricsThatCountNothingTakeEveryEvent(*testing.T) {
	m := None()
	m.Rule("chat", "lock")
	m.Connected(1)
	m.ConnectionRefused()
	m.RequestRefused("bulk")
	m.PipelineStopped()
	m.ClientDropped(DroppedNesting)
	m.LatencyAdded(time.Second)
	m.Event(&event.Event{Kind: event.Break, Rule: "chat", Reason: "missing"})
}
