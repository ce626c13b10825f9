//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Whoever comes while a session is held must not cost its holder a round trip.
func TestNewcomersCostTheHolderNoRoundTrip(t *testing.T) {
	t.Parallel()
	for _, newcomer := range []struct {
		name    string
		command []string
	}{
		{"a reader", []string{"GET", "ctx:s"}},
		{"a blind writer", []string{"SET", "ctx:s", "theirs"}},
		{"one that appends", []string{"APPEND", "ctx:s", "theirs"}},
	} {
		t.Run(newcomer.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			relay := harness.StartRelay(t, server.Addr)
			rules := endless("60s")
			near := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: rules})
			far := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: rules})
			holder, _ := connect(t, "holder", near.Addr)
			other, _ := connect(t, "newcomer", far.Addr)

			holder.does(nil, "GET", "ctx:s")
			other.sends(newcomer.command...)
			recordOf(t, server, "ctx:s").hasWaiters(1)

			before := relay.RoundTrips()
			holder.does("OK", "SET", "ctx:s", "mine")
			if got := relay.RoundTrips() - before; got != 1 {
				t.Errorf("the holder's write cost %d round trips, want 1", got)
			}
			other.reply()
		})
	}
}
