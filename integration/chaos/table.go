//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is how long it took until the next success, by fault.
type table map[string]*row

type row struct {
	lasted, some, all []time.Duration
}

const together = "several at once"

func (t table) add(r result) {
	name, lasted := together, time.Duration(0)
	if len(r.faults) == 1 {
		name = r.faults[0].name
	}
	for _, f := range r.faults {
		lasted = max(lasted, f.after+f.lasts)
	}
	if t[name] == nil {
		t[name] = &row{}
	}
	t[name].lasted = append(t[name].lasted, lasted)
	t[name].some = append(t[name].some, r.some)
	t[name].all = append(t[name].all, r.all)
}

func (t table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Time from a fault's beginning to the next success (median, most), and until every session was written again\n")
	fmt.Fprintf(&b, "%-40s %6s %9s %19s %19s\n", "fault", "times", "lasted", "some session", "every session")
	for _, name := range slices.Sorted(maps.Keys(t)) {
		r := t[name]
		fmt.Fprintf(&b, "%-40s %6d %9v %9v %9v %9v %9v\n", name, len(r.some), median(r.lasted), median(r.some), most(r.some), median(r.all), most(r.all))
	}
	return b.String()
}

func median(d []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(d))[len(d)/2].Round(time.Millisecond)
}

func most(d []time.Duration) time.Duration { return slices.Max(d).Round(time.Millisecond) }
