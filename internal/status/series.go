package status

import (
	"math"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

const (
	interval  = 10 * time.Second
	intervals = 360 // an hour of them
)

// times is a histogram of times: each bucket reaches 1.4 times as far as the one before.
type times struct {
	buckets [bucketCount]uint32
	longest time.Duration
}

const (
	bucketCount  = 45
	firstBucket  = 50 * time.Microsecond
	bucketFactor = 1.4
)

var logFactor = math.Log(bucketFactor)

func (t *times) add(d time.Duration) {
	i := 0
	if d > firstBucket {
		i = min(int(math.Log(float64(d)/float64(firstBucket))/logFactor)+1, bucketCount-1)
	}
	t.buckets[i]++
	t.longest = max(t.longest, d)
}

func (t *times) merge(o *times) {
	for i, n := range o.buckets {
		t.buckets[i] += n
	}
	t.longest = max(t.longest, o.longest)
}

func (t *times) count() (n int) {
	for _, in := range t.buckets {
		n += int(in)
	}
	return n
}

// quantile returns the time that a share of all stay within, 0 if there are none.
func (t *times) quantile(share float64) time.Duration {
	total := t.count()
	if total == 0 {
		return 0
	}
	rank, below := share*float64(total), 0.0
	for i, n := range t.buckets {
		if i == bucketCount-1 {
			break // it has no end
		}
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		high := float64(firstBucket) * math.Pow(bucketFactor, float64(i))
		low := high / bucketFactor
		if i == 0 {
			low = 0
		}
		return min(time.Duration(low+(high-low)*(rank-below)/float64(n)), t.longest)
	}
	return t.longest
}

// figures are what is counted in one interval.
type figures struct {
	start    int64 // of the interval, as a number of intervals since 1970
	grants   uint32
	commits  uint32
	locked   uint32 // refusals of who waited in vain
	fenced   uint32 // refusals for any other reason
	observed uint32 // would have been refused
	breaks   uint32
	waits    times
	holds    times
	somewhat bool // something was counted
}

func (f *figures) merge(o *figures) {
	f.grants += o.grants
	f.commits += o.commits
	f.locked += o.locked
	f.fenced += o.fenced
	f.observed += o.observed
	f.breaks += o.breaks
	f.waits.merge(&o.waits)
	f.holds.merge(&o.holds)
}

// tally is a shard's share of the interval that runs. Its methods are called with the shard's lock.
type tally struct {
	now figures
}

// at puts the tally into the interval of a time: what an earlier one has counted goes to the series.
func (t *tally) at(now time.Time, into *series) {
	start := now.UnixNano() / int64(interval)
	if t.now.somewhat && t.now.start != start {
		t.flush(into)
	}
	t.now.start, t.now.somewhat = start, true
}

func (t *tally) flush(into *series) {
	if t.now.somewhat {
		into.add(&t.now)
		t.now = figures{}
	}
}

func (t *tally) waited(d time.Duration) { t.now.waits.add(d) }
func (t *tally) held(d time.Duration)   { t.now.holds.add(d) }

func (t *tally) refused(e *event.Event) {
	switch {
	case e.Kind == event.WouldRefuse:
		t.now.observed++
	case e.Error == event.Locked:
		t.now.locked++
	default:
		t.now.fenced++
	}
}

// series is the last hour.
type series struct {
	mu    sync.Mutex
	slots [intervals]figures
}

// add adds what a shard has counted in one interval.
func (s *series) add(f *figures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := &s.slots[f.start%intervals]
	switch {
	case slot.start < f.start:
		*slot = *f
	case slot.start == f.start:
		slot.merge(f)
	}
}

// last returns the figures of the last intervals up to now, oldest first, each of so many joined.
func (s *series) last(now time.Time, n, join int) []figures {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := now.UnixNano()/int64(interval) + 1
	end += (int64(join) - end%int64(join)) % int64(join) // so that an interval always has the same neighbours
	all := make([]figures, 0, n/join)
	for start := end - int64(n); start < end; start += int64(join) {
		f := figures{start: start}
		for i := start; i < start+int64(join); i++ {
			if slot := &s.slots[i%intervals]; slot.start == i {
				f.merge(slot)
			}
		}
		all = append(all, f)
	}
	return all
}
