package metrics

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Learned is what mode auto has decided under one rule, and what it knows.
type Learned struct {
	Locked, Looked int64 // reads
	Kinds, Locking int64 // kinds of reads that are known, and those of them that lock
}

// Learns has the metrics ask for what mode auto has learnt, by rule, whenever they are read. What ask returns
// must never count backwards.
func (m *Metrics) Learns(ask func() map[string]Learned) error {
	meter := m.provider.Meter("fence-proxy")
	reads, err := meter.Int64ObservableCounter("fence_proxy.auto_reads",
		metric.WithDescription("Reads in mode auto, by what was decided for them: lock, look."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	kinds, err := meter.Int64ObservableGauge("fence_proxy.auto_kinds",
		metric.WithDescription("Kinds of reads that mode auto knows, by what it would decide for them: lock, look."))
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for rule, l := range ask() {
			with := func(decision string) metric.ObserveOption {
				return metric.WithAttributes(attribute.String("rule", rule), attribute.String("decision", decision))
			}
			o.ObserveInt64(reads, l.Locked, with("lock"))
			o.ObserveInt64(reads, l.Looked, with("look"))
			o.ObserveInt64(kinds, l.Locking, with("lock"))
			o.ObserveInt64(kinds, l.Kinds-l.Locking, with("look"))
		}
		return nil
	}, reads, kinds)
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	return nil
}
