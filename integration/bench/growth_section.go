package bench

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// grown is what was measured along an axis.
type grown struct {
	axis
	stages []*stage // by size
}

// act is who plays at a stage, nil if nobody does.
func (s *stage) act(name string) *act {
	for _, a := range s.acts {
		if a.name == name {
			return a
		}
	}
	return nil
}

// over is the CPU time of an act's cycle at a stage over that at the first.
func (g *grown) over(stage int, name string) float64 {
	return g.stages[stage].act(name).cpu().over(g.stages[0].act(name).cpu()).median()
}

// growth is what all axes show.
func growth(all []grown) report.Section {
	s := report.Section{
		Name: "growth", Heading: "Growth",
		Says: fmt.Sprintf("Each size has a proxy and a Redis of its own, and all sizes have their turns in each round. A cycle is GET and SET of one key by one connection, in a session of its own, without a client library: "+
			"straight at Redis, through the proxy with a key that no rule guards, and with a guarded one. An error reply or a refused connection fails the benchmark. Unless it is what grows: %d connections, %d sessions, values of %d bytes, %d rule. "+
			"*x first* is the CPU time of proxy and Redis over that of the first size.", usual.clients, usual.sessions, usual.value, usual.rules),
		Short: []report.Short{{Name: "growth", Table: flatness(all)}},
		Plots: []report.Plot{{File: "bench-growth.svg", SVG: growthPicture(all).svg(), Alt: "CPU time per cycle over that of the smallest size"}},
	}
	for _, g := range all {
		s.Tables = append(s.Tables, g.table())
	}
	return s
}

func (g *grown) table() *report.Table {
	t := &report.Table{Title: g.title}
	t.Add("cycles", g.name, "cycles/s", "proxy CPU", "Redis CPU", "both", "x first")
	for i, a := range g.stages[0].acts {
		for n, s := range g.stages {
			its := s.acts[i]
			t.Add(a.name, group3(s.size), its.rate.median(), its.proxyCPU.median(), its.redisCPU.median(), its.cpu().median(), g.over(n, a.name))
		}
	}
	return t
}

// flatness has, for each axis, what the largest size costs over the smallest.
func flatness(all []grown) *report.Table {
	t := &report.Table{Title: "CPU time of GET and SET of one key, proxy's and Redis's, in µs at the smallest and the largest size"}
	t.Add("what grows", "from, to", "guarded", "x", "unguarded", "x", "straight at Redis", "x")
	for _, g := range all {
		last := len(g.stages) - 1
		row := []any{g.name, fmt.Sprintf("%s to %s", group3(g.sizes[0]), group3(g.sizes[last]))}
		for _, name := range []string{guardedAct, unguardedAct, straightAct} {
			first := g.stages[0].act(name)
			if first == nil {
				row = append(row, nil, nil)
				continue
			}
			row = append(row, fmt.Sprintf("%s, %s", report.Digits(first.cpu().median()), report.Digits(g.stages[last].act(name).cpu().median())), g.over(last, name))
		}
		t.Add(row...)
	}
	return t
}

// growthPicture has a panel for each axis.
func growthPicture(all []grown) *plot {
	p := &plot{
		title: "What a GET and a SET cost as something grows",
		note: fmt.Sprintf("CPU time of proxy and Redis; medians of %d interleaved rounds; all on one machine.",
			len(all[0].stages[0].acts[0].rate)),
		series: []string{straightAct, unguardedAct, guardedAct},
	}
	for _, g := range all {
		pan := panel{title: fmt.Sprintf("%s: CPU time per cycle over that at %s", g.title, group3(g.sizes[0])), line: "the smallest"}
		for n, s := range g.stages {
			bars := group{name: group3(s.size)}
			for _, name := range p.series {
				var one bar
				if s.act(name) != nil {
					one = bar{g.over(n, name)}
				}
				bars.bars = append(bars.bars, one)
			}
			pan.groups = append(pan.groups, bars)
		}
		p.panels = append(p.panels, pan)
	}
	return p
}

// group3 is a number with a comma at each thousand.
func group3(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", group3(n/1000), n%1000)
}
