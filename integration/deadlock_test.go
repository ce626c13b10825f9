//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// keyAt is a guarded key that a node of a cluster has.
func keyAt(cluster *harness.Cluster, n *harness.ClusterNode) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("ctx:s", i); cluster.Of(key) == n {
			return key
		}
	}
}

// Clients that each wait for the session that the next one holds: one of them is refused at once, and the others are
// served. The wait is longer than the test's patience, so nobody is served because another's time is over.
func TestOfClientsThatWaitForEachOtherOneGivesWay(t *testing.T) {
	t.Parallel()
	options := append([]string{"wait: 60s"}, longHolds[1:]...)
	for name, kind := range map[string]struct {
		clients int
		want    []string // the command with which each asks for the next one's session
		cluster bool     // each session is at another node
	}{
		"two that read":                    {2, []string{"GET", ""}, false},
		"three that read":                  {3, []string{"GET", ""}, false},
		"three that read at as many nodes": {3, []string{"GET", ""}, true},
		"two that write blindly":           {2, []string{"SET", "", "blind"}, false},
		"two that read several":            {2, []string{"MGET", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			session := func(i int) string { return fmt.Sprintf("ctx:s%d", i%kind.clients) }
			var url string
			if kind.cluster {
				cluster := harness.StartCluster(t, 3, 0)
				url, session = cluster.URL(), func(i int) string { return keyAt(cluster, cluster.Nodes[i%kind.clients]) }
			} else {
				url = harness.StartRedis(t).URL()
			}
			all := make([]*party, kind.clients)
			for i := range all {
				proxy := harness.StartProxy(t, harness.ProxyOptions{
					Name: fmt.Sprint(i), Upstream: url, ConfigYAML: guarding(options...),
				})
				all[i], _ = connect(t, fmt.Sprintf("client %d", i), proxy.Addr)
				all[i].does("OK", "SET", session(i), "v")
				for range 3 {
					all[i].does("v", "GET", session(i))
					all[i].does("OK", "SET", session(i), "v")
				}
				all[i].does("v", "GET", session(i))
			}
			ask := func(i int) {
				command := append([]string{}, kind.want...)
				command[1] = session(i + 1)
				if command[0] == "MGET" {
					command = append(command, fmt.Sprintf("ctx:t%d", i))
				}
				all[i].sends(command...)
			}
			replies := make(chan answer, kind.clients)
			for i, p := range all {
				ask(i)
				go func() {
					reply, err := p.read()
					replies <- answer{i, reply, err}
				}()
			}
			victim := -1
			for range kind.clients {
				switch next := <-replies; {
				case next.err != nil:
					t.Fatalf("client %d: %v", next.client, next.err)
				case !isError(next.reply, "LOCKED"): // it is served, and lets the one go on that waits for it
					all[next.client].does("OK", "SET", session(next.client), "mine")
				case victim < 0 && strings.HasPrefix(fmt.Sprint(next.reply), "LOCKED deadlock: "):
					victim = next.client
				default:
					t.Errorf("client %d hears %v; client %d has given way", next.client, next.reply, victim)
				}
			}
			if victim < 0 {
				t.Fatal("nobody gave way")
			}
			all[victim].fails("FENCED", "SET", session(victim), "stale")
		})
	}
}

// answer is what a client has heard.
type answer struct {
	client int
	reply  any
	err    error
}

// ofBoth guards sessions of each connection and sessions that all clients have in common.
const ofBoth = `rules:
  - {name: all, prefix: "all:", mode: lock, owner: proxy, wait: 60s, lease: 20s}
  - {name: own, prefix: "own:", mode: lock, owner: connection, wait: 60s, lease: 20s}
  - {name: team, prefix: "team:", mode: lock, owner: client, wait: 60s, lease: 20s}
`

// A command in line for one session keeps nobody from others that its owner has in common with the connection that it waits for, wherever
// the locks are.
func TestWhoStandsInLineDoesNotKeepTheHolderFromWhatTheyHaveInCommon(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, proxy *harness.Proxy) {
		t.Helper()
		for i, command := range []string{
			"MSET all:%d b own:%[1]d b team:%[1]d b", "MGET all:%d own:%[1]d team:%[1]d", "MULTI|SET team:%d b|SET all:%[1]d b|SET own:%[1]d b|EXEC",
			"WATCH w|MULTI|GET team:%d|GET all:%[1]d|GET own:%[1]d|EXEC",
		} {
			a, _ := connect(t, "A", proxy.Addr)
			b, _ := connect(t, "B", proxy.Addr)
			a.does(nil, "GET", fmt.Sprintf("own:%d", i))
			commands := strings.Split(fmt.Sprintf(command, i), "|")
			for _, words := range commands {
				b.sends(strings.Fields(words)...)
			}
			harness.Eventually(t, 0, func() bool {
				_, page := proxy.Page("/api/v1/queues")
				return strings.Contains(page, fmt.Sprintf("own:%d", i))
			}, "B stands in line")
			a.does("OK", "SET", fmt.Sprintf("all:%d", i), "a")
			a.does("OK", "SET", fmt.Sprintf("team:%d", i), "a")
			a.does("OK", "SET", fmt.Sprintf("own:%d", i), "a")
			for range commands[1:] {
				b.reply()
			}
			want := any([]any{"a", "a", "a"})
			switch {
			case strings.HasPrefix(command, "MSET"):
				want = "OK"
			case strings.Contains(command, "SET"):
				want = []any{"OK", "OK", "OK"}
			}
			b.hears(want)
		}
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, harness.StartProxy(t, harness.ProxyOptions{Redis: harness.StartRedis(t), Admin: true, ConfigYAML: ofBoth}))
	})
	eachProvider(t, func(e *elsewhere) {
		p := harness.StartProxy(e.t, harness.ProxyOptions{Redis: e.redis, Admin: true, ConfigYAML: e.locks() + ofBoth})
		e.ready(p)
		test(e.t, p)
	})
}

// Who waits for a session and holds another is in no circle while the holder only thinks.
func TestWhoOnlyWaitsLongIsNotTakenForDeadlocked(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, append([]string{"wait: 60s"}, longHolds[1:]...)...)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	c, _ := connect(t, "C", proxyB.Addr)
	a.does(nil, "GET", "ctx:a")
	b.does(nil, "GET", "ctx:b")
	a.sends("GET", "ctx:b")
	recordOf(t, server, "ctx:b").hasWaiters(1)
	c.sends("GET", "ctx:a")
	recordOf(t, server, "ctx:a").hasWaiters(1)
	b.does(nil, "GET", "ctx:free")
	b.does("OK", "SET", "ctx:b", "B's")
	a.hears("B's")
	a.does("OK", "SET", "ctx:a", "A's")
	c.hears("A's")
	a.does("OK", "SET", "ctx:b", "A's")
	harness.Eventually(t, 0, func() bool {
		return len(server.Client().Keys(t.Context(), "fence-proxy:waits:*").Val()) == 0
	}, "who waited says so no more")
}

// An owner of several connections has somebody who goes on while another waits, so it is in no circle.
func TestOwnersOfSeveralConnectionsAreNotTakenForDeadlocked(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, append([]string{"owner: proxy", "wait: 60s"}, longHolds[1:]...)...)
	a1, _ := connect(t, "A's first", proxyA.Addr)
	a2, _ := connect(t, "A's second", proxyA.Addr)
	b1, _ := connect(t, "B's first", proxyB.Addr)
	b2, _ := connect(t, "B's second", proxyB.Addr)
	a1.does(nil, "GET", "ctx:a")
	b1.does(nil, "GET", "ctx:b")
	a2.sends("GET", "ctx:b")
	recordOf(t, server, "ctx:b").hasWaiters(1)
	b2.sends("GET", "ctx:a")
	recordOf(t, server, "ctx:a").hasWaiters(1)
	// Whoever looks for circles says so.
	if said := server.Client().Keys(t.Context(), "fence-proxy:waits:*").Val(); len(said) > 0 {
		t.Errorf("%v", said)
	}
	a1.does("OK", "SET", "ctx:a", "A's")
	b2.hears("A's")
	b1.does("OK", "SET", "ctx:b", "B's")
	a2.hears("B's")
}
