package metrics

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// Sends has the metrics ask, whenever they are read, how much of what is sent to a collector was lost: sequences for which there was no
// room, and spans that did not arrive.
func (m *Metrics) Sends(lost func() (sequences, spans int64)) error {
	if m.provider == nil {
		return nil
	}
	meter := m.provider.Meter(scope)
	dropped, err := meter.Int64ObservableCounter("fence_proxy.telemetry.sequences_dropped",
		metric.WithDescription("Sequences of which no spans were made, since the collector does not keep up."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	failed, err := meter.Int64ObservableCounter("fence_proxy.telemetry.spans_failed",
		metric.WithDescription("Spans that the collector did not take."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		sequences, spans := lost()
		o.ObserveInt64(dropped, sequences)
		o.ObserveInt64(failed, spans)
		return nil
	}, dropped, failed)
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	return nil
}
