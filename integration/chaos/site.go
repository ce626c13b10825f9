//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// site is where data and locks are.
type site struct {
	name string
	open func(tb testing.TB, options []harness.RedisOption) place
}

// place is a site of one world.
type place struct {
	server *harness.Redis // nil where there is more than one node
	url    string         // then, the upstream's
	direct func() redis.UniversalClient
	kinds  []kind
	locks  string // configuration
	also   string // further settings of the rule
	usual  string // what agents do there; the agent's own if empty
	stale  bool   // see oracle.Evidence
	early  bool   // likewise
}

// sites are all of them.
var sites = []site{
	{"redis", single},
	{"clock", withClock},
	{"etcd", withEtcd},
	{"redlock", withRedlock},
	{"zookeeper", withZooKeeper},
	{"consul", withConsul},
	{"sentinel", withSentinels},
	{"cluster", withCluster},
}

// durable keeps all that is acknowledged when the process is killed: Redis writes to its file before it answers. That is enough
// where no machine fails, and fsync would have the agents wait for the disk. (With everysec a write may come behind its answer.)
var durable = harness.WithArgs("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")

// single is one Redis.
func single(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	server := harness.StartRedis(tb, append([]harness.RedisOption{durable}, options...)...)
	client := server.Client()
	return place{server: server, direct: func() redis.UniversalClient { return client }, kinds: kinds}
}

// withClock is one Redis whose clock is stepped. Grants follow a clock where the record is lost, so it is not lost here.
func withClock(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	clock := harness.NewClock(tb)
	p := single(tb, append(options, harness.WithClock(clock)))
	step := func(name string, by time.Duration) kind {
		return kind{
			name, ofRedis, 3, 500 * time.Millisecond,
			func(w *world, _ *fault) { clock.Step(by); w.disturb(w.since) },
			func(w *world, _ *fault) { clock.Step(-by); w.disturb(w.since) },
		}
	}
	p.kinds = slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.loses() })
	p.kinds = append(p.kinds, step("clock an hour ahead", time.Hour), step("clock an hour behind", -time.Hour), step("clock a second ahead", time.Second))
	return p
}

// server is a lock provider's.
type server struct{ kill, start, pause, resume func() }

// elsewhere is a place whose locks are elsewhere. A hold ends there with the proxy that keeps it.
func elsewhere(p place, provider, settings string, s server) place {
	p.locks = "lock:\n  provider: " + provider + "\n  " + provider + ":\n    " + settings + "\n"
	p.early = true
	p.kinds = append(slices.Clone(p.kinds),
		kind{provider + " killed", ofRedis, 4, 300 * time.Millisecond, func(*world, *fault) { s.kill() }, func(*world, *fault) { s.start() }},
		kind{provider + " frozen", ofRedis, 4, 800 * time.Millisecond, func(*world, *fault) { s.pause() }, func(*world, *fault) { s.resume() }})
	return p
}

func withEtcd(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	e := harness.StartEtcd(tb, 1)
	settings := fmt.Sprintf("endpoints: [%q]\n    ttl: 2s\n    request_timeout: 500ms", strings.Join(e.Addrs(), `", "`))
	return elsewhere(single(tb, options), "etcd", settings, server{e.Stop, e.Start, e.Pause, e.Resume})
}

func withRedlock(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	var nodes []*harness.Redis
	var urls []string
	for range 3 {
		node := harness.StartRedis(tb, durable)
		nodes, urls = append(nodes, node), append(urls, fmt.Sprintf("%q", node.URL()))
	}
	each := func(do func(*harness.Redis)) func() {
		return func() {
			for _, node := range nodes {
				do(node)
			}
		}
	}
	settings := "nodes: [" + strings.Join(urls, ", ") + "]\n    restart_delay: 0s" // they keep what they have
	return elsewhere(single(tb, options), "redlock", settings, server{
		each((*harness.Redis).Kill), each((*harness.Redis).Restart), each((*harness.Redis).Pause), each((*harness.Redis).Resume),
	})
}

// A server that was started again is another process: what to do with it is looked up when it is done.

func withZooKeeper(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	z := harness.StartZooKeeper(tb)
	settings := fmt.Sprintf("servers: [%q]\n    session_timeout: 2s", z.Addr)
	return elsewhere(single(tb, options), "zookeeper", settings,
		server{func() { z.Kill() }, z.Start, func() { z.Pause() }, func() { z.Resume() }})
}

func withConsul(tb testing.TB, options []harness.RedisOption) place {
	tb.Helper()
	c := harness.StartConsul(tb)
	settings := fmt.Sprintf("address: http://%s\n    session_ttl: 2s", c.Addr)
	return elsewhere(single(tb, options), "consul", settings,
		server{func() { c.Kill() }, c.Start, func() { c.Pause() }, func() { c.Resume() }})
}

// replicated is for nodes that replicate: what both replicas have survives the primary, whichever of them takes over, and nothing else is
// asked for. (With one of two it may be the other that does: Sentinels go by offsets that are a second old.)
func replicated(url string, direct func() redis.UniversalClient, ways ...kind) place {
	p := place{
		url: url, direct: direct, stale: true, early: true,
		also:  "    durability: {replicas: 2, timeout: 1s}\n",
		usual: "update=8,late=2,blind=1,push=3,count=1,transaction=2,claim=1",
	}
	for _, k := range kinds {
		if k.layer == ofAgents || k.layer == ofProxies || k.layer == ofDownstream {
			p.kinds = append(p.kinds, k)
		}
	}
	for _, k := range ways {
		k.layer, k.odds = ofRedis, 4
		p.kinds = append(p.kinds, k)
	}
	return p
}

func withSentinels(tb testing.TB, _ []harness.RedisOption) place {
	tb.Helper()
	set := harness.StartSentinels(tb)
	old := map[*fault]*harness.SentinelNode{}
	replace := func(do func(n *harness.SentinelNode)) func(*world, *fault) {
		return func(_ *world, f *fault) {
			old[f] = set.Primary()
			do(old[f])
			set.WaitOther(old[f])
		}
	}
	mend := func(do func(n *harness.SentinelNode)) func(*world, *fault) {
		return func(_ *world, f *fault) {
			do(old[f])
			set.WaitHealthy()
		}
	}
	return replicated(set.URL(), func() redis.UniversalClient { return set.Primary().Client() },
		kind{name: "primary killed and replaced", begin: replace(func(n *harness.SentinelNode) { n.Kill() }), end: mend(func(n *harness.SentinelNode) { n.Restart() })},
		kind{name: "primary frozen and replaced", begin: replace(func(n *harness.SentinelNode) { n.Pause() }), end: mend(func(n *harness.SentinelNode) { n.Resume() })},
		kind{name: "primary cut off and replaced", begin: replace(func(n *harness.SentinelNode) { n.Isolate() }), end: mend(func(n *harness.SentinelNode) { n.Join() })},
		kind{name: "failover", begin: func(*world, *fault) { set.Failover() }, end: func(*world, *fault) { set.WaitHealthy() }},
	)
}

func withCluster(tb testing.TB, _ []harness.RedisOption) place {
	tb.Helper()
	c := harness.StartSeverableCluster(tb, 3, 2)
	client := c.Client()
	old := map[*fault]*harness.ClusterNode{}
	slot := func(w *world, f *fault) int { return c.Slot(w.key(f)) }
	replace := func(do func(n *harness.ClusterNode)) func(*world, *fault) {
		return func(w *world, f *fault) {
			at := slot(w, f)
			old[f] = c.Owner(at)
			do(old[f])
			harness.Eventually(tb, 0, func() bool { now := c.Owner(at); return now != nil && now != old[f] }, "another node has the slot")
		}
	}
	mend := func(do func(n *harness.ClusterNode)) func(*world, *fault) {
		return func(_ *world, f *fault) {
			do(old[f])
			c.WaitOK()
		}
	}
	return replicated(c.URL(), func() redis.UniversalClient { return client },
		kind{name: "primary killed and replaced", begin: replace(func(n *harness.ClusterNode) { n.Kill() }), end: mend(func(n *harness.ClusterNode) { n.Restart() })},
		kind{name: "primary frozen and replaced", begin: replace(func(n *harness.ClusterNode) { n.Pause() }), end: mend(func(n *harness.ClusterNode) { n.Resume() })},
		kind{name: "primary cut off and replaced", begin: replace(c.Isolate), end: mend(func(*harness.ClusterNode) { c.Join() })},
		kind{name: "failover", begin: replace(func(n *harness.ClusterNode) { c.Failover(c.Replicas(n)[0]) }), end: mend(func(*harness.ClusterNode) {})},
		kind{name: "slot moved", begin: func(w *world, f *fault) {
			at := slot(w, f)
			from := c.Owner(at)
			for _, session := range w.names() { // to where another session is
				if to := c.Of("ctx:{" + session + "}:value"); to != from {
					c.Migrate(at, to)
					return
				}
			}
		}, end: mend(func(*harness.ClusterNode) {})},
	)
}
