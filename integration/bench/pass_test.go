package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var plotFile = flag.String("plot", "", "`file` for the picture of BenchmarkPass (SVG); drawn when all loads were run")

func BenchmarkPass(b *testing.B) {
	var done []comparison
	for _, l := range loads {
		b.Run(fmt.Sprintf("value=%d/conns=%d/pipeline=%d", l.value, l.connections, l.pipeline), func(b *testing.B) {
			c := l.compare(b)
			c.report(b)
			done = append(done, c)
		})
	}
	if len(done) == 0 {
		return
	}
	printComparisons(os.Stdout, done)
	if *plotFile == "" || len(done) < len(loads) {
		return
	}
	err := os.MkdirAll(filepath.Dir(*plotFile), 0o755)
	if err == nil {
		err = os.WriteFile(*plotFile, []byte(picture(done).svg()), 0o644)
	}
	if err != nil {
		b.Errorf("draw the plot: %v", err)
	}
}
