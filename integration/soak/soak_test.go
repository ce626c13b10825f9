//go:build integration

package soak

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var duration = flag.Duration("duration", 20*time.Second, "how long the load lasts, in `time`")

// Short times let holds end in every way within a spell.
const rules = `rules:
  - name: ctx
    prefix: "ctx:"
    owner: connection
    wait: 300ms
    idle: 300ms
    lease: 3s
    max_hold: 5s
    record_ttl: 20s
`

const (
	guests = 24 // at any time: enough that they share connections to Redis
	mega   = 1 << 20
	margin = mega / 2
)

// spellLength makes a dozen spells of a short soak, and no spell longer than is good for a trend.
func spellLength() time.Duration { return min(*duration/12, 15*time.Second) }

func TestHeapAndGoroutinesStayFlatUnderMixedLoad(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := startSubject(t, server, rules)
	h := &house{addr: proxy.addr}
	counts := make([]atomic.Int64, len(visits))
	fill(t, proxy.addr)
	idle := look(t, proxy)
	t.Logf("idle: %d goroutines, heap %.2f MB, resident %.1f MB", idle.goroutines, mb(idle.heap), mb(idle.resident))
	t.Log("    time   visits  commands   under load: goroutines  heap MB   after: goroutines  heap MB  resident MB")

	var heaps []int64 // after each spell but the first
	for start, warm := time.Now(), false; time.Since(start) < *duration; warm = true {
		during := spell(t, h, proxy, counts)
		after := calm(t, proxy, idle)
		t.Logf("%8s %8d %9d %23d %8.2f %19d %8.2f %12.1f", time.Since(start).Round(100*time.Millisecond), sum(counts), h.commands.Load(),
			during.goroutines, mb(during.heap), after.goroutines, mb(after.heap), mb(after.resident))
		if warm {
			heaps = append(heaps, after.heap)
		}
	}

	for i, v := range visits {
		if counts[i].Load() == 0 {
			t.Errorf("nobody came for: %s", v.name)
		}
	}
	third := len(heaps) / 3
	if third == 0 {
		t.Fatalf("%d spells are too few", len(heaps))
	}
	first, last := median(heaps[:third]), median(heaps[len(heaps)-third:])
	t.Logf("heap: median of the first third %.2f MB, of the last %.2f MB", mb(first), mb(last))
	if last-first > margin {
		t.Errorf("the heap has grown by %d KiB, more than %d", (last-first)>>10, margin>>10)
	}
}

// spell lets guests come and go for a while and returns a reading from the midst of it. When it returns,
// all have left.
func spell(t *testing.T, h *house, proxy *subject, counts []atomic.Int64) reading {
	t.Helper()
	h.leaving.Store(false)
	var seats sync.WaitGroup
	for range guests {
		seats.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			for !h.leaving.Load() {
				i := r.IntN(len(visits))
				if err := visits[i].perform(h, r); err != nil {
					t.Error(err)
					return
				}
				counts[i].Add(1)
			}
		})
	}
	time.Sleep(spellLength() / 2)
	during := look(t, proxy)
	time.Sleep(spellLength() / 2)
	h.leaving.Store(true)
	seats.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return during
}

// calm waits until the goroutines of the guests have gone.
func calm(t *testing.T, proxy *subject, idle reading) (after reading) {
	t.Helper()
	var seen []string
	defer func() {
		if t.Failed() {
			t.Logf("goroutines were %s; idle: %d", strings.Join(seen, ", "), idle.goroutines)
		}
	}()
	harness.Eventually(t, time.Minute, func() bool {
		after = look(t, proxy)
		if now := fmt.Sprint(after.goroutines); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		return after.goroutines <= idle.goroutines
	}, "the goroutines go back to those of the idle proxy")
	return after
}

func look(t *testing.T, proxy *subject) reading {
	t.Helper()
	r, err := proxy.read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func sum(counts []atomic.Int64) (n int64) {
	for i := range counts {
		n += counts[i].Load()
	}
	return n
}

func mb(bytes int64) float64 { return float64(bytes) / mega }
