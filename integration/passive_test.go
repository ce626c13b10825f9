//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A proxy that guards nothing is not seen at the upstream, as long as nobody is connected to it.
func TestAProxyWithoutRulesKeepsNoConnectionsOfItsOwn(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	direct := harness.Dial(t, server.Addr)
	own := func() bool { return strings.Contains(string(direct.Do("CLIENT", "LIST")), "name=fence-proxy") }
	harness.Eventually(t, 0, func() bool { return !own() }, "no connection of the proxy's own is left")

	client := harness.Dial(t, proxy.Addr)
	if got := string(client.Do("PING")); got != "+PONG\r\n" {
		t.Errorf("PING through the proxy: %q", got)
	}

	harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules:\n  - name: all\n    prefix: \"\"\n"})
	if !own() {
		t.Error("the connections of a proxy that guards are not told by their name")
	}
}
