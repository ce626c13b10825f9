package main

import "fmt"

// part is a benchmark and the section of the document that it measures.
type part struct {
	section   string
	folder    string
	benchmark string // behind "Benchmark"
}

const (
	own       = "./integration/bench"
	providers = "./integration/bench/providers"
)

// parts are all benchmarks, in the document's order.
var parts = []part{
	{"pass", own, "Pass"},
	{"cycle", own, "Cycle"},
	{"growth", own, "Growth"},
	{"memory", own, "Memory"},
	{"modes", own, "Modes"},
	{"telemetry", own, "Telemetry"},
	{"cluster", own, "Cluster"},
	{"cluster-growth", own, "ClusterGrowth"},
	{"providers", providers, "Providers"},
}

// command shows the part's tables alone.
func (p part) command(rounds int) string {
	if p.folder == providers {
		return fmt.Sprintf("make bench-providers ROUNDS=%d", rounds)
	}
	return fmt.Sprintf("make bench BENCH='^Benchmark%s$' ROUNDS=%d", p.benchmark, rounds)
}
