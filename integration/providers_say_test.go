//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What is acquired over one proxy is renewed, used and ended over another.
func TestGrantsApartOfALockProviderAreHandedOn(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		one, two := e.proxy("one", keptHolds...), e.proxy("two", keptHolds...)
		a, _ := connect(t, "A", one.Addr)
		b, _ := connect(t, "B", two.Addr)
		c, _ := connect(t, "C", two.Addr)
		grant := a.acquires(key, "TTL", "5s")
		a.does("OK", "SET", key, "A's")
		b.does("OK", "FENCE.DO", grant, "SET", key, "B's under A's grant")
		b.does(int64(60000), "FENCE.RENEW", key, grant, "TTL", "1m")
		a.does(int64(60000), "FENCE.RENEW", key, grant, "TTL", "1m")
		c.sends("GET", key)
		b.does(int64(1), "FENCE.RELEASE", key, grant)
		c.hears("B's under A's grant")
		b.does(int64(0), "FENCE.RELEASE", key, grant)
		b.fails("FENCED", "FENCE.RENEW", key, grant)
		b.fails("FENCED", "FENCE.DO", grant, "SET", key, "stale")
		c.does("OK", "SET", key, "C's")

		grant = a.acquires("job", "TTL", "1m") // which no rule guards
		b.sends("FENCE.ACQUIRE", "job", "WAIT", "1m")
		a.does(int64(1), "FENCE.RELEASE", "job", grant)
		if reply := b.reply(); reflect.TypeOf(reply) != reflect.TypeFor[int64]() {
			t.Fatalf("B acquires: %v", reply)
		}

		a.acquires(key, "TTL", "5s")
		c.sends("GET", key)
		b.does(int64(1), "FENCE.BREAK", key)
		c.hears("C's")
		a.fails("FENCED", "SET", key, "A's, stale")
		b.does(int64(1), "FENCE.BREAK", key) // C's own
		c.fails("FENCED", "SET", key, "C's, stale")
		a.does("C's", "GET", key)
		b.does(int64(1), "FENCE.BREAK", key) // of another proxy's client
		c.does("C's", "GET", key)
		a.fails("FENCED", "SET", key, "A's, stale")
		b.sends("FENCE.INSPECT", key)
		if text := fmt.Sprint(b.reply()); !strings.Contains(text, "provider "+e.name) || !strings.Contains(text, "holder [proxy") {
			t.Errorf("INSPECT: %s", text)
		}
		b.sends("FENCE.LIST", "ctx")
		if text := fmt.Sprint(b.reply()); !strings.Contains(text, "session "+key) {
			t.Errorf("LIST: %s", text)
		}
		b.sends("FENCE.EXPLAIN", key)
		if text := fmt.Sprint(b.reply()); !strings.Contains(text, "mode lock") {
			t.Errorf("EXPLAIN: %s", text)
		}
		c.does("OK", "SET", key, "end")
	})
}

func TestAGrantApartEndsElsewhereWithItsTimeOrItsProxy(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		const key = "ctx:s"
		one, two := e.proxy("one", keptHolds...), e.proxy("two", keptHolds...)
		a, _ := connect(t, "A", one.Addr)
		b, _ := connect(t, "B", two.Addr)
		a.sends("FENCE.ACQUIRE", key, "TTL", "300ms")
		grant := fmt.Sprint(a.reply())
		b.does(nil, "GET", key)
		b.does("OK", "SET", key, "B's")
		a.fails("FENCED", "FENCE.RENEW", key, grant)
		a.acquires(key, "TTL", "5s")
		one.Kill()
		b.does("B's", "GET", key)
		b.does("OK", "SET", key, "B's again")
	})
}

func TestExecHoldsItsSessionElsewhere(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		dir := t.TempDir()
		config := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(config, []byte(fmt.Sprintf("upstream:\n  url: %q\n", e.redis.URL())+e.locks()+"rules: []\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		proxy := e.proxy("proxy")
		client, _ := connect(t, "client", proxy.Addr)
		started, end := filepath.Join(dir, "started"), filepath.Join(dir, "end")
		wait := fmt.Sprintf(`echo $FENCE_GRANT >%s.part; mv %s.part %s; while [ ! -e %s ]; do sleep 0.05; done`, started, started, started, end)
		first := execute(t, e.redis, []string{"--config", config}, "sh", "-c", wait)
		harness.Eventually(t, 0, func() bool { _, err := os.Stat(started); return err == nil }, "the first runs")
		execute(t, e.redis, []string{"--config", config, "--wait", "0s"}, "true").ends(75)
		text, err := os.ReadFile(started)
		if err != nil {
			t.Fatal(err)
		}
		grant := strings.TrimSpace(string(text))
		client.does("OK", "FENCE.DO", grant, "SET", "job", "under its grant")
		second := execute(t, e.redis, []string{"--config", config, "--wait", "1m"}, "true")
		if err := os.WriteFile(end, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		first.ends(0)
		second.ends(0)
		client.fails("FENCED", "FENCE.DO", grant, "SET", "job", "stale")

		lost := execute(t, e.redis, []string{"--config", config, "--wait", "1m", "--grace", "100ms"}, "sleep", "60")
		var holder string
		harness.Eventually(t, 0, func() bool {
			client.sends("FENCE.INSPECT", "job")
			holder = fmt.Sprint(client.reply())
			return strings.Contains(holder, "exec, process")
		}, "exec holds the session")
		client.does(int64(1), "FENCE.BREAK", "job")
		lost.ends(128 + 15)
	})
}

// What holds no session before it is sent: it is granted one by the provider first.
func TestCommandsOfEveryKindAreGrantedElsewhere(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"lock", "fence"} {
		t.Run(mode, func(t *testing.T) {
			eachProvider(t, func(e *elsewhere) {
				t := e.t
				proxy, other := e.proxy("one", append([]string{"mode: " + mode}, keptHolds...)...), e.proxy("two", append([]string{"mode: " + mode}, keptHolds...)...)
				a, _ := connect(t, "A", proxy.Addr)
				b, _ := connect(t, "B", other.Addr)
				a.does("OK", "SET", "ctx:a", "1")
				a.does(int64(2), "INCR", "ctx:a")
				b.does(int64(1), "RPUSH", "ctx:l", "x")
				a.does("OK", "MSET", "ctx:a", "3", "ctx:b", "4")
				b.does([]any{"3", "4"}, "MGET", "ctx:a", "ctx:b")
				b.does("OK", "MSET", "ctx:a", "5", "ctx:b", "6")

				a.does("OK", "MULTI")
				a.does("QUEUED", "INCR", "ctx:a")
				a.does("QUEUED", "GET", "ctx:b")
				a.does([]any{int64(6), "6"}, "EXEC")
				b.sends("SET", "ctx:b", "7") // mode lock: A holds what its transaction has read
				if mode == "lock" {
					a.does("OK", "SET", "ctx:b", "A's")
				}
				b.hears("OK")

				a.does("OK", "WATCH", "ctx:a")
				a.does("6", "GET", "ctx:a")
				a.does("OK", "MULTI")
				a.does("QUEUED", "SET", "ctx:a", "8")
				a.does([]any{"OK"}, "EXEC")
				a.does("OK", "WATCH", "ctx:w")
				a.does("OK", "MULTI")
				a.does("QUEUED", "SET", "ctx:w", "v")
				e.redis.Client().Set(t.Context(), "ctx:w", "by somebody", 0)
				a.does(nil, "EXEC")

				a.does([]any{"ctx:l", "x"}, "BLPOP", "ctx:l", "0")
				a.sends("BLPOP", "ctx:l", "0")
				b.does(int64(1), "RPUSH", "ctx:l", "y")
				a.hears([]any{"ctx:l", "y"})

				a.does("OK", "FENCE.ONCE", "id", "1m", "SET", "ctx:once", "v")
				b.does("OK", "SET", "ctx:once", "later")
				a.does("OK", "FENCE.ONCE", "id", "1m", "SET", "ctx:once", "v")
				wantValue(t, e.redis, "ctx:once", "later")
				a.fails("WRONGTYPE", "LPUSH", "ctx:a", "x")
				b.does(int64(9), "INCR", "ctx:a")
				a.fails("FENCEDENIED", "SET", "fence-proxy:x", "v")
				e.redis.Client().FlushAll(t.Context())
				a.does("OK", "SET", "ctx:a", "after the flush")
				b.does("after the flush", "GET", "ctx:a")
				e.redis.Client().FlushAll(t.Context())
				b.fails("FENCED", "SET", "ctx:a", "stale")
				a.does(nil, "GET", "ctx:a")
				a.does("OK", "SET", "ctx:a", "A's")
			})
		})
	}
}

func TestClientsThatWaitForEachOtherElsewhereAreUntangled(t *testing.T) {
	t.Parallel()
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		options := append([]string{"wait: 60s"}, keptHolds[1:]...)
		one, two := e.proxy("one", options...), e.proxy("two", options...)
		a, _ := connect(t, "A", one.Addr)
		b, _ := connect(t, "B", two.Addr)
		a.does(nil, "GET", "ctx:a")
		b.does(nil, "GET", "ctx:b")
		a.sends("GET", "ctx:b")
		b.sends("GET", "ctx:a")
		replies := []any{a.reply(), b.reply()}
		refused := 0
		for _, reply := range replies {
			if isError(reply, "LOCKED") && strings.Contains(fmt.Sprint(reply), "deadlock") {
				refused++
			} else if reply != nil {
				t.Errorf("a reply is %v", reply)
			}
		}
		if refused != 1 {
			t.Errorf("%d are refused: %v", refused, replies)
		}
	})
}
