package harness

import (
	"os/exec"
	"strings"
	"testing"
)

// before7 reports whether the server to test with is older than Redis 7.0, and so knows fewer settings.
func before7(tb testing.TB) bool {
	tb.Helper()
	text, err := exec.Command(RedisServer(tb), "--version").Output()
	if err != nil {
		tb.Fatalf("ask redis-server for its version: %v", err)
	}
	return strings.Contains(string(text), " v=6.")
}
