package metrics

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Metrics are the instruments of one proxy. They are safe for concurrent use.
type Metrics struct {
	connections         metric.Int64UpDownCounter
	connectionsAccepted metric.Int64Counter
	connectionsRefused  metric.Int64Counter
	loginsRefused       metric.Int64Counter
	requestsRefused     metric.Int64Counter
	pipelineStops       metric.Int64Counter
	clientsDropped      metric.Int64Counter
	clientsPooling      metric.Int64Counter
	latency             series
	configReloads       metric.Int64Counter
	configSuccessful    metric.Int64Gauge
	configSuccessTime   metric.Float64Gauge
	providerErrors      metric.Int64Counter
	providerTime        *histogram
	providerUp          metric.Int64Gauge
	agentHealthy        metric.Int64Gauge

	guard guard
	rules sync.Map // of *ruled by ruleMode

	registry *prometheus.Registry // nil: nothing is counted
	provider *sdk.MeterProvider
}

// New returns the metrics of a proxy of this version; the caller closes them. more are further readers of the same instruments, of
// OTLP say, and what they tell of the proxy.
func New(version string, more ...sdk.Option) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithAggregationSelector(notHistograms))
	if err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	options := []sdk.Option{sdk.WithReader(reader), sdk.WithCardinalityLimit(0)} // the rules bound it
	m.provider = sdk.NewMeterProvider(append(options, more...)...)
	if err := m.instruments(m.provider.Meter(scope), version); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	return m, nil
}

const scope = "fence-proxy"

// None returns metrics that count nothing.
func None() *Metrics {
	m := new(Metrics)
	_ = m.instruments(noop.NewMeterProvider().Meter(""), "") // it makes no mistakes
	return m
}

// instrument is a counter to be made.
type instrument struct {
	field            *metric.Int64Counter
	name, unit, help string
}

// counters makes counters, until one can't be made.
func counters(meter metric.Meter, err *error, all ...instrument) {
	for _, i := range all {
		if *err == nil {
			*i.field, *err = meter.Int64Counter("fence_proxy."+i.name, metric.WithUnit(i.unit), metric.WithDescription(i.help))
		}
	}
}

// instruments makes the instruments. Those without labels, or with a few known ones, begin at 0,
// so that a rate or an alert sees their first step.
func (m *Metrics) instruments(meter metric.Meter, version string) (err error) {
	counters(meter, &err,
		instrument{&m.connectionsAccepted, "connections.accepted", "{connection}", "Clients that have come."},
		instrument{&m.connectionsRefused, "connections.refused", "{connection}", "Clients turned away at limits.connections."},
		instrument{&m.loginsRefused, "logins.refused", "{login}", "Logins that were none of the proxy's users."},
		instrument{&m.requestsRefused, "requests.refused", "{request}", "Requests that ended their connection, by the limit they broke; protocol: they were no RESP."},
		instrument{&m.pipelineStops, "pipeline.stops", "{stop}", "How often no more was read from a client, at limits.pipeline."},
		instrument{&m.clientsDropped, "clients.dropped", "{client}", "Clients closed for the replies they were owed, by reason."},
		instrument{&m.clientsPooling, "clients.pooling", "{client}", "Clients that turned out to pool their connections, which are one owner since."},
		instrument{&m.configReloads, "config.reloads", "{reload}", "Configurations that were read again: success, or failure, when the one before stayed."},
		instrument{&m.providerErrors, "provider.errors", "{call}", "Calls to the lock provider that failed, by call."},
	)
	if err != nil {
		return err
	}
	m.begin()
	if err := m.guardInstruments(meter); err != nil {
		return err
	}
	if err := m.providerInstruments(meter); err != nil {
		return err
	}
	latency, err := m.histogramOf(meter, "fence_proxy.added_latency",
		"What the proxy adds to unguarded commands: from their last byte until they are sent to Redis, and from its last reply until they have it. Sampled.", shortBuckets)
	if err != nil {
		return err
	}
	m.latency = latency.of()
	if m.configSuccessful, err = meter.Int64Gauge("fence_proxy.config.last_reload_successful",
		metric.WithDescription("1 if the configuration counts as it was last read, 0 if one before it stayed.")); err != nil {
		return err
	}
	if m.configSuccessTime, err = meter.Float64Gauge("fence_proxy.config.last_reload_success_timestamp", metric.WithUnit("s"),
		metric.WithDescription("When the configuration that counts was read.")); err != nil {
		return err
	}
	if m.connections, err = meter.Int64UpDownCounter("fence_proxy.connections", metric.WithUnit("{connection}"), metric.WithDescription("Clients connected.")); err != nil {
		return err
	}
	m.connections.Add(context.Background(), 0)
	build, err := meter.Int64Gauge("fence_proxy.build_info", metric.WithDescription("1, with what was built."))
	if err != nil {
		return err
	}
	build.Record(context.Background(), 1, metric.WithAttributes(attribute.String("version", version), attribute.String("goversion", runtime.Version())))
	return nil
}

func (m *Metrics) begin() {
	ctx := context.Background()
	for _, c := range []metric.Int64Counter{m.connectionsAccepted, m.connectionsRefused, m.loginsRefused, m.pipelineStops} {
		c.Add(ctx, 0)
	}
	for _, by := range []struct {
		counter metric.Int64Counter
		label   string
		values  []string
	}{
		{m.requestsRefused, "limit", []string{"request", "bulk", "arguments", "inline", "nesting", "protocol"}},
		{m.clientsDropped, "reason", []string{DroppedOutputBuffer, DroppedOutputTimeout, DroppedNesting}},
		{m.configReloads, "outcome", []string{success, failure}},
	} {
		for _, value := range by.values {
			by.counter.Add(ctx, 0, with(by.label, value))
		}
	}
}

// Handler serves the metrics in Prometheus' formats, or OpenMetrics where asked for it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Close ends the metrics.
func (m *Metrics) Close(ctx context.Context) error {
	if m.provider == nil {
		return nil
	}
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close the metrics: %w", err)
	}
	return nil
}

func with(label, value string) metric.AddOption {
	return metric.WithAttributes(attribute.String(label, value))
}

// prometheusName is how the exporter says the name of an instrument.
func prometheusName(name string) string { return strings.ReplaceAll(name, ".", "_") }
