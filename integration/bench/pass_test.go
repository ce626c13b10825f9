package bench

import (
	"fmt"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

func BenchmarkPass(b *testing.B) {
	var done []comparison
	for _, l := range loads {
		b.Run(fmt.Sprintf("value=%d/conns=%d/pipeline=%d", l.value, l.connections, l.pipeline), func(b *testing.B) {
			c := l.compare(b)
			c.report(b)
			done = append(done, c)
		})
	}
	if len(done) > 0 {
		report.Publish(b, passed(done))
	}
}
