package harness

import (
	"os/exec"
	"strings"
	"testing"
)

// Enabling lets clients say MODULE or DEBUG ("module", "debug"), which servers since 7.0 forbid unless they are told otherwise.
func Enabling(tb testing.TB, command string) RedisOption {
	tb.Helper()
	text, err := exec.Command(RedisServer(tb), "--version").Output()
	if err != nil {
		tb.Fatalf("ask redis-server for its version: %v", err)
	}
	return func(r *Redis) {
		if !strings.Contains(string(text), " v=6.") {
			r.args = append(r.args, "--enable-"+command+"-command", "yes")
		}
	}
}
