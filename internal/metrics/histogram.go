package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Of native histograms: each bucket is a tenth wider than the one before, unless there would be too many.
const (
	nativeFactor  = 1.1
	nativeBuckets = 160
	nativeReset   = time.Hour // after which one with too many begins anew
)

// histogram is a histogram for Prometheus, native and classic at once, and for other readers.
type histogram struct {
	vec    *prometheus.HistogramVec
	others metric.Float64Histogram
	labels []string
}

// series is one of a histogram's series.
type series struct {
	prometheus prometheus.Observer
	others     metric.Float64Histogram
	with       []metric.RecordOption
}

// histogramOf makes a histogram of seconds. name is OpenTelemetry's.
func (m *Metrics) histogramOf(meter metric.Meter, name, help string, buckets []float64, labels ...string) (*histogram, error) {
	others, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, err
	}
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: prometheusName(name) + "_seconds", Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: nativeFactor, NativeHistogramMaxBucketNumber: nativeBuckets, NativeHistogramMinResetDuration: nativeReset,
	}, labels)
	if m.registry != nil {
		if err := m.registry.Register(vec); err != nil {
			return nil, err
		}
	}
	return &histogram{vec, others, labels}, nil
}

// of returns the series with these values of the labels; it is there from now on.
func (h *histogram) of(values ...string) series {
	set := make([]attribute.KeyValue, len(values))
	for i, v := range values {
		set[i] = attribute.String(h.labels[i], v)
	}
	return series{h.vec.WithLabelValues(values...), h.others, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(set...))}}
}

func (s *series) took(d time.Duration) {
	s.prometheus.Observe(d.Seconds())
	s.others.Record(context.Background(), d.Seconds(), s.with...)
}

// notHistograms has the exporter leave histograms out.
func notHistograms(kind sdk.InstrumentKind) sdk.Aggregation {
	if kind == sdk.InstrumentKindHistogram {
		return sdk.AggregationDrop{}
	}
	return sdk.DefaultAggregationSelector(kind)
}

// Buckets in seconds.
var (
	// of waits and holds: from a hand-over to a hold of minutes
	longBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 1.5, 2.5, 5, 10, 30, 60, 120, 300}
	// of round trips
	callBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	// of what the proxy adds to one
	shortBuckets = []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1}
)
