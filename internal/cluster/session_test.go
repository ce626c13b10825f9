//go:build integration

package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestEachNodeHearsWhoTheClientIs(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	for _, n := range of.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~u*", "+@all").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := dial(t, c)
	l.expect("AUTH u wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n", "SET u1 1", ok, "AUTH u p", ok, "CLIENT SETNAME me", ok)
	for i := range 20 {
		l.expect(fmt.Sprint("SET u", i, " 1"), ok)
		l.expect(fmt.Sprint("SET x", i, " 1"), "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n")
	}
	l.send("HELLO 3")
	if got := l.read(); got[0] != '%' || !strings.Contains(got, "standalone") {
		t.Errorf("HELLO 3: %q", got)
	}
	l.expect("HGETALL u", "%0\r\n", "CLIENT GETNAME", "$2\r\nme\r\n")
	for _, n := range of.Nodes {
		list, _ := n.Client().ClientList(t.Context()).Result()
		if strings.Count(list, "name=me ") != 1 {
			t.Errorf("%s: %s", n.Addr, list)
		}
	}
	l.send("RESET")
	if got := l.read(); got != "+RESET\r\n" {
		t.Errorf("RESET: %q", got)
	}
	l.expect("HGETALL u", "*0\r\n", "SET x 1", ok)
	l.expect("QUIT", ok)
	l.closed()
}

func TestScriptsAreAtEveryNodeAlsoAtOneThatJoins(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	ctx := t.Context()
	r := client(t, c)
	incr := redis.NewScript(`return redis.call("INCR", KEYS[1])`)
	sha, err := r.ScriptLoad(ctx, `return redis.call("INCR", KEYS[1])`).Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if n, err := r.EvalSha(ctx, sha, []string{fmt.Sprint("k", i)}).Int(); n != 1 || err != nil {
			t.Errorf("k%d: %d, %v", i, n, err)
		}
	}
	if known, err := r.ScriptExists(ctx, sha, strings.Repeat("0", 40)).Result(); fmt.Sprint(known) != "[true false]" || err != nil {
		t.Errorf("SCRIPT EXISTS: %v, %v", known, err)
	}
	joined := of.AddPrimary()
	of.Migrate(of.Slot("k1"), joined)
	of.Migrate(of.Slot("k2"), joined)
	l := dial(t, c)
	l.expect("EVALSHA "+sha+" 1 k1", ":2\r\n")
	if err := joined.Client().ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	l.expect("EVALSHA "+sha+" 1 k2", ":2\r\n")
	joined.Client().ScriptFlush(ctx)
	joined.Client().ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	harness.Eventually(t, 0, func() bool { // once the ends of the connections have been noticed
		l := dial(t, c)
		l.expect("MULTI", ok, "EVALSHA "+sha+" 1 k1", queued)
		l.send("EXEC")
		return l.read() == "*1\r\n:3\r\n"
	}, "a transaction's script is at a node that was restarted")
	if err := r.ScriptFlush(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	dial(t, c).expect("EVALSHA "+sha+" 1 k1", "-NOSCRIPT No matching script. Please use EVAL.\r\n")
	if n, err := incr.Run(ctx, r, []string{"k1"}).Int(); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	dial(t, c).expect("EVALSHA "+sha+" 1 k9", ":2\r\n") // another node, to which EVAL has not brought it
}

func TestWhoBlocksHoldsUpItsOwnConnectionOnly(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	l, other := dial(t, c), dial(t, c)
	l.send("BLPOP list 0", "SET a after", "GET a")
	blocked := func(n int64) func() bool {
		return func() bool {
			info, _ := of.Of("list").Client().Info(t.Context(), "clients").Result()
			return strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r\n", n))
		}
	}
	harness.Eventually(t, 0, blocked(1), "the client is blocked")
	other.expect("EXISTS a", ":0\r\n", "RPUSH list x", ":1\r\n")
	for _, want := range []string{"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n", ok, "$5\r\nafter\r\n"} {
		if got := l.read(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for name, leave := range map[string]func(l *line){
		"with nothing behind": func(*line) {},
		"with more behind":    func(l *line) { l.send("SET b after") },
	} {
		l := dial(t, c)
		l.send("BLPOP list 0")
		harness.Eventually(t, 0, blocked(1), "the client is blocked")
		leave(l)
		_ = l.Close()
		harness.Eventually(t, 0, blocked(0), "who goes is blocked no more, "+name)
		other.expect("EXISTS b", ":0\r\n")
	}
}

func TestScanFindsAllThoughSlotsMove(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	r := client(t, c)
	ctx := t.Context()
	const keys = 2000
	pipe := r.Pipeline()
	for i := range keys {
		pipe.Set(ctx, fmt.Sprint("k", i), "", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	cursor, steps := uint64(0), 0
	for {
		some, next, err := r.Scan(ctx, cursor, "", 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range some {
			found[key] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
		if steps++; steps == 10 || steps == 18 { // from what has not been scanned to what has
			key := fmt.Sprint("k", keys-steps)
			of.Migrate(of.Slot(key), elsewhere(of, key))
			if err := r.Get(ctx, key).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(found) != keys {
		t.Errorf("%d keys are found of %d", len(found), keys)
	}
}

func TestPublishedMessagesReachSubscribers(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			l, other := dial(t, c), dial(t, c)
			push := "*"
			if protocol == 3 {
				push = ">"
				l.send("HELLO 3")
				l.read()
			}
			l.expect("SUBSCRIBE a b", push+"3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n")
			if got := l.read(); got != push+"3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n" {
				t.Errorf("%q", got)
			}
			l.expect("PSUBSCRIBE x*", push+"3\r\n$10\r\npsubscribe\r\n$2\r\nx*\r\n:3\r\n")
			other.expect("PUBSUB NUMSUB a z", "*4\r\n$1\r\na\r\n:1\r\n$1\r\nz\r\n:0\r\n", "PUBSUB NUMPAT", ":1\r\n")
			for _, n := range of.Nodes { // from whichever node
				n.Client().Publish(t.Context(), "a", "m")
				if got := l.read(); got != push+"3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n" {
					t.Errorf("%q", got)
				}
			}
			n := of.Nodes[0].Client()
			n.Publish(t.Context(), "xy", "m")
			if got := l.read(); got != push+"4\r\n$8\r\npmessage\r\n$2\r\nx*\r\n$2\r\nxy\r\n$1\r\nm\r\n" {
				t.Errorf("%q", got)
			}
			if protocol == 2 {
				l.expect("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
				l.send("GET a")
				if got := l.read(); !strings.HasPrefix(got, "-ERR Can't execute 'get'") {
					t.Errorf("%q", got)
				}
			} else {
				l.expect("SET k v", ok, "GET k", "$1\r\nv\r\n", "MGET k a b", "*3\r\n$1\r\nv\r\n_\r\n_\r\n")
			}
			l.send("UNSUBSCRIBE", "PUNSUBSCRIBE")
			for range 3 {
				if got := l.read(); !strings.Contains(got, "unsubscribe") {
					t.Errorf("%q", got)
				}
			}
			l.expect("SET k v", ok)
		})
	}
	t.Run("of a shard", func(t *testing.T) {
		l := dial(t, c)
		l.send("HELLO 3")
		l.read()
		for _, channel := range []string{"a", "b", "c"} {
			l.expect("SSUBSCRIBE "+channel, ">3\r\n$10\r\nssubscribe\r\n$1\r\n"+channel+"\r\n:1\r\n")
			dial(t, c).expect("SPUBLISH "+channel+" m", ":1\r\n")
			if got, want := l.read(), ">3\r\n$8\r\nsmessage\r\n$1\r\n"+channel+"\r\n$1\r\nm\r\n"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		l.expect("SET a 1", ok)
	})
}

// A script at any primary sees whether somebody listens to a channel that is heard everywhere.
func TestSomeChannelsAreHeardAtEveryPrimary(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 1)
	c := open(t, of)
	sub := client(t, c).Subscribe(t.Context(), "fence-proxy:wake:x")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := func(n *harness.ClusterNode) func() bool {
		return func() bool {
			n, _ := n.Client().PubSubNumSub(t.Context(), "fence-proxy:wake:x").Result()
			return n["fence-proxy:wake:x"] == 1
		}
	}
	for _, n := range of.Nodes[:3] {
		harness.Eventually(t, 0, heard(n), "it is heard at "+n.Addr)
	}
	keys := dial(t, c)
	of.Failover(of.Nodes[4])
	keys.expect("EXISTS "+of.Key(8000, ""), ":0\r\n") // the front is told that its slot has moved
	harness.Eventually(t, 0, heard(of.Nodes[4]), "it is heard at a primary that was a replica")
	joined := of.AddPrimary()
	of.Migrate(1, joined)
	keys.expect("EXISTS "+of.Key(1, ""), ":0\r\n")
	harness.Eventually(t, 0, heard(joined), "it is heard at a primary that has joined")
	if err := joined.Client().Publish(t.Context(), "fence-proxy:wake:x", "m").Err(); err != nil {
		t.Fatal(err)
	}
	for {
		switch m, err := sub.ReceiveTimeout(t.Context(), 20*time.Second); m := m.(type) {
		case *redis.Message:
			if m.Payload != "m" {
				t.Errorf("%v", m)
			}
			return
		default:
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestInvalidationsComeFromAllNodes(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	l, other := dial(t, c), dial(t, c)
	l.send("HELLO 3", "CLIENT TRACKING ON")
	l.read()
	if got := l.read(); got != ok {
		t.Fatalf("%q", got)
	}
	for _, key := range []string{"a", "b", "c"} {
		l.expect("GET "+key, "_\r\n")
		other.expect("SET "+key+" 1", ok)
		if got, want := l.read(), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n"+key+"\r\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
