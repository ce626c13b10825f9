package bench

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

func BenchmarkGrowth(b *testing.B) {
	var done []grown
	for _, a := range axes {
		b.Run(a.name, func(b *testing.B) {
			g := grown{axis: a}
			for _, size := range a.sizes {
				g.stages = append(g.stages, newStage(b, a, size))
			}
			for round := 0; b.Loop(); round++ {
				for i := range g.stages {
					g.stages[(i+round)%len(g.stages)].turn(b)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(g.over(len(g.stages)-1, guardedAct), "x_cpu")
			done = append(done, g)
		})
	}
	if len(done) > 0 {
		report.Publish(b, growth(done))
	}
}
