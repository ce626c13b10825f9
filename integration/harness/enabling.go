package harness

import "testing"

// Enabling lets clients say MODULE or DEBUG ("module", "debug"), which servers since 7.0 forbid unless they are told otherwise.
func Enabling(tb testing.TB, command string) RedisOption {
	tb.Helper()
	if before7(tb) {
		return WithArgs()
	}
	return WithArgs("--enable-"+command+"-command", "yes")
}
