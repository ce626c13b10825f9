//go:build integration

package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// toll is what faults have cost: how long after each new guests were served again, and what guests were told.
type toll map[string][]time.Duration

func (t toll) add(k *kind, healed time.Duration) { t[k.name] = append(t[k.name], healed) }

func (t toll) table(houses ...*house) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-42s %6s %19s  %s\n", "fault", "times", "served again after", "guests were told")
	for _, k := range kinds {
		healed := slices.Sorted(slices.Values(t[k.name]))
		if len(healed) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-42s %6d %9v %9v  %s\n", k.name, len(healed), healed[len(healed)/2].Round(time.Millisecond),
			healed[len(healed)-1].Round(time.Millisecond), told(k.name, houses))
	}
	return b.String()
}

func told(fault string, houses []*house) string {
	sum := map[string]int{}
	for _, h := range houses {
		for word, n := range h.trouble.told[fault] {
			sum[word] += n
		}
	}
	var parts []string
	for word, n := range sum {
		parts = append(parts, fmt.Sprintf("%s %d", word, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
