//go:build integration

package soak

import (
	"slices"
	"testing"
)

// flat are readings that go up and down.
func flat() (idle reading, after []reading) {
	idle = reading{goroutines: 9, descriptors: 12, spare: 2}
	for n := range 9 {
		r := idle
		r.heap, r.resident = int64(16*mega+n%3*100*kilo), int64(90*mega+n%4*mega)
		after = append(after, r)
	}
	return idle, after
}

func TestTheVerdictFindsWhatHasGrown(t *testing.T) {
	for want, leak := range map[string]func(r *reading, n int){
		"":                              func(*reading, int) {},
		"goroutines":                    func(r *reading, n int) { r.goroutines += n },
		"descriptors":                   func(r *reading, n int) { r.descriptors += n / 8 },
		"clients":                       func(r *reading, n int) { r.clients += n },
		"clients' connections to Redis": func(r *reading, n int) { r.own += n },
		"other connections to Redis":    func(r *reading, n int) { r.spare += 3 * n },
		"holds":                         func(r *reading, n int) { r.holds += n },
		"waiters":                       func(r *reading, n int) { r.waiting += n },
		"holds listed":                  func(r *reading, n int) { r.open += n },
		"queues listed":                 func(r *reading, n int) { r.queues += n },
		"fence records":                 func(r *reading, n int) { r.records += n },
		"heap by 700 KiB":               func(r *reading, n int) { r.heap = int64(16*mega + n/3*350*kilo) },
		"resident memory by 12288 KiB":  func(r *reading, n int) { r.resident = int64(90*mega + n/3*6*mega) },
	} {
		idle, after := flat()
		for n := range after {
			leak(&after[n], n)
		}
		var grown []string
		if want != "" {
			grown = append(grown, want)
		}
		if _, got := verdict(idle, after, after); !slices.Equal(got, grown) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// What was there before the first guest came, and was given back since, may be used again: the race detector's shadow of the heap, for one.
func TestTheVerdictKnowsWhatWasThereBefore(t *testing.T) {
	idle, after := flat()
	idle.resident = 600 * mega
	for n := range after {
		after[n].resident = int64(370*mega + n*20*mega)
	}
	if _, got := verdict(idle, after, after); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// What is used under load is no leak.
func TestTheVerdictLooksAtWhatStays(t *testing.T) {
	idle, after := flat()
	during := slices.Clone(after)
	for n := range during {
		during[n].goroutines, during[n].records = 100*n, 1000*n
	}
	if _, got := verdict(idle, during, after); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}
