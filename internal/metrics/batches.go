package metrics

import (
	"math"
	"math/bits"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// batchSizes is how many sizes of batches are told apart: 1, 2, up to 4, up to 8 …, and those beyond 32,768 commands.
const batchSizes = 17

// Batches counts batches of commands by their size, in powers of two.
type Batches struct {
	Sizes    [batchSizes]uint64
	Commands uint64 // in all of them
}

// BatchSize is in which of Batches.Sizes a batch of n commands counts.
func BatchSize(n int) int { return min(bits.Len(uint(n-1)), batchSizes-1) }

// batchCollector shows batches as a histogram, native and classic at once: nobody has observed them one by one.
type batchCollector func() Batches

// Describe implements prometheus.Collector.
func (batchCollector) Describe(to chan<- *prometheus.Desc) { to <- batchDesc() }

// Collect implements prometheus.Collector.
func (ask batchCollector) Collect(to chan<- prometheus.Metric) { to <- batchMetric(ask()) }

func batchDesc() *prometheus.Desc {
	return prometheus.NewDesc("fence_proxy_pipeline_commands", "How many commands came at once from a client.", nil, nil)
}

type batchMetric Batches

// Desc implements prometheus.Metric.
func (batchMetric) Desc() *prometheus.Desc { return batchDesc() }

// Write implements prometheus.Metric.
func (b batchMetric) Write(to *dto.Metric) error {
	h := &dto.Histogram{
		SampleSum: proto.Float64(float64(b.Commands)),
		Schema:    proto.Int32(0), ZeroThreshold: proto.Float64(0), ZeroCount: proto.Uint64(0), // whose native buckets end at powers of two as well
		PositiveSpan: []*dto.BucketSpan{{Offset: proto.Int32(0), Length: proto.Uint32(batchSizes)}},
	}
	total, before := uint64(0), int64(0)
	for i, n := range b.Sizes {
		total += n
		if i < batchSizes-1 {
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(math.Exp2(float64(i))), CumulativeCount: proto.Uint64(total)})
		}
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		before = int64(n)
	}
	h.SampleCount = proto.Uint64(total)
	to.Histogram = h
	return nil
}
