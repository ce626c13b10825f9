package bench

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// cycled is what the contests show.
func cycled(contests []contest) report.Section {
	s := report.Section{
		Name: "cycle", Heading: "Guarded cycles, beside lock libraries",
		Says: fmt.Sprintf("A client reads a value of %d bytes, counts one up inside it and writes it, under a lock; who gets none begins again. *bare* takes no lock and loses updates. "+
			"All locks but etcd's are at the same Redis as the data, the proxy runs beside its client, and relays put servers 1 ms away in the second half. "+
			"Waiters try again as each library does by default, or as its documentation's example does. *p99* and *longest* are of whole cycles, waiting included; *max/min* are the cycles of the client that did most for each of the one that did least; "+
			"*lost* must be 0 for all but bare, or the benchmark fails. The servers' CPU time is Redis's, and etcd's where it grants.", valueSize),
		Tables: []*report.Table{everyContestant(contests)},
		Short:  []report.Short{{Name: "cycle", Table: farAway(contests)}},
		Plots:  []report.Plot{{File: "bench-cycle.svg", SVG: cyclePicture(contests).svg(), Alt: "Cycles per second over redsync's, and CPU time per cycle, for each lock"}},
	}
	return s
}

func (c *contest) crowd() string { return fmt.Sprintf("%d on %d", c.clients, c.keys) }

func everyContestant(contests []contest) *report.Table {
	t := &report.Table{Title: "Read-modify-write cycles, GET and SET of 1 KiB; CPU µs a cycle"}
	t.Add("to Redis", "clients on keys", "by", "cycles/s", "x bare", "x redsync", "x redislock", "p99 ms", "longest ms", "max/min", "lost", "gave up", "proxy CPU", "servers' CPU")
	for _, c := range contests {
		for _, one := range c.contestants {
			t.Add(fmt.Sprintf("%.2f ms", c.distance.Seconds()*1000), c.crowd(), one.name, one.rate.median(), c.over(one, bareName), c.over(one, redsyncName), c.over(one, redislockName),
				percentile(one.took, 99), slices.Max(one.took), fair(one), fmt.Sprintf("%d of %d", one.lost, one.acked), one.gaveUp, one.proxyCPU.median(), one.serveCPU.median())
		}
	}
	return t
}

// fair is a contestant's fairness, nothing for one client.
func fair(c *contestant) any {
	if f := c.fairness(); f > 0 {
		return f
	}
	return nil
}

// farAway has the contests at the largest distance, a row for each way.
func farAway(contests []contest) *report.Table {
	far := contests[len(contests)-1].rtt
	t := &report.Table{Title: fmt.Sprintf("Read-modify-write cycles a second, Redis %v away; in brackets the 99th percentile of a cycle in ms, and the cycles of the client that did most for each of the one that did least", far)}
	head := []any{"lock"}
	for _, c := range contests {
		if c.rtt == far {
			head = append(head, fmt.Sprintf("%d on %d", c.clients, c.keys))
		}
	}
	t.Add(append(head, "lost updates")...)
	for i, one := range contests[len(contests)-1].contestants {
		row, lost := []any{one.name}, 0
		for _, c := range contests {
			if c.rtt != far {
				continue
			}
			its := c.contestants[i]
			lost += its.lost
			notes := []string{report.Digits(percentile(its.took, 99).Seconds() * 1000)}
			if f := its.fairness(); f > 0 {
				notes = append(notes, report.Digits(f))
			}
			row = append(row, fmt.Sprintf("%s (%s)", report.Digits(its.rate.median()), strings.Join(notes, ", ")))
		}
		t.Add(append(row, lost)...)
	}
	return t
}

// cyclePicture shows the contests: a panel for each distance, and what a cycle costs.
func cyclePicture(contests []contest) *plot {
	p := &plot{
		title: "Read-modify-write cycles under a lock",
		note:  fmt.Sprintf("Medians of %d interleaved rounds; clients, proxy and servers on one machine.", len(contests[0].contestants[0].rate)),
	}
	for _, one := range contests[0].contestants[1:] { // not bare
		p.series = append(p.series, one.name)
	}
	near, far := contests[0].rtt, contests[len(contests)-1].rtt
	for _, rtt := range slices.Compact([]time.Duration{near, far}) {
		p.panels = append(p.panels, panel{
			title: fmt.Sprintf("Cycles per second over redsync's, servers %v away", rtt), line: redsyncName,
			groups: contestGroups(contests, rtt, func(c *contest, one *contestant) bar { return bar{c.over(one, redsyncName)} }),
		})
	}
	p.panels = append(p.panels, panel{
		title:  fmt.Sprintf("CPU time per cycle in µs, servers %v away: the servers', and above it, paler, the proxy's", far),
		groups: contestGroups(contests, far, func(_ *contest, one *contestant) bar { return bar{one.serveCPU.median(), one.proxyCPU.median()} }),
	})
	return p
}

func contestGroups(contests []contest, rtt time.Duration, of func(c *contest, one *contestant) bar) []group {
	var groups []group
	for _, c := range contests {
		if c.rtt != rtt {
			continue
		}
		g := group{name: c.crowd()}
		for _, one := range c.contestants[1:] {
			g.bars = append(g.bars, of(&c, one))
		}
		groups = append(groups, g)
	}
	return groups
}
