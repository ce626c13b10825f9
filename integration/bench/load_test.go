package bench

import "testing"

const printed = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","18867.92","0.050","0.032","0.047","0.063","0.095","0.367"
"GET","20833.33","0.046","0.024","0.039","0.063","0.087","0.399"
`

func TestOutcomeOfRedisBenchmark(t *testing.T) {
	got, err := parseOutcome(printed, "GET")
	if want := (outcome{rate: 20833.33, p50: 39}); err != nil || got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	for _, text := range []string{"", "\"test\",\"rps\"\n", "\"test\",\"rps\"\n\"GET\",\"nan?\"\n", "\"test\",\"rps\"\n\"GET\",\"12\"\n"} {
		if got, err := parseOutcome(text, "GET"); err == nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}
