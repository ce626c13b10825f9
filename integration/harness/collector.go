package harness

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logdata "go.opentelemetry.io/proto/otlp/logs/v1"
	metricdata "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracedata "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector receives OTLP, over gRPC and as protobuf over HTTP.
type Collector struct {
	GRPC string // URL
	HTTP string // URL

	traces.UnimplementedTraceServiceServer

	mu       sync.Mutex
	spans    []*tracedata.ResourceSpans
	metrics  []*metricdata.ResourceMetrics
	logs     []*logdata.ResourceLogs
	protocol map[string]int // requests by how they came
}

// Span is a span that a Collector has received.
type Span struct {
	*tracedata.Span
	Trace, ID, Parent string // in hex
	Proxy             string // the resource's fence.proxy
	Attributes        map[string]string
}

// StartCollector starts a Collector, which ends with the test.
func StartCollector(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{protocol: map[string]int{}}
	overGRPC, overHTTP := listen(tb), listen(tb)
	c.GRPC, c.HTTP = "http://"+overGRPC.Addr().String(), "http://"+overHTTP.Addr().String()
	g := grpc.NewServer()
	traces.RegisterTraceServiceServer(g, c)
	metrics.RegisterMetricsServiceServer(g, metricsService{c: c})
	logs.RegisterLogsServiceServer(g, logsService{c: c})
	h := &http.Server{Handler: c.handler()}
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(overGRPC) })
	served.Go(func() { _ = h.Serve(overHTTP) })
	tb.Cleanup(func() {
		g.Stop()
		_ = h.Close()
		served.Wait()
	})
	return c
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Export takes spans over gRPC.
func (c *Collector) Export(_ context.Context, r *traces.ExportTraceServiceRequest) (*traces.ExportTraceServiceResponse, error) {
	c.take("grpc", func() { c.spans = append(c.spans, r.GetResourceSpans()...) })
	return &traces.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metrics.UnimplementedMetricsServiceServer
	c *Collector
}

func (s metricsService) Export(_ context.Context, r *metrics.ExportMetricsServiceRequest) (*metrics.ExportMetricsServiceResponse, error) {
	s.c.take("grpc", func() { s.c.metrics = append(s.c.metrics, r.GetResourceMetrics()...) })
	return &metrics.ExportMetricsServiceResponse{}, nil
}

type logsService struct {
	logs.UnimplementedLogsServiceServer
	c *Collector
}

func (s logsService) Export(_ context.Context, r *logs.ExportLogsServiceRequest) (*logs.ExportLogsServiceResponse, error) {
	s.c.take("grpc", func() { s.c.logs = append(s.c.logs, r.GetResourceLogs()...) })
	return &logs.ExportLogsServiceResponse{}, nil
}

func (c *Collector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/traces", receive(func(r *traces.ExportTraceServiceRequest) {
		c.take("http", func() { c.spans = append(c.spans, r.GetResourceSpans()...) })
	}))
	mux.HandleFunc("/v1/metrics", receive(func(r *metrics.ExportMetricsServiceRequest) {
		c.take("http", func() { c.metrics = append(c.metrics, r.GetResourceMetrics()...) })
	}))
	mux.HandleFunc("/v1/logs", receive(func(r *logs.ExportLogsServiceRequest) {
		c.take("http", func() { c.logs = append(c.logs, r.GetResourceLogs()...) })
	}))
	return mux
}

// receive takes requests of a kind over HTTP. An empty answer means that all was taken.
func receive[T any, Request interface {
	*T
	proto.Message
}](take func(Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		request := Request(new(T))
		if err == nil {
			err = proto.Unmarshal(body, request)
		}
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		take(request)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

func (c *Collector) take(protocol string, in func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.protocol[protocol]++
	in()
}

// Requests is how many requests came over a protocol, "grpc" or "http".
func (c *Collector) Requests(protocol string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protocol[protocol]
}

// Spans are those received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Span
	for _, r := range c.spans {
		proxy := attributes(r.GetResource().GetAttributes())["fence.proxy"]
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				all = append(all, Span{
					Span: s, Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Proxy: proxy, Attributes: attributes(s.GetAttributes()),
				})
			}
		}
	}
	return all
}

// Span waits for a span that suits, and returns it. what says which, for when none comes.
func (c *Collector) Span(tb testing.TB, what string, suits func(Span) bool) (found Span) {
	tb.Helper()
	Eventually(tb, 0, func() bool {
		for _, s := range c.Spans() {
			if suits(s) {
				found = s
				return true
			}
		}
		return false
	}, "the collector has received "+what)
	return found
}

// Metrics are the names of the instruments received so far.
func (c *Collector) Metrics() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]bool{}
	for _, r := range c.metrics {
		for _, scope := range r.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				names[m.GetName()] = true
			}
		}
	}
	return names
}

// Record is a log record that a Collector has received.
type Record struct {
	Body       string
	Trace, ID  string // in hex
	Attributes map[string]string
}

// Logs are the records received so far.
func (c *Collector) Logs() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Record
	for _, r := range c.logs {
		for _, scope := range r.GetScopeLogs() {
			for _, l := range scope.GetLogRecords() {
				all = append(all, Record{text(l.GetBody()), hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId()), attributes(l.GetAttributes())})
			}
		}
	}
	return all
}

// Text is all that was received, to look for what must not be in it.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, r := range c.spans {
		b.WriteString(r.String())
	}
	for _, r := range c.metrics {
		b.WriteString(r.String())
	}
	for _, r := range c.logs {
		b.WriteString(r.String())
	}
	return b.String()
}

func attributes(all []*common.KeyValue) map[string]string {
	found := make(map[string]string, len(all))
	for _, a := range all {
		found[a.GetKey()] = text(a.GetValue())
	}
	return found
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	}
	return ""
}
