// Package report makes a document of what benchmarks have measured.
//
// A benchmark publishes a [Section]: tables and plots, and a sentence on what they show and how it was measured. It is printed for whoever
// runs the benchmark alone. With -report it is saved as well, and package all makes docs/benchmarks.md of all that one run has saved:
//
//	Benchmark… ──Publish──▶ dist/bench/pass.json  ──▶ docs/benchmarks.md, docs/bench-….svg
//	Benchmark… ──Publish──▶ dist/bench/cycle.json ──╯            ╰─(Short)─▶ README.md
//
// What the README shows of it stands, word for word, in the document too, between the same markers ([Excerpt]).
package report
