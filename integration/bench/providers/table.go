package providers

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// contestant is a provider.
type contestant struct {
	name      string
	near, far *pair
}

// printTables writes a table for each pair, in Markdown.
func printTables(w io.Writer, far time.Duration, contestants []contestant) {
	heads := []string{"provider", "acquire p50, ms", "p99", "cycle p50", "p99", "hand over p50", "p99"}
	fmt.Fprint(w, "\nAll servers on loopback:\n\n")
	row(w, heads...)
	row(w, slices.Repeat([]string{"---"}, len(heads))...)
	for _, c := range contestants {
		row(w, append([]string{c.name}, c.near.times()...)...)
	}
	fmt.Fprintf(w, "\nAll servers %v away:\n\n", far)
	heads = append(heads, "round trips: acquire", "cycle", "hand over")
	row(w, heads...)
	row(w, slices.Repeat([]string{"---"}, len(heads))...)
	for _, c := range contestants {
		cells := append([]string{c.name}, c.far.times()...)
		row(w, append(cells, trips(c.far.acquire, c.near.acquire, far), trips(c.far.cycle, c.near.cycle, far), trips(c.far.handOver, c.near.handOver, far))...)
	}
	fmt.Fprintln(w)
}

// times are the figures of a row.
func (p *pair) times() (cells []string) {
	for _, times := range [][]time.Duration{p.acquire, p.cycle, p.handOver} {
		cells = append(cells, ms(percentile(times, 50)), ms(percentile(times, 99)))
	}
	return cells
}

// trips is how many round trips, each longer by length, make the far times longer than the near ones. Of both, a fast
// one is taken: what else the machine does makes times longer, never shorter.
func trips(far, near []time.Duration, length time.Duration) string {
	return fmt.Sprintf("%.1f", float64(percentile(far, 10)-percentile(near, 10))/float64(length))
}

func row(w io.Writer, cells ...string) { fmt.Fprintln(w, "| "+strings.Join(cells, " | ")+" |") }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }

// percentile is the smallest of the times that at least p percent of them do not exceed, 0 if there are none.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}
