package bench

import (
	"slices"
	"testing"
)

// comparison is what all runners did under one load.
type comparison struct {
	load
	runners []*runner
}

// compare lets everybody have a turn at each command, round by round. Who begins changes with
// every round.
func (l load) compare(b *testing.B) comparison {
	b.Helper()
	runners := startRunners(b)
	n := l.requests(b, runners[0].addr)
	order := slices.Clone(runners)
	for b.Loop() {
		for _, command := range commands {
			for _, r := range order {
				r.turn(b, l, command, n)
			}
		}
		order = append(order[1:], order[0])
	}
	return comparison{l, runners}
}

// by returns the runner of that name, nil if it did not run.
func (c comparison) by(name string) *runner {
	for _, one := range c.runners {
		if one.name == name {
			return one
		}
	}
	return nil
}

func (c comparison) report(b *testing.B) {
	b.Helper()
	for _, one := range c.runners[1:] {
		b.Run("by="+one.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(one.over(c.by(directName)), "x_direct")
			b.ReportMetric(one.over(c.by(twemproxyName)), "x_twemproxy")
			b.ReportMetric(one.proxyCPU(), "proxy-µs")
			b.ReportMetric(one.redisCPU(), "redis-µs")
		})
	}
}

// others are all runners but fence-proxy, which is the last.
func (c comparison) others() []*runner { return c.runners[:len(c.runners)-1] }
