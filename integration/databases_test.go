//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What MOVE and COPY write in another database is fenced there.

func TestMoveAndCopySoundAsAtRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("wait: 0s"))
	for _, protocol := range []string{"2", "3"} {
		w.one(t, protocol, `
			A: SET ctx:a v EX 1000 ; MOVE ctx:a 1 ; EXISTS ctx:a => 3
			A: MOVE ctx:a 1 ; SET ctx:a w ; MOVE ctx:a 1 ; GET ctx:a => 4
			A: COPY ctx:a ctx:b DB 2 ; COPY ctx:a ctx:b DB 2 ; COPY ctx:a ctx:b DB 2 REPLACE => 3
			A: COPY free ctx:b DB 2 ; COPY ctx:a free DB 2 ; COPY ctx:a ctx:a DB 2 => 3
			A: MOVE ctx:a 99 ; MOVE ctx:a -1 ; COPY ctx:a ctx:b DB 99 ; COPY free ctx:b DB 99 ; MOVE ctx:a 0 => 5
			A: SET ctx:a x ; GET ctx:a => 2
			A: MULTI ; GET ctx:a ; COPY ctx:a ctx:c DB 1 ; SET free y ; MOVE ctx:a 2 ; MOVE ctx:none 1 ; EXEC => 7
			A: MULTI ; COPY free ctx:c DB 99 ; GET free ; EXEC => 4
			A: WATCH ctx:c ; MULTI ; MOVE ctx:c 3 ; COPY free ctx:d DB 3 ; EXEC => 5
			A: GET ctx:a ; SELECT 1 ; GET ctx:a ; GET ctx:c ; PERSIST ctx:a ; SET ctx:a moved => 6
			A: SELECT 2 ; GET ctx:b ; GET free ; GET ctx:a ; SET ctx:a z ; SELECT 0 => 6`)
	}
}

// recordIn is a key's record in another database.
func recordIn(t *testing.T, server *harness.Redis, db int, key string) *record {
	t.Helper()
	r := recordOf(t, server, key)
	r.redis = server.Client(func(o *redis.Options) { o.DB = db })
	return r
}

func TestWhatIsWrittenInAnotherDatabaseIsFencedThere(t *testing.T) {
	t.Parallel()
	writes := map[string][]string{
		"MOVE":                        {"MOVE", "ctx:s", "1"},
		"COPY":                        {"COPY", "ctx:other", "ctx:s", "DB", "1"},
		"COPY of what is not guarded": {"COPY", "free", "ctx:s", "DB", "1"},
	}
	for name, write := range writes {
		for _, in := range []string{"", " in a transaction"} {
			t.Run(name+in, func(t *testing.T) {
				server := harness.StartRedis(t)
				needs(t, server, strings.ToLower(write[0]))
				proxyA, proxyB := two(t, server, longHolds...)
				there := recordIn(t, server, 1, "ctx:s")
				a, _ := connect(t, "A", proxyA.Addr)
				b, conn := connect(t, "B", proxyB.Addr)
				for _, key := range []string{"ctx:s", "ctx:other", "free"} {
					a.does("OK", "SET", key, "written")
				}
				b.does("OK", "SELECT", "1")

				// B holds the session there: A waits, and does nothing.
				b.does(nil, "GET", "ctx:s")
				begin := func() {
					if in == "" {
						a.sends(write...)
						return
					}
					a.does("OK", "MULTI")
					a.does("QUEUED", write...)
					a.sends("EXEC")
				}
				begin()
				there.hasWaiters(1)
				b.does("OK", "SET", "ctx:s", "B's")
				if in == "" {
					a.hears(int64(0)) // there is one by now
				} else {
					a.hears([]any{int64(0)})
				}
				b.does(int64(1), "DEL", "ctx:s")

				// What B has read before A's write is stale.
				b.does(nil, "GET", "ctx:s")
				there.loses(there.hold) // as if the lease had ended
				begin()
				if in == "" {
					a.hears(int64(1))
				} else {
					a.hears([]any{int64(1)})
				}
				b.fails("FENCED", "SET", "ctx:s", "B's, stale")
				b.does("written", "GET", "ctx:s")
				b.does("OK", "SET", "ctx:s", "B's")
				_ = conn.Close()
				there.becomesFree()
				recordOf(t, server, "ctx:s").becomesFree()
			})
		}
	}
}

// A stale reader of what is moved away takes nothing away.
func TestAStaleMoveMovesNothing(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, longHolds...)
	here := recordOf(t, server, "ctx:s")
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	for _, in := range []string{"this database", "the other one"} {
		a.does("OK", "SET", "ctx:s", "before")
		b.does("OK", "SELECT", "0")
		lost := here
		if in == "the other one" {
			a.does("OK", "SELECT", "1")
			a.does(nil, "GET", "ctx:s")
			a.does("OK", "SELECT", "0")
			b.does("OK", "SELECT", "1")
			lost = recordIn(t, server, 1, "ctx:s")
		} else {
			a.does("before", "GET", "ctx:s")
		}
		lost.loses(lost.hold)
		b.does("OK", "SET", "ctx:s", "B's")
		a.fails("FENCED", "MOVE", "ctx:s", "1")
		if n := server.Client().Exists(t.Context(), "ctx:s").Val(); n != 1 {
			t.Errorf("stale in %s: the key is gone", in)
		}
		b.does(int64(1), "DEL", "ctx:s")
	}
}

// Without the right to SELECT nothing can be said about the other database's record.
func TestAUserWhoMayNotSelectMovesNoGuardedKey(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	allow(t, server, "agent", "+@all -select ~* &*")
	agent, _ := connect(t, "agent", proxy.Addr)
	agent.does("OK", "AUTH", "agent", "pw")
	agent.does("OK", "SET", "ctx:s", "v")
	agent.fails("FENCEDOWN", "MOVE", "ctx:s", "1")
	agent.does("v", "GET", "ctx:s")
	agent.does("OK", "SET", "ctx:s", "w")
}
