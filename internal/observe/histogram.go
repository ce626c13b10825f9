package observe

import (
	"math/bits"
	"time"
)

// fine is how many buckets a doubling has: a quantile is at most an eighth too large.
const fine = 8

// histogram counts times, of a microsecond and more.
type histogram struct {
	counts []uint32 // by bucket; nil while empty
	total  int64
}

func bucket(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < fine {
		return int(us)
	}
	octave := bits.Len64(us) - bits.Len64(fine)
	return fine*octave + int(us>>octave)
}

// ceiling is the longest time in a bucket.
func ceiling(bucket int) time.Duration {
	if bucket < fine {
		return time.Duration(bucket) * time.Microsecond
	}
	octave := bucket/fine - 1
	return time.Duration(uint64(bucket-fine*octave+1)<<octave-1) * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	if h.counts == nil {
		h.counts = make([]uint32, bucket(1<<63-1)+1)
	}
	h.counts[bucket(d)]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	if h.counts == nil {
		*h = *other
		return
	}
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile is a time that q of all do not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := min(int64(q*float64(h.total)), h.total-1)
	for i, n := range h.counts {
		if rank -= int64(n); rank < 0 {
			return ceiling(i)
		}
	}
	return 0
}
