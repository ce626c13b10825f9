package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Why a client was dropped.
const (
	DroppedOutputBuffer  = "output_buffer"  // it was owed more replies than are kept
	DroppedOutputTimeout = "output_timeout" // it took none of the replies that waited for it
	DroppedNesting       = "nesting"        // it was owed a reply that is nested too deep
)

// Connected counts a client that has come (1) or gone (-1).
func (m *Metrics) Connected(n int64) {
	m.connections.Add(context.Background(), n)
	if n > 0 {
		m.connectionsAccepted.Add(context.Background(), n)
	}
}

// LoginRefused counts a client whose name or password is not among the proxy's users.
func (m *Metrics) LoginRefused() { m.loginsRefused.Add(context.Background(), 1) }

// ConnectionRefused counts a client beyond limits.connections.
func (m *Metrics) ConnectionRefused() { m.connectionsRefused.Add(context.Background(), 1) }

// RequestRefused counts a request that broke a limit of what is read; "protocol" stands for all else that
// is no request.
func (m *Metrics) RequestRefused(limit string) {
	m.requestsRefused.Add(context.Background(), 1, with("limit", limit))
}

// PipelineStopped counts that no more is read from a client for a while.
func (m *Metrics) PipelineStopped() { m.pipelineStops.Add(context.Background(), 1) }

// ClientDropped counts a client closed for what it was owed.
func (m *Metrics) ClientDropped(reason string) {
	m.clientsDropped.Add(context.Background(), 1, with("reason", reason))
}

// ClientPools counts a client that turned out to pool its connections.
func (m *Metrics) ClientPools(rule, mode string) {
	m.clientsPooling.Add(context.Background(), 1, metric.WithAttributes(attribute.String("rule", rule), attribute.String("mode", mode)))
}

// LatencyAdded takes in how long the proxy has kept a batch of commands and its replies.
func (m *Metrics) LatencyAdded(d time.Duration) { m.latency.took(d) }

// ConfigLoaded notes the configuration that the proxy begins with.
func (m *Metrics) ConfigLoaded() { m.configStands(true) }

// ConfigReloaded counts a configuration that was taken over, or could not be.
func (m *Metrics) ConfigReloaded(ok bool) {
	outcome := failure
	if ok {
		outcome = success
	}
	m.configReloads.Add(context.Background(), 1, with("outcome", outcome))
	m.configStands(ok)
}

func (m *Metrics) configStands(ok bool) {
	ctx := context.Background()
	if ok {
		m.configSuccessTime.Record(ctx, float64(time.Now().UnixMilli())/1000)
	}
	m.configSuccessful.Record(ctx, oneIf(ok))
}
