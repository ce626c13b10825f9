//go:build integration

package soak

import (
	"fmt"
	"slices"
	"strings"
)

// level is what has to go back to that of the idle proxy when everybody has left.
type level struct {
	name string
	of   func(r reading) int
	more int // so many more may stay
}

// pool is how many connections the proxy keeps for itself, once it has needed them, and for clients that share some.
const pool = 16

var levels = []level{
	{"goroutines", func(r reading) int { return r.goroutines }, 0},
	{"descriptors", func(r reading) int { return r.descriptors }, 0},
	{"clients", func(r reading) int { return r.clients }, 0},
	{"clients' connections to Redis", func(r reading) int { return r.own }, 0},
	{"other connections to Redis", func(r reading) int { return r.spare }, pool},
	{"holds", func(r reading) int { return r.holds }, 0},
	{"waiters", func(r reading) int { return r.waiting }, 0},
	{"holds listed", func(r reading) int { return r.open }, 0},
	{"queues listed", func(r reading) int { return r.queues }, 0},
	{"fence records", func(r reading) int { return r.records }, 0},
}

// above are the levels that have not gone back.
func above(now, idle reading) (names []string) {
	for _, l := range levels {
		if l.of(now) > l.of(idle)+l.more {
			names = append(names, fmt.Sprintf("%d %s (idle: %d)", l.of(now), l.name, l.of(idle)))
		}
	}
	return names
}

const (
	mega = 1 << 20
	kilo = 1 << 10
)

// trend is what may go up and down, but not on and on.
type trend struct {
	name   string
	of     func(r reading) int64 // bytes
	margin int64                 // so much more in the end than in the beginning is no growth
}

var trends = []trend{
	{"heap", func(r reading) int64 { return r.heap }, mega / 2},
	{"resident memory", func(r reading) int64 { return r.resident }, 8 * mega},
}

// course is how a trend went: medians over the first third of the readings, and over the last.
type course struct {
	first, last int64
}

func (t trend) course(readings []reading) course {
	third := max(len(readings)/3, 1)
	return course{t.median(readings[:third]), t.median(readings[len(readings)-third:])}
}

func (t trend) median(readings []reading) int64 {
	var values []int64
	for _, r := range readings {
		values = append(values, t.of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// verdict is a table of what the subject has used, idle, under load and after each spell, and what of it has grown.
func verdict(idle reading, during, after []reading) (table string, grown []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-30s %8s %17s %17s\n", "", "idle", "under load, most", "after, most")
	for _, l := range levels {
		fmt.Fprintf(&b, "%-30s %8d %17d %17d\n", l.name, l.of(idle), most(l, during), most(l, after))
		if most(l, after) > l.of(idle)+l.more {
			grown = append(grown, l.name)
		}
	}
	fmt.Fprintf(&b, "%-30s %8s %17s %17s %8s\n", "medians after spells, MB", "idle", "first third", "last third", "margin")
	for _, t := range trends {
		c := t.course(after)
		fmt.Fprintf(&b, "%-30s %8.2f %17.2f %17.2f %8.2f\n", t.name, mb(t.of(idle)), mb(c.first), mb(c.last), mb(t.margin))
		if more := c.last - max(c.first, t.of(idle)); more > t.margin {
			grown = append(grown, fmt.Sprintf("%s by %d KiB", t.name, more/kilo))
		}
	}
	return b.String(), grown
}

func most(l level, readings []reading) (n int) {
	for _, r := range readings {
		n = max(n, l.of(r))
	}
	return n
}

func mb(bytes int64) float64 { return float64(bytes) / mega }
