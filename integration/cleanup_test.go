//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 44: a record outlives its session's last use by record_ttl and no longer, however it was
// used.
func TestTenThousandOneShotSessionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	const sessions = 10_000
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(
		"wait: 30s", "lease: 2s", "idle: 2s", "max_hold: 2s", "record_ttl: 4s")})
	uses := []func(key string) (commands string, replies int){
		func(key string) (string, int) { // a read and a write
			return harness.Encode("GET", key) + harness.Encode("SET", key, "v", "EX", "1"), 2
		},
		func(key string) (string, int) { // a blind write
			return harness.Encode("SET", key, "v", "EX", "1"), 1
		},
		func(key string) (string, int) { // a read that no write follows
			return harness.Encode("GET", key), 1
		},
		func(key string) (string, int) { // a write that Redis refuses
			return harness.Encode("GET", key) + harness.Encode("SET", key, "v", "EX", "x"), 2
		},
	}
	const batch = 500
	var (
		conns   []*harness.RawConn
		replies int
	)
	for first := 0; first < sessions; first += batch {
		var commands strings.Builder
		replies = 0
		for i := range batch {
			text, n := uses[i%len(uses)](fmt.Sprintf("ctx:%d", first+i))
			commands.WriteString(text)
			replies += n
		}
		conn := harness.Dial(t, proxy.Addr)
		conn.Send(commands.String())
		conns = append(conns, conn)
	}
	straight := server.Client()
	own := func() int64 { return straight.DBSize(t.Context()).Val() }
	most := int64(0)
	for i, conn := range conns {
		for range replies {
			conn.ReadReply()
		}
		if i > 0 {
			_ = conn.Close() // the first stays, as pooled connections do
		}
		most = max(most, own()) // a slow machine has some gone before the last have come
	}
	t.Logf("%d keys at most", most)
	if most < batch {
		t.Fatalf("%d keys at most: the load leaves no records that could be cleaned up", most)
	}
	harness.Eventually(t, 0, func() bool { return own() == 0 }, "all keys are gone")
}
