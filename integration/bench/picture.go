package bench

import (
	"fmt"
	"slices"
)

// picture shows the comparisons: a panel of rates for each size of value, and what the
// smallest costs.
func picture(comparisons []comparison) *plot {
	p := &plot{
		title: "Unguarded SET and GET through a proxy",
		note: fmt.Sprintf("Medians of %d interleaved rounds of redis-benchmark, mean of SET and GET; clients, proxy and Redis on one machine.",
			len(comparisons[0].runners[0].got[commands[0]].rate)),
	}
	for _, r := range comparisons[0].runners {
		p.series = append(p.series, r.name)
	}
	var sizes []int
	for _, c := range comparisons {
		if !slices.Contains(sizes, c.value) {
			sizes = append(sizes, c.value)
		}
	}
	for _, size := range sizes {
		p.panels = append(p.panels, panel{
			title: fmt.Sprintf("Requests per second, of those without a proxy: values of %d bytes", size),
			line:  directName, groups: groups(comparisons, size, rateBar),
		})
	}
	p.panels = append(p.panels, panel{
		title:  fmt.Sprintf("CPU time per command in µs: the proxy's, and above it, paler, Redis's; values of %d bytes", sizes[0]),
		groups: groups(comparisons, sizes[0], cpuBar),
	})
	return p
}

// groups are the comparisons of one size of value.
func groups(comparisons []comparison, size int, of func(c comparison, r *runner) bar) []group {
	var groups []group
	for _, c := range comparisons {
		if c.value != size {
			continue
		}
		g := group{name: c.title()}
		for _, r := range c.runners {
			g.bars = append(g.bars, of(c, r))
		}
		groups = append(groups, g)
	}
	return groups
}

func (l load) title() string {
	switch {
	case l.lone():
		return "1 connection"
	case l.pipeline == 1:
		return fmt.Sprintf("%d connections", l.connections)
	default:
		return fmt.Sprintf("%d, pipeline %d", l.connections, l.pipeline)
	}
}

// rateBar is a rate over the direct one, whose own bar the line at 1 stands for.
func rateBar(c comparison, r *runner) bar {
	if r.name == directName {
		return nil
	}
	return bar{r.over(c.by(directName))}
}

func cpuBar(_ comparison, r *runner) bar { return bar{r.proxyCPU(), r.redisCPU()} }
