//go:build integration

package clients

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Clients for clusters in Node, as go-redis and redis-py in integration/TestClientsForClustersFindOneNode.
func TestNodesClientsForClustersFindOneNode(t *testing.T) {
	t.Parallel()
	harness.InstallNodePackages(t, "node")
	for name, url := range map[string]string{"one Redis": harness.StartRedis(t).URL(), "a cluster": harness.StartCluster(t, 3, 0).URL()} {
		proxy := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf(`
upstream: {url: %q, cluster: passthrough}
rules: [{name: ctx, prefix: "ctx:", mode: lock}]
`, url)})
		for _, c := range []client{
			{"ioredis", "", program([]string{"node", filepath.Join("node", "ioredis.js")})},
			{"node-redis RESP2", "", program([]string{"node", filepath.Join("node", "node-redis.js")}, "2")},
			{"node-redis RESP3", "", program([]string{"node", filepath.Join("node", "node-redis.js")}, "3")},
		} {
			t.Run(c.name+", before "+name, func(t *testing.T) {
				admin := harness.Dial(t, proxy.Addr)
				for i := range 50 {
					admin.Do("DEL", fmt.Sprint("ctx:", i))
				}
				c.does(t, "cluster", servers{proxy: proxy.Addr}).want(t, map[string]any{"cycles": "done", "pipeline": 50, "message": []any{"hello"}})
			})
		}
	}
}
