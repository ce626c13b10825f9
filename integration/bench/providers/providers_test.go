package providers

import (
	"os"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func TestMain(m *testing.M) { harness.Main(m) }

// far is how much longer a round trip is for the far pairs.
const far = 2 * time.Millisecond

// BenchmarkProviders has all providers in one run, the store itself first; see doc.go.
func BenchmarkProviders(b *testing.B) {
	contestants := []contestant{{"redis", startPair(b, "redis", nil, 0), startPair(b, "redis", nil, far)}}
	for _, kind := range provider.Kinds {
		start, ok := starters[kind.Name]
		if !ok {
			b.Fatalf("lock provider %s has no servers here: see servers.go", kind.Name)
		}
		if kind.Name == "kubernetes" && os.Getenv("KUBE_APISERVER") == "" {
			continue // it takes long to build; make bench-providers has it
		}
		s := start(b)
		contestants = append(contestants, contestant{kind.Name, startPair(b, kind.Name, &s, 0), startPair(b, kind.Name, &s, far)})
	}
	for round := 0; b.Loop(); round++ {
		for i := range contestants {
			c := contestants[(i+round)%len(contestants)]
			for _, p := range []*pair{c.near, c.far} {
				p.cycles(50)
				p.handOvers(10)
			}
		}
	}
	report.Publish(b, section(far, contestants))
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 100 {
		times = append(times, time.Duration(100-i))
	}
	for p, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(times, p); got != want {
			t.Errorf("percentile %d is %d, want %d", p, got, want)
		}
	}
	if got := percentile(times[:1], 99); got != 100 {
		t.Errorf("percentile of one is %d", got)
	}
	if got := percentile(nil, 50); got != 0 {
		t.Errorf("percentile of none is %d", got)
	}
}
