package telemetry

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// delivery sends spans until it is broken off, and counts those that did not arrive.
type delivery struct {
	sdktrace.SpanExporter
	broken   context.Context // ends when it is broken off
	breakOff context.CancelFunc
	failed   atomic.Int64
}

func newDelivery(by sdktrace.SpanExporter) *delivery {
	d := &delivery{SpanExporter: by}
	d.broken, d.breakOff = context.WithCancel(context.Background()) //nolint:gosec // Telemetry.Close calls it, if it has to
	return d
}

// ExportSpans implements sdktrace.SpanExporter.
func (d *delivery) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.broken, cancel)()
	err := d.broken.Err()
	if err == nil {
		err = d.SpanExporter.ExportSpans(ctx, spans)
	}
	if err != nil {
		d.failed.Add(int64(len(spans)))
	}
	return err
}
