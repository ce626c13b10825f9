//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// The store has granted a session, but its answer never arrives: nobody knows of the hold, and it
// must not stand until its lease ends.
func TestAGrantWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"connection", "proxy"} {
		t.Run("owner "+owner, func(t *testing.T) {
			server := harness.StartRedis(t)
			relay := harness.StartRelay(t, server.Addr)
			proxy := harness.StartProxy(t, harness.ProxyOptions{
				Upstream: relay.URL(), ConfigYAML: guarding("owner: "+owner, "lease: 10m", "max_hold: 10m", "idle: 10m"),
			})
			record := recordOf(t, server, "ctx:s")
			client, conn := connect(t, "client", proxy.Addr)
			client.does("PONG", "PING") // its connection to Redis is open

			cut := relay.CutAfterBytes(harness.ToClient, 0)
			conn.Send(harness.Encode("GET", "ctx:s"))
			<-cut
			if reply, err := conn.Read(); err == nil && (len(reply) == 0 || reply[0] != '-') {
				t.Errorf("the read whose answer was lost was answered with %q", reply)
			}
			harness.Eventually(t, 0, func() bool { return record.grant() > 0 }, "the store granted the session")
			record.becomesFree()

			other, _ := connect(t, "other", proxy.Addr)
			other.does(nil, "GET", "ctx:s")
			other.does("OK", "SET", "ctx:s", "v")
		})
	}
}
