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
			client.sends("CLIENT", "ID") // which it would not have over another connection, so the read is not sent again
			client.reply()

			cut := relay.CutAfterBytes(harness.ToClient, 0)
			conn.Send(harness.Encode("GET", "ctx:s"))
			<-cut
			client.hearsError("FENCEDOWN")
			conn.ExpectClosed()
			harness.Eventually(t, 0, func() bool { return record.grant() > 0 }, "the store granted the session")
			record.becomesFree()

			other, _ := connect(t, "other", proxy.Addr)
			other.does(nil, "GET", "ctx:s")
			other.does("OK", "SET", "ctx:s", "v")
		})
	}
}

// A read whose answer was lost is sent again, under the grant that it was given then.
func TestAReadWhoseAnswerWasLostIsSentAgain(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding("lease: 10m", "max_hold: 10m", "idle: 10m")})
	client, _ := connect(t, "client", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	client.does("OK", "SET", "ctx:s", "before")
	for _, direction := range []harness.Direction{harness.ToClient, harness.ToServer} {
		cut := relay.CutAfterBytes(direction, 0)
		client.sends("GET", "ctx:s")
		<-cut
		client.hears("before")
		cut = relay.CutAfterBytes(direction, 0)
		client.sends("STRLEN", "ctx:s") // under the hold
		<-cut
		client.hears(int64(6))
		client.does("OK", "SET", "ctx:s", "before")
		other.does("before", "GET", "ctx:s") // no hold is left behind
		other.does("OK", "SET", "ctx:s", "before")
	}
}
