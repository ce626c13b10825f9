package bench

import (
	"io"
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

// printComparisons prints what everybody did, and what fence-proxy did next to each of the others.
func printComparisons(w io.Writer, comparisons []comparison) {
	all := table{title: "Unguarded SET and GET by redis-benchmark; the mean of the two"}
	all.add("bytes", "connections", "pipeline", "by", "SET x direct", "GET x direct", "x direct", "x twemproxy",
		"p50 µs", "added µs", "proxy CPU", "Redis CPU", "both")
	ours := table{title: "fence-proxy over"}
	head := []any{"bytes", "connections", "pipeline"}
	for _, other := range comparisons[0].runners[:len(comparisons[0].runners)-1] {
		head = append(head, other.name)
	}
	ours.add(append(head, "CPU over twemproxy's")...)
	for _, c := range comparisons {
		direct, twemproxy := c.by(directName), c.by(twemproxyName)
		for _, one := range c.runners {
			var p50, added any
			if c.lone() {
				p50, added = one.p50(), one.slower(direct)
			}
			all.add(c.value, c.connections, c.pipeline, one.name,
				one.got["SET"].rate.over(direct.got["SET"].rate).median(), one.got["GET"].rate.over(direct.got["GET"].rate).median(),
				one.over(direct), one.over(twemproxy), p50, added, one.proxyCPU(), one.redisCPU(), one.proxyCPU()+one.redisCPU())
		}
		fence := c.by(fenceName)
		row := []any{c.value, c.connections, c.pipeline}
		for _, other := range c.runners[:len(c.runners)-1] {
			row = append(row, fence.over(other))
		}
		ours.add(append(row, fence.cpuOver(twemproxy))...)
	}
	all.print(w)
	ours.print(w)
}
