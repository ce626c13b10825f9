package metrics

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The names of the calls to a lock provider.
var providerCalls = []string{"acquire", "renew", "release", "check"}

func (m *Metrics) providerInstruments(meter metric.Meter) (err error) {
	m.providerTime, err = meter.Float64Histogram("fence_proxy.provider_call", metric.WithUnit("s"),
		metric.WithDescription("How long calls to the lock provider took, by call; an acquire waits in line as well."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	m.providerUp, err = meter.Int64Gauge("fence_proxy.provider_up", metric.WithDescription("1 if the lock provider can be asked, 0 if not."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	m.agentHealthy, err = meter.Int64Gauge("fence_proxy.agent_healthy",
		metric.WithDescription("1 if the agent beside the proxy is healthy, 0 if not, and its holds are released."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	return nil
}

// Provider begins a lock provider's counts at 0.
func (m *Metrics) Provider() {
	for _, call := range providerCalls {
		m.providerErrors.Add(context.Background(), 0, with("call", call))
	}
}

// ProviderCalled counts a call to the lock provider.
func (m *Metrics) ProviderCalled(call string, took time.Duration, err error) {
	m.providerTime.Record(context.Background(), took.Seconds(), metric.WithAttributes(attribute.String("call", call)))
	if err != nil {
		m.providerErrors.Add(context.Background(), 1, with("call", call))
	}
}

// ProviderUp notes whether the lock provider can be asked.
func (m *Metrics) ProviderUp(up bool) { m.providerUp.Record(context.Background(), oneIf(up)) }

// AgentHealthy notes whether the agent beside the proxy is healthy.
func (m *Metrics) AgentHealthy(healthy bool) {
	m.agentHealthy.Record(context.Background(), oneIf(healthy))
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
