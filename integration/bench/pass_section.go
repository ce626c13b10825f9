package bench

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// passed is what the comparisons of all loads show.
func passed(comparisons []comparison) report.Section {
	s := report.Section{
		Name: "pass", Heading: "Passing through",
		Says: "Unguarded SET and GET by redis-benchmark, straight at one Redis and through each proxy in front of it, which has its defaults; all proxies run " +
			"through all rounds, and a turn has the same number of requests for all. Figures are the mean of SET and GET.",
		Tables: []*report.Table{everybody(comparisons), overOthers(comparisons)},
		Short:  []report.Short{{Name: "pass", Table: smallest(comparisons)}},
	}
	if len(comparisons) == len(loads) {
		s.Plots = []report.Plot{{
			File: "bench.svg", SVG: picture(comparisons).svg(),
			Alt: "Requests per second over those without a proxy, and CPU time per command: haproxy, twemproxy, predixy, fence-proxy",
		}}
	}
	return s
}

func everybody(comparisons []comparison) *report.Table {
	t := &report.Table{Title: "Requests per second over those straight at Redis and through twemproxy, µs until the reply, and CPU µs a command"}
	t.Add("bytes", "connections", "pipeline", "by", "SET x direct", "GET x direct", "x direct", "x twemproxy",
		"p50 µs", "added µs", "proxy CPU", "Redis CPU", "both")
	for _, c := range comparisons {
		direct, twemproxy := c.by(directName), c.by(twemproxyName)
		for _, one := range c.runners {
			var p50, added any
			if c.lone() {
				p50, added = one.p50(), one.slower(direct)
			}
			t.Add(c.value, c.connections, c.pipeline, one.name,
				one.got["SET"].rate.over(direct.got["SET"].rate).median(), one.got["GET"].rate.over(direct.got["GET"].rate).median(),
				one.over(direct), one.over(twemproxy), p50, added, one.proxyCPU(), one.redisCPU(), one.proxyCPU()+one.redisCPU())
		}
	}
	return t
}

// overOthers is what fence-proxy did next to each of the others.
func overOthers(comparisons []comparison) *report.Table {
	t := &report.Table{Title: "fence-proxy's requests per second over the others'"}
	head := []any{"bytes", "connections", "pipeline"}
	for _, other := range comparisons[0].others() {
		head = append(head, other.name)
	}
	t.Add(append(head, "CPU over twemproxy's")...)
	for _, c := range comparisons {
		fence := c.by(fenceName)
		row := []any{c.value, c.connections, c.pipeline}
		for _, other := range c.others() {
			row = append(row, fence.over(other))
		}
		t.Add(append(row, fence.cpuOver(c.by(twemproxyName)))...)
	}
	return t
}

// smallest has the comparisons of the smallest value, a row for each proxy.
func smallest(comparisons []comparison) *report.Table {
	size := comparisons[0].value
	t := &report.Table{Title: fmt.Sprintf("Unguarded SET and GET of %d bytes: requests per second over those straight at Redis, and in brackets CPU µs a command, proxy's and Redis's", size)}
	head := []any{"through"}
	for _, c := range comparisons {
		if c.value == size {
			head = append(head, c.title())
		}
	}
	t.Add(head...)
	for _, r := range comparisons[0].runners {
		row := []any{r.name}
		for _, c := range comparisons {
			if c.value == size {
				one := c.by(r.name)
				row = append(row, fmt.Sprintf("%s (%s)", report.Digits(one.over(c.by(directName))), report.Digits(one.proxyCPU()+one.redisCPU())))
			}
		}
		t.Add(row...)
	}
	return t
}
