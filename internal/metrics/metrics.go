package metrics

import (
	"context"
	"fmt"
	"net/http"
	"runtime"

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
	connections        metric.Int64UpDownCounter
	connectionsRefused metric.Int64Counter
	requestsRefused    metric.Int64Counter
	pipelineStops      metric.Int64Counter
	clientsDropped     metric.Int64Counter
	waitersRefused     metric.Int64Counter
	refusals           metric.Int64Counter
	wouldRefuse        metric.Int64Counter
	holdsBroken        metric.Int64Counter
	recordsLost        metric.Int64Counter
	configReloads      metric.Int64Counter
	configSuccessful   metric.Int64Gauge
	configSuccessTime  metric.Float64Gauge
	waits              metric.Int64Counter
	clientsPool        metric.Int64Counter
	unguarded          metric.Int64Counter
	providerErrors     metric.Int64Counter
	providerTime       metric.Float64Histogram
	providerUp         metric.Int64Gauge
	agentHealthy       metric.Int64Gauge

	registry *prometheus.Registry
	provider *sdk.MeterProvider
}

// New returns the metrics of a proxy of this version; the caller closes them.
func New(version string) (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	m.provider = sdk.NewMeterProvider(sdk.WithReader(reader))
	if err := m.instruments(m.provider.Meter("fence-proxy"), version); err != nil {
		return nil, fmt.Errorf("make the metrics: %w", err)
	}
	return m, nil
}

// None returns metrics that count nothing.
func None() *Metrics {
	m := new(Metrics)
	_ = m.instruments(noop.NewMeterProvider().Meter(""), "") // it makes no mistakes
	return m
}

// instruments makes the instruments. Those without labels, or with a few known ones, begin at 0,
// so that a rate or an alert sees their first step.
func (m *Metrics) instruments(meter metric.Meter, version string) (err error) {
	counter := func(field *metric.Int64Counter, name, help string, label string, values ...string) {
		if err != nil {
			return
		}
		if *field, err = meter.Int64Counter("fence_proxy."+name, metric.WithDescription(help)); err != nil {
			return
		}
		for _, v := range values {
			(*field).Add(context.Background(), 0, with(label, v))
		}
		if label == "" {
			(*field).Add(context.Background(), 0)
		}
	}
	counter(&m.connectionsRefused, "connections_refused", "Clients turned away at limits.connections.", "")
	counter(&m.requestsRefused, "requests_refused", "Requests that ended their connection, by the limit they broke; protocol: they were no RESP.",
		"limit", "request", "bulk", "arguments", "inline", "nesting", "protocol")
	counter(&m.pipelineStops, "pipeline_stops", "How often no more was read from a client, at limits.pipeline.", "")
	counter(&m.clientsDropped, "clients_dropped", "Clients closed for the replies they were owed, by reason.",
		"reason", DroppedOutputBuffer, DroppedOutputTimeout, DroppedNesting)
	counter(&m.waitersRefused, "waiters_refused", "Commands refused at limits.waiters.", "rule")
	counter(&m.refusals, "refusals", "Guarded commands refused, by the first word of the error.", "rule")
	counter(&m.wouldRefuse, "would_refuse", "Writes under a rule that observes which would have been refused: each loses an update.", "rule")
	counter(&m.holdsBroken, "holds_broken", "Sequences broken in the middle, by reason.", "rule")
	counter(&m.recordsLost, "records_lost", "Fence records found missing while a hold depended on them: is the store evicting?", "rule")
	counter(&m.configReloads, "config_reloads", "Configurations that were read again: success, or failure, when the one before stayed.",
		"outcome", configSuccess, configFailure)
	counter(&m.waits, "waits", "Guarded commands that waited for another owner.", "rule")
	counter(&m.clientsPool, "clients_pool", "Clients that turned out to pool their connections, which are one owner since.", "rule")
	counter(&m.unguarded, "unguarded", "Guarded writes that went through unguarded, since the lock provider could not be asked.", "rule")
	counter(&m.providerErrors, "provider_errors", "Calls to the lock provider that failed, by call.", "call")
	if err != nil {
		return err
	}
	if err := m.providerInstruments(meter); err != nil {
		return err
	}
	if m.configSuccessful, err = meter.Int64Gauge("fence_proxy.config_last_reload_successful",
		metric.WithDescription("1 if the configuration counts as it was last read, 0 if one before it stayed.")); err != nil {
		return err
	}
	if m.configSuccessTime, err = meter.Float64Gauge("fence_proxy.config_last_reload_success_timestamp", metric.WithUnit("s"),
		metric.WithDescription("When the configuration that counts was read.")); err != nil {
		return err
	}
	if m.connections, err = meter.Int64UpDownCounter("fence_proxy.connections", metric.WithDescription("Clients connected.")); err != nil {
		return err
	}
	m.connections.Add(context.Background(), 0)
	build, err := meter.Int64Gauge("fence_proxy.build_info", metric.WithDescription("1, with what was built."))
	if err != nil {
		return err
	}
	build.Record(context.Background(), 1, metric.WithAttributes(attribute.String("version", version), attribute.String("go", runtime.Version())))
	return nil
}

// Rule begins a rule's counts at 0.
func (m *Metrics) Rule(name string) {
	ctx, rule := context.Background(), attribute.String("rule", name)
	m.waitersRefused.Add(ctx, 0, metric.WithAttributes(rule))
	m.recordsLost.Add(ctx, 0, metric.WithAttributes(rule))
	m.wouldRefuse.Add(ctx, 0, metric.WithAttributes(rule))
	m.waits.Add(ctx, 0, metric.WithAttributes(rule))
	m.clientsPool.Add(ctx, 0, metric.WithAttributes(rule))
	m.unguarded.Add(ctx, 0, metric.WithAttributes(rule))
	for _, word := range []string{"FENCED", "LOCKED", "FENCEDOWN", "FENCEUNKNOWN", "FENCEDENIED"} {
		m.refusals.Add(ctx, 0, metric.WithAttributes(rule, attribute.String("error", word)))
	}
	for _, reason := range []string{"max_hold", reasonMissing, "superseded"} {
		m.holdsBroken.Add(ctx, 0, metric.WithAttributes(rule, attribute.String("reason", reason)))
	}
}

// Handler serves the metrics in Prometheus' text format, or OpenMetrics where asked for it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}

// Close ends the metrics.
func (m *Metrics) Close(ctx context.Context) error {
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("close the metrics: %w", err)
	}
	return nil
}

func with(label, value string) metric.AddOption {
	return metric.WithAttributes(attribute.String(label, value))
}
