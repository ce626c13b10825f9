package bench

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

func BenchmarkMemory(b *testing.B) {
	all := hoards()
	for b.Loop() {
		for _, h := range all {
			h.measure(b)
		}
	}
	b.ReportMetric(0, "ns/op")
	report.Publish(b, remembered(all))
}
