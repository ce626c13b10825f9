//go:build integration

package integration

import (
	"fmt"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// secured is the upstream section for servers that ask for a certificate.
func secured(ca *harness.Authority, url string) string {
	own := ca.Sign("proxy")
	return fmt.Sprintf("upstream:\n  url: %q\n  tls: {ca: %q, cert: %q, key: %q}\n", url, ca.File, own.Cert, own.Key)
}

func TestAClusterUnderTLS(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	cluster := harness.StartSecureCluster(t, ca, 3, 1)
	proxy := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: secured(ca, cluster.URL()) + guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	write := func(value string) {
		t.Helper()
		for i := range 3 { // one at each node
			key := "ctx:" + cluster.Key(i*5461+100, "")
			client.sends("GET", key)
			_ = client.reply()
			client.does("OK", "SET", key, value)
			client.does(value, "GET", key)
			client.does("OK", "SET", key, value)
		}
	}
	write("first")
	cluster.Migrate(100, cluster.Owner(6000))
	write("moved")
	cluster.Failover(cluster.Replicas(cluster.Owner(6000))[0])
	client, _ = connect(t, "after a failover", proxy.Addr)
	write("after a failover")
}

func TestSentinelsUnderTLS(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	set := harness.StartSentinels(t, harness.WithSentinelTLS(ca))
	proxy := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: secured(ca, set.URL()) + guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	client.does(nil, "GET", "ctx:s")
	client.does("OK", "SET", "ctx:s", "v")
	to := set.Failover()
	harness.Eventually(t, 0, func() bool {
		again := proxy.Client()
		return again.Set(t.Context(), "ctx:s", "after a failover", 0).Err() == nil && // maybe at the old one, which does not know yet
			to.Client().Get(t.Context(), "ctx:s").Val() == "after a failover"
	}, "the new primary is written to")
}
