//go:build integration

package cluster_test

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	queued    = "+QUEUED\r\n"
	ok        = "+OK\r\n"
	crossSlot = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	abort     = "-EXECABORT Transaction discarded because of previous errors.\r\n"
)

func TestATransactionIsCarriedOutAtTheNodeOfItsKeys(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	inOnePiece := func(l *line, pairs ...string) { l.tb.Helper(); l.expect(pairs...) }
	oneByOne := func(l *line, pairs ...string) {
		l.tb.Helper()
		for i := 0; i < len(pairs); i += 2 {
			l.expect(pairs[i], pairs[i+1])
		}
	}
	for name, say := range map[string]func(*line, ...string){"in one piece": inOnePiece, "one by one": oneByOne} {
		t.Run(name, func(t *testing.T) {
			l, other := dial(t, c), dial(t, c)
			for _, key := range []string{"a", "b", "c"} { // at three nodes
				say(l,
					"DEL "+key, ":0\r\n",
					"MULTI", ok, "PING", queued, "SET "+key+" 1", queued, "INCR "+key, queued, "TIME x", "-ERR wrong number of arguments for 'time' command\r\n", "EXEC", abort,
					"MULTI", ok, "PING", queued, "SET "+key+" 1", queued, "INCR "+key, queued, "ECHO x", queued,
					"EXEC", "*4\r\n+PONG\r\n+OK\r\n:2\r\n$1\r\nx\r\n",
					"MULTI", ok, "INCR "+key, queued, "DISCARD", ok, "GET "+key, "$1\r\n2\r\n",
					"WATCH "+key, ok, "MULTI", ok, "INCR "+key, queued, "EXEC", "*1\r\n:3\r\n",
				)
				say(l, "WATCH "+key, ok)
				say(other, "INCR "+key, ":4\r\n")
				say(l, "MULTI", ok, "INCR "+key, queued, "EXEC", "*-1\r\n", "GET "+key, "$1\r\n4\r\n")
				say(l, "WATCH "+key, ok)
				say(other, "INCR "+key, ":5\r\n")
				say(l, "UNWATCH", ok, "MULTI", ok, "INCR "+key, queued, "EXEC", "*1\r\n:6\r\n", "DEL "+key, ":1\r\n")
			}
			say(l,
				"MULTI", ok, "SET a 1", queued, "SET b 1", crossSlot, "PING", queued, "EXEC", abort,
				"EXISTS a", ":0\r\n",
				"WATCH a", ok, "WATCH b", crossSlot, "UNWATCH", ok,
				"WATCH b", ok, "MULTI", ok, "SET a 1", crossSlot, "EXEC", abort, "EXISTS a", ":0\r\n",
				"MULTI", ok, "RESET x", "-ERR wrong number of arguments for 'reset' command\r\n", "SET a 1", queued, "EXEC", abort, "EXISTS a", ":0\r\n",
				"MULTI", ok, "GETT a", "-ERR unknown command 'GETT', with args beginning with: 'a' \r\n", "SET a 1", queued, "EXEC", abort, "EXISTS a", ":0\r\n",
				"MULTI", ok, "EXEC x", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n", "EXISTS a", ":0\r\n",
				"MULTI", ok, "PING", queued, "RESET", "+RESET\r\n", "PING", "+PONG\r\n", "RESET", "+RESET\r\n",
			)
		})
	}
}

func TestATransactionWithoutKeysAndOneThatIsNone(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	dial(t, c).expect(
		"EXEC", "-ERR EXEC without MULTI\r\n", "DISCARD", "-ERR DISCARD without MULTI\r\n", "UNWATCH", ok,
		"MULTI", ok, "EXEC", "*0\r\n", "MULTI", ok, "DISCARD", ok,
		"MULTI", ok, "MULTI", "-ERR MULTI calls can not be nested\r\n", "PING", queued, "EXEC", "*1\r\n+PONG\r\n",
		"MULTI", ok, "WATCH a", "-ERR WATCH inside MULTI is not allowed\r\n", "SET a 1", queued, "EXEC", "*1\r\n+OK\r\n",
		"MULTI", ok, "NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n", "EXEC", abort,
		"MULTI", ok, "GET a", queued, "RESET", "+RESET\r\n", "GET a", "$1\r\n1\r\n",
	)
}

func TestAllNodesAreNotForATransaction(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	for _, command := range []string{"FLUSHALL", "DBSIZE", "KEYS *", "SCAN 0", "SUBSCRIBE c", "SCRIPT FLUSH", "MONITOR", "HELLO 3"} {
		l := dial(t, c)
		l.send("MULTI", command, "EXEC")
		if l.read() != ok {
			t.Error("MULTI")
		}
		if got := l.read(); !strings.HasPrefix(got, "-ERR fence-proxy: ") {
			t.Errorf("%s: %q", command, got)
		}
		if got := l.read(); got != abort {
			t.Errorf("%s: then EXEC says %q", command, got)
		}
	}
}

// A client whose user may not use MULTI hears that from Redis at once.
func TestMultiIsRefusedWhereTheUserMayNotUseIt(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	for _, n := range of.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "-multi").Err(); err != nil {
			t.Fatal(err)
		}
	}
	const refused = "-NOPERM this user has no permissions to run the 'multi' command\r\n"
	l := dial(t, c)
	l.expect("AUTH u p", ok, "MULTI", refused)
	l = dial(t, c)
	l.expect("AUTH u p", ok, "MULTI", refused, "SET a 1", ok, "EXEC", "-ERR EXEC without MULTI\r\n")
	l = dial(t, c)
	l.expect("AUTH u p", ok, "MULTI", refused, "DISCARD", "-ERR DISCARD without MULTI\r\n")
}
