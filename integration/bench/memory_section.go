package bench

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// remembered is what was measured of all hoards.
func remembered(all []*hoard) report.Section {
	t := &report.Table{Title: "Memory for each, in KiB"}
	t.Add("what", "how many", "proxy, in use", "proxy, resident", "Redis")
	for _, h := range all {
		t.Add(h.title, group3(h.n), kibibytes(h.proxy), kibibytes(h.resident), kibibytes(h.redis))
	}
	return report.Section{
		Name: "memory", Heading: "Memory",
		Says: "How much larger a new proxy and a new Redis have become with so many of them, for each: what the proxy has in use on its heap and stacks after its collector has run some times, as it does in minutes, what it occupies before that, " +
			"and what Redis has allocated, without the data itself. A client that has used guarded keys has a connection of its own to Redis, and the proxy remembers its session.",
		Tables: []*report.Table{t},
		Short:  []report.Short{{Name: "memory", Table: t}},
	}
}

func kibibytes(bytes series) string { return fmt.Sprintf("%.2f", bytes.median()/1024) }
