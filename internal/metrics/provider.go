package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

func (m *Metrics) providerInstruments(meter metric.Meter) (err error) {
	m.providerTime, err = m.histogramOf(meter, "fence_proxy.provider.call.duration",
		"How long calls to the lock provider took, by call; an acquire elsewhere waits in line as well.", callBuckets, "call")
	if err != nil {
		return err
	}
	m.providerUp, err = meter.Int64Gauge("fence_proxy.provider.up", metric.WithDescription("1 if the lock provider can be asked, 0 if not."))
	if err != nil {
		return err
	}
	m.agentHealthy, err = meter.Int64Gauge("fence_proxy.agent.healthy",
		metric.WithDescription("1 if the agent beside the proxy is healthy, 0 if not, and its holds are released."))
	return err
}

// Provider begins the counts of a lock provider's calls at 0.
func (m *Metrics) Provider(calls ...string) {
	for _, call := range calls {
		m.providerErrors.Add(context.Background(), 0, with("call", call))
		m.providerTime.of(call)
	}
}

// ProviderCalled counts a call to the lock provider.
func (m *Metrics) ProviderCalled(call string, took time.Duration, err error) {
	s := m.providerTime.of(call)
	s.took(took)
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
