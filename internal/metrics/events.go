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

const reasonMissing = "missing"

// What became of a reload.
const (
	configSuccess = "success"
	configFailure = "failure"
)

// Connected counts a client that has come (1) or gone (-1).
func (m *Metrics) Connected(n int64) { m.connections.Add(context.Background(), n) }

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

// WaiterRefused counts a command that found too many waiting.
func (m *Metrics) WaiterRefused(rule string) {
	m.waitersRefused.Add(context.Background(), 1, with("rule", rule))
}

// Waited counts a command that waited for another owner.
func (m *Metrics) Waited(rule string) { m.waits.Add(context.Background(), 1, with("rule", rule)) }

// ClientPools counts a client that turned out to pool its connections.
func (m *Metrics) ClientPools(rule string) {
	m.clientsPool.Add(context.Background(), 1, with("rule", rule))
}

// Refused counts a guarded command refused with an error of this first word; rule is "" for a reserved
// key.
func (m *Metrics) Refused(rule, word string) {
	m.refusals.Add(context.Background(), 1, metric.WithAttributes(attribute.String("rule", rule), attribute.String("error", word)))
}

// WouldRefuse counts a write that was carried out though the fence would have refused it.
func (m *Metrics) WouldRefuse(rule string) {
	m.wouldRefuse.Add(context.Background(), 1, metric.WithAttributes(attribute.String("rule", rule)))
}

// HoldBroken counts a sequence that was broken in the middle.
func (m *Metrics) HoldBroken(rule, reason string) {
	m.holdsBroken.Add(context.Background(), 1, metric.WithAttributes(attribute.String("rule", rule), attribute.String("reason", reason)))
	if reason == reasonMissing {
		m.RecordLost(rule)
	}
}

// ConfigLoaded notes the configuration that the proxy begins with.
func (m *Metrics) ConfigLoaded() { m.configStands(true) }

// ConfigReloaded counts a configuration that was taken over, or could not be.
func (m *Metrics) ConfigReloaded(ok bool) {
	outcome := configFailure
	if ok {
		outcome = configSuccess
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

// RecordLost counts a fence record that is gone before its time.
func (m *Metrics) RecordLost(rule string) {
	m.recordsLost.Add(context.Background(), 1, with("rule", rule))
}
