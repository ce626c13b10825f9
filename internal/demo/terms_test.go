package demo

import (
	"testing"
	"time"
)

func TestTermsMakeARuleForEveryThink(t *testing.T) {
	t.Parallel()
	for _, think := range []time.Duration{0, 20 * time.Millisecond, time.Second, maxThink} {
		terms := newTerms(think)
		if _, err := terms.rules("demo:x:"); err != nil {
			t.Errorf("think %v: %v", think, err)
		}
		if terms.maxHold <= 2*think || terms.pause <= terms.maxHold {
			t.Errorf("think %v: %+v", think, terms)
		}
	}
}
