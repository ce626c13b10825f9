package harness

import (
	"testing"
	"time"
)

// patience is how long a wait may last before it counts as a failure.
const patience = 30 * time.Second

// Eventually polls until the condition holds and fails the test if it has not
// by the deadline, counted from now. A deadline of 0 means 30 seconds. The condition
// runs in the caller's goroutine.
func Eventually(tb testing.TB, deadline time.Duration, condition func() bool, msg string) {
	tb.Helper()
	if deadline <= 0 {
		deadline = patience
	}
	if !poll(deadline, condition) {
		tb.Fatalf("not within %v: %s", deadline, msg)
	}
}

// poll calls the condition ever less often, from every millisecond to every 20.
// It is called at least once, and once more after the deadline.
func poll(deadline time.Duration, condition func() bool) bool {
	end := time.Now().Add(deadline)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		late := time.Now().After(end)
		if condition() {
			return true
		}
		if late {
			return false
		}
		time.Sleep(pause)
	}
}
