package docs_test

import (
	"path/filepath"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

// make bench-all writes both.
func TestTheReadmesFiguresAreThoseOfTheBenchmarks(t *testing.T) {
	shown, measured := report.Excerpts(read(t, filepath.Join("..", "README.md"))), report.Excerpts(read(t, "benchmarks.md"))
	if len(shown) == 0 {
		t.Error("the README shows no figures")
	}
	for name, figures := range shown {
		if figures == "" || figures != measured[name] {
			t.Errorf("%s: the README has\n%s\nand docs/benchmarks.md\n%s", name, figures, measured[name])
		}
	}
}
