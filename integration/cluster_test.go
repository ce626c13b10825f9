//go:build integration

package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 70.
func TestTurnsOnSessionsOfAllNodesLoseNothing(t *testing.T) {
	t.Parallel()
	const clients, turns, sessions = 12, 25, 6
	c := harness.StartCluster(t, 3, 0)
	p := harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: guarding("mode: lock", "wait: 20s", "owner: connection")})
	other := harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: guarding("mode: lock", "wait: 20s", "owner: connection")})
	var wg sync.WaitGroup
	for i := range clients {
		of := []*harness.Proxy{p, other}[i%2]
		r := of.Client(func(o *redis.Options) { o.PoolSize, o.MaxRetries, o.ReadTimeout = 1, -1, -1 })
		wg.Go(func() {
			ctx := context.Background()
			for n := range turns {
				key := fmt.Sprint("ctx:", (i+n)%sessions)
				text, err := r.Get(ctx, key).Result()
				if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
					t.Errorf("read: %v", err)
					return
				}
				value, _ := strconv.Atoi(text)
				if err := r.Set(ctx, key, value+1, 0).Err(); err != nil {
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for i := range sessions {
		n, _ := p.Client().Get(t.Context(), fmt.Sprint("ctx:", i)).Int()
		sum += n
	}
	if sum != clients*turns {
		t.Errorf("%d updates are in the values, want %d", sum, clients*turns)
	}
}

// What clients for clusters do at the beginning, and then with keys of all slots, works before one Redis and before a cluster.
func TestClientsForClustersFindOneNode(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]func() string{
		"one Redis": func() string { return harness.StartRedis(t).URL() },
		"a cluster": func() string { return harness.StartCluster(t, 3, 0).URL() },
	} {
		url := upstream()
		p := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf("upstream: {url: %q, cluster: passthrough}\n", url) + guarding("mode: lock")})
		t.Run("go-redis, before "+name, func(t *testing.T) {
			r := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{p.Addr}, MaxRetries: -1})
			defer r.Close()
			for i := range 50 {
				key := fmt.Sprint("ctx:", i)
				if err := r.Get(t.Context(), key).Err(); err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
					t.Fatal(err)
				}
				if err := r.Set(t.Context(), key, i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			pipe := r.Pipeline()
			for i := range 50 {
				pipe.Get(t.Context(), fmt.Sprint("ctx:", i))
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Error(err)
			}
			nodes, err := r.ClusterNodes(t.Context()).Result()
			if err != nil || !strings.Contains(nodes, p.Addr+"@") || !strings.HasSuffix(nodes, "connected 0-16383\n") {
				t.Errorf("%q, %v", nodes, err)
			}
			shards, err := r.ClusterShards(t.Context()).Result()
			if err != nil || len(shards) != 1 || shards[0].Nodes[0].Endpoint != "127.0.0.1" {
				t.Errorf("%v, %v", shards, err)
			}
			if n, err := r.ClusterKeySlot(t.Context(), "{a}b").Result(); n != 15495 || err != nil {
				t.Errorf("slot %d, %v", n, err)
			}
		})
		t.Run("redis-py, before "+name, func(t *testing.T) {
			program := `
import sys
from redis.cluster import RedisCluster
r = RedisCluster(host="127.0.0.1", port=int(sys.argv[1]))
for i in range(50):
    k = "ctx:py%d" % i
    assert r.get(k) is None
    assert r.set(k, i)
p = r.pipeline()
for i in range(50):
    p.get("ctx:py%d" % i)
assert [int(x) for x in p.execute()] == list(range(50))
print("well")
`
			port := p.Addr[strings.LastIndexByte(p.Addr, ':')+1:]
			out, err := exec.Command(harness.Python(t), "-c", program, port).CombinedOutput()
			if err != nil || string(out) != "well\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
		t.Run("hidden, before "+name, func(t *testing.T) {
			h := harness.StartProxy(t, harness.ProxyOptions{Upstream: url, ConfigYAML: guarding("mode: lock")})
			if err := h.Client().Do(t.Context(), "CLUSTER", "SLOTS").Err(); err == nil || err.Error() != "ERR This instance has cluster support disabled" {
				t.Errorf("CLUSTER SLOTS: %v", err)
			}
		})
	}
}
