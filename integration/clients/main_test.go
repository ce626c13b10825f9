//go:build integration

// Package clients tries Redis client libraries against the proxy, as agents use them: their
// handshakes, ordinary use, and a guarded read-modify-write.
//
// Each client does the same tasks, and each task is a number of steps. The programs under python and
// node report as JSON what every step came to; go-redis and rueidis do so in the test's own process.
// What must have come of it is written down once, for all clients:
//
//	use_test.go ──task──▶ client ──▶ proxy ──▶ Redis
//	            ◀─report─        ╰─(what the proxy must not see)─╯
package clients

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
