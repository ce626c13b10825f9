//go:build integration && !kube

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// lockProviders are those whose servers are Debian packages. Each test of locks elsewhere holds for all.
var lockProviders = []lockProvider{
	{"etcd", func(t *testing.T) lockServers {
		t.Helper()
		e := harness.StartEtcd(t, 1)
		return lockServers{
			config: fmt.Sprintf("  etcd:\n    endpoints: [%q]\n    ttl: 2s\n    request_timeout: 500ms\n", strings.Join(e.Addrs(), `", "`)),
			lease:  2 * time.Second, stop: e.Stop, start: e.Start,
		}
	}},
	{"redlock", func(t *testing.T) lockServers {
		t.Helper()
		var nodes []*harness.Redis
		var urls []string
		for range 3 {
			node := harness.StartRedis(t, harness.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
			nodes, urls = append(nodes, node), append(urls, fmt.Sprintf("%q", node.URL()))
		}
		each := func(do func(*harness.Redis)) func() {
			return func() {
				for _, node := range nodes {
					do(node)
				}
			}
		}
		return lockServers{
			config: "  redlock:\n    nodes: [" + strings.Join(urls, ", ") + "]\n    restart_delay: 0s # they keep what they have\n",
			lease:  2 * time.Second, stop: each((*harness.Redis).Kill), start: each((*harness.Redis).Restart),
		}
	}},
	// A server that was started again is another process: Kill is looked up when it is called.
	{"zookeeper", func(t *testing.T) lockServers {
		t.Helper()
		z := harness.StartZooKeeper(t)
		return lockServers{
			config: fmt.Sprintf("  zookeeper:\n    servers: [%q]\n    session_timeout: 2s\n", z.Addr),
			lease:  2 * time.Second, stop: func() { z.Kill() }, start: z.Start,
		}
	}},
	{"consul", func(t *testing.T) lockServers {
		t.Helper()
		c := harness.StartConsul(t)
		return lockServers{
			config: fmt.Sprintf("  consul:\n    address: http://%s\n    session_ttl: 2s\n", c.Addr),
			lease:  4 * time.Second, stop: func() { c.Kill() }, start: c.Start, // Consul ends a session up to a TTL late
		}
	}},
}
