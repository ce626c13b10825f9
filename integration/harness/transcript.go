package harness

import (
	"bytes"
	"sync"
	"testing"
)

// Transcript collects what a process prints. It may be read while it grows.
type Transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// logIfFailed shows what a server has printed when its test has failed.
func logIfFailed(tb testing.TB, server string, log *Transcript) {
	tb.Helper()
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s:\n%s", server, log)
		}
	})
}
