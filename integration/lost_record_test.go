//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// losses are the ways in which a fence record gets lost under a living Redis.
var losses = []struct {
	name string
	lose func(t *testing.T, server *harness.Redis, record *record)
	data bool // the data is lost with it, or may be
}{
	{"deleted", func(_ *testing.T, _ *harness.Redis, r *record) { r.loses(r.token, r.hold, r.queue) }, false},
	{"half deleted", func(_ *testing.T, _ *harness.Redis, r *record) { r.loses(r.token) }, false},
	{"flushed", flush, true},
	{"evicted", evict, true},
}

func flush(t *testing.T, server *harness.Redis, _ *record) {
	t.Helper()
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// evict fills Redis until it has thrown out the record's token, and then gives it room again.
func evict(t *testing.T, server *harness.Redis, r *record) {
	t.Helper()
	ctx, client := t.Context(), server.Client()
	configure := func(option, value string) {
		t.Helper()
		if err := client.ConfigSet(ctx, option, value).Err(); err != nil {
			t.Fatalf("CONFIG SET %s: %v", option, err)
		}
	}
	configure("maxmemory-policy", "allkeys-lru")
	configure("maxmemory", "8mb")
	filling := strings.Repeat("x", 512<<10)
	n := 0
	harness.Eventually(t, 0, func() bool {
		n++
		client.Set(ctx, fmt.Sprintf("filling:%d", n), filling, 0)
		return client.Exists(ctx, r.token).Val() == 0
	}, "Redis evicts the fence record")
	configure("maxmemory", "0")
}

// Case 43.
func TestOldHolderIsRefusedAfterItsRecordWasLost(t *testing.T) {
	t.Parallel()
	for _, loss := range losses {
		for _, successor := range []string{"nobody came", "its successor has read", "its successor has written"} {
			for _, fence := range fences {
				t.Run(loss.name+", "+successor+", "+fence.name, func(t *testing.T) {
					t.Parallel()
					testLostRecord(t, loss.lose, loss.data, successor, fence.place)
				})
			}
		}
	}
}

func testLostRecord(t *testing.T, lose func(*testing.T, *harness.Redis, *record), data bool, successor string, place func(*party)) {
	t.Helper()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding(longHolds...)})
	proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding(longHolds...)})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	last := uint64(0)
	granted := func(to string) {
		t.Helper()
		grant := record.grant()
		if grant <= last {
			t.Fatalf("%s is granted %d after %d", to, grant, last)
		}
		last = grant
	}
	// B reads what is left.
	reads := func() string {
		t.Helper()
		b.sends("GET", key)
		value, _ := b.reply().(string)
		granted("B")
		return value
	}

	a.does("OK", "SET", key, "before")
	granted("A's first write")
	a.does("before", "GET", key)
	granted("A")
	place(a)
	lose(t, server, record)
	kept := "before"
	if data {
		kept = server.Client().Get(t.Context(), key).Val()
	}
	switch successor {
	case "its successor has read":
		if value := reads(); value != kept {
			t.Fatalf("B reads %q, want %q", value, kept)
		}
	case "its successor has written":
		reads()
		b.does("OK", "SET", key, "B's")
		kept = "B's"
	}

	a.fails("FENCED", "SET", key, "A's, stale")
	wantValue(t, server, key, kept)

	switch successor {
	case "its successor has read":
		b.does("OK", "SET", key, "B's")
	case "nobody came":
		reads()
		b.does("OK", "SET", key, "B's")
	}
	a.does("B's", "GET", key)
	granted("A, again,")
	a.does("OK", "SET", key, "A's, in its turn")
	wantValue(t, server, key, "A's, in its turn")
}

// The record lost and the clock set back: the proxy remembers for both.
func TestGrantsGrowThoughTheRecordIsLostAndTheClockIsBehind(t *testing.T) {
	t.Parallel()
	const (
		key    = "ctx:s"
		future = 9_000_000_000_000_000 // microseconds; a clock gets there in 2255
	)
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
			record := recordOf(t, server, key)
			err := server.Client().Set(t.Context(), record.token, fmt.Sprintf("%d 0 0 redis", uint64(future)), 0).Err()
			if err != nil {
				t.Fatal(err)
			}
			a, _ := connect(t, "A", proxy.Addr)
			b, _ := connect(t, "B", proxy.Addr)
			a.does(nil, "GET", key)
			first := record.grant()
			if first <= future {
				t.Fatalf("A is granted %d after %d", first, uint64(future))
			}
			loss.lose(t, server, record)
			b.does(nil, "GET", key)
			if second := record.grant(); second <= first {
				t.Fatalf("B is granted %d after %d", second, first)
			}
			a.fails("FENCED", "SET", key, "A's, stale")
			b.does("OK", "SET", key, "B's")
			wantValue(t, server, key, "B's")
		})
	}
}

// Case 43, with a Redis that comes back empty. The holder's connection breaks with it, and nobody knows what
// became of its write: nothing is left that could present the old grant, and what it writes then
// waits for its turn.
func TestRedisThatComesBackEmptyAcceptsNothingFromTheOldHolder(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	network := harness.StartRelay(t, server.Addr, harness.WithCapture())
	options := guarding("wait: 200ms", "lease: 60s", "max_hold: 10m", "idle: 10m")
	proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Upstream: network.URL(), ConfigYAML: options})
	proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: options})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxyA.Addr)
	a.does("OK", "SET", key, "before")
	a.does("before", "GET", key)
	first := record.grant()
	server.Pause()
	a.sends("SET", key, "A's, under way")
	harness.Eventually(t, 0, func() bool {
		return slices.ContainsFunc(network.Connections(), func(c harness.Connection) bool {
			return bytes.Contains(c.Bytes[harness.ToServer], []byte("A's, under way"))
		})
	}, "A's write is on its way")
	server.RestartEmpty()
	a.hearsError("FENCEUNKNOWN")
	wantValue(t, server, key, "")

	b, _ := connect(t, "B", proxyB.Addr)
	b.does(nil, "GET", key)
	if second := record.grant(); second <= first {
		t.Errorf("B is granted %d after %d", second, first)
	}
	a.fails("LOCKED", "SET", key, "A's, stale")
	b.does("OK", "SET", key, "B's")
	wantValue(t, server, key, "B's")
	a.does("B's", "GET", key)
	a.does("OK", "SET", key, "A's, in its turn")
}

// Case 43, with owner: proxy. The sequence is not its connection's, so it outlives it.
func TestRedisThatComesBackEmptyRefusesAProxysOldSequence(t *testing.T) {
	t.Parallel()
	for _, successor := range []bool{false, true} {
		name := "nobody came"
		if successor {
			name = "its successor has written"
		}
		t.Run(name, func(t *testing.T) {
			const key = "ctx:s"
			server := harness.StartRedis(t)
			options := guarding(append([]string{"owner: proxy"}, longHolds...)...)
			proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: options})
			proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: options})
			record := recordOf(t, server, key)
			a, _ := connect(t, "A", proxyA.Addr)
			a.does(nil, "GET", key)
			first := record.grant()
			server.RestartEmpty()
			proxyA.WaitLog(t, "upstream connection of an idle client ended")

			want := ""
			if successor {
				want = "B's"
				b, _ := connect(t, "B", proxyB.Addr)
				b.does(nil, "GET", key)
				if second := record.grant(); second <= first {
					t.Errorf("B is granted %d after %d", second, first)
				}
				b.does("OK", "SET", key, want)
			}
			a.fails("FENCED", "SET", key, "A's, stale")
			wantValue(t, server, key, want)
		})
	}
}
