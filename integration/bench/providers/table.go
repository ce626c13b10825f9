package providers

import (
	"fmt"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// contestant is a provider.
type contestant struct {
	name      string
	near, far *pair
}

// section is what the contestants have measured.
func section(far time.Duration, contestants []contestant) report.Section {
	near, away := &report.Table{Title: "All servers on loopback, ms"}, &report.Table{Title: fmt.Sprintf("All servers %v away, ms", far)}
	short := &report.Table{Title: "Lock providers, all servers on loopback: ms, and round trips that a client waits for"}
	heads := []any{"provider", "acquire p50", "p99", "cycle p50", "p99", "hand over p50", "p99"}
	near.Add(heads...)
	away.Add(append(slices.Clone(heads), "round trips: acquire", "cycle", "hand over")...)
	short.Add("provider", "acquire, ms: p50, p99", "cycle p50, p99", "hand over p50, p99", "round trips: acquire, cycle, hand over")
	for _, c := range contestants {
		near.Add(c.row(c.near)...)
		trips := c.trips(far)
		away.Add(append(c.row(c.far), trips...)...)
		at := c.row(c.near)
		short.Add("`"+c.name+"`", pairOf(at[1:3]), pairOf(at[3:5]), pairOf(at[5:7]), fmt.Sprintf("%v, %v, %v", trips...))
	}
	return report.Section{
		Name: "providers", Heading: "Lock providers",
		Says: "Two proxies share a provider and a store. *acquire* is a GET that takes the session, *cycle* GET and SET, *hand over* from a SET at one proxy to the answer of the GET that waits at the other; " +
			"one server of each kind, three Redis for `redlock`. Round trips are those that a client waits for, to provider and store, measured as what it costs when all servers are farther away. " +
			"A server that writes to disk before it answers is as fast as that disk.",
		Tables: []*report.Table{near, away},
		Short:  []report.Short{{Name: "providers", Table: short}},
	}
}

// row are a contestant's name and times.
func (c contestant) row(p *pair) []any {
	cells := []any{c.name}
	for _, times := range [][]time.Duration{p.acquire, p.cycle, p.handOver} {
		cells = append(cells, percentile(times, 50), percentile(times, 99))
	}
	return cells
}

// pairOf are two times.
func pairOf(times []any) string {
	t := report.Table{}
	t.Add(times...)
	return t.Rows[0][0] + ", " + t.Rows[0][1]
}

// trips is how many round trips, each longer by length, make the far times longer than the near ones. Of both, a fast
// one is taken: what else the machine does makes times longer, never shorter.
func (c contestant) trips(length time.Duration) []any {
	var cells []any
	for _, times := range [][2][]time.Duration{{c.far.acquire, c.near.acquire}, {c.far.cycle, c.near.cycle}, {c.far.handOver, c.near.handOver}} {
		cells = append(cells, fmt.Sprintf("%.1f", float64(percentile(times[0], 10)-percentile(times[1], 10))/float64(length)))
	}
	return cells
}

// percentile is the smallest of the times that at least p percent of them do not exceed, 0 if there are none.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}
