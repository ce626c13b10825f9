//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A client that says goodbye has nothing to be told of, whatever it has read.
func TestQuitClosesAConnectionInTheMiddleOfASequence(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	for _, quit := range []string{"QUIT", "quit"} {
		client, conn := connect(t, "client", proxy.Addr)
		client.does(nil, "GET", "ctx:s")
		client.does("OK", quit)
		conn.ExpectClosed()
	}
}

// Leaving channels has as many replies as there are channels, or one, and in RESP3 these are messages.
func TestLeavingChannelsLeavesTheOrderOfRepliesAlone(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server})
	for _, protocol := range []string{"2", "3"} {
		for _, leave := range []string{"UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"} {
			if !knows(t, server, strings.ToLower(leave)) {
				continue
			}
			client := greet(t, proxy.Addr, protocol)
			straight := greet(t, server.Addr, protocol)
			for _, conn := range []*harness.RawConn{straight, client} {
				conn.Send(harness.Encode(leave) + harness.Encode(leave, "a", "b") + harness.Encode("SELECT", "1") + harness.Encode("PING"))
			}
			for want := ""; want != "+PONG\r\n"; {
				want = string(straight.ReadReply())
				if got := string(client.ReadReply()); got != want {
					t.Errorf("RESP%s, after %s: got %q, want %q", protocol, leave, got, want)
				}
			}
		}
	}
}
