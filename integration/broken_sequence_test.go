//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A sequence that was broken off is reported at its owner's next guarded command, once.
func TestBrokenSequenceIsReportedOnceAndThenWorksAgain(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	for _, broken := range []struct {
		name    string
		options []string
		wait    func(proxy *harness.Proxy, record *record) // until it is
	}{
		{
			"by max_hold", shortHolds,
			func(proxy *harness.Proxy, r *record) { proxy.WaitLog(r.t, "hold reached max_hold and was revoked") },
		},
		{
			"by the loss of its record", longHolds,
			func(_ *harness.Proxy, r *record) { r.loses(r.token, r.hold, r.queue) },
		},
	} {
		for _, next := range []struct {
			name    string
			command []string
		}{
			{"a read", []string{"GET", key}},
			{"a read of something else", []string{"STRLEN", key}},
			{"a write", []string{"SET", key, "A's, stale"}},
		} {
			t.Run(broken.name+", at "+next.name, func(t *testing.T) {
				server := harness.StartRedis(t)
				proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(broken.options...)})
				a, _ := connect(t, "A", proxy.Addr)
				a.does("OK", "SET", key, "before")
				a.does("before", "GET", key)
				broken.wait(proxy, recordOf(t, server, key))

				a.does("PONG", "PING") // is none of its business
				a.does("OK", "SET", "unguarded", "yes")
				a.does(nil, "GET", "ctx:another session")
				a.fails("FENCED", next.command...)
				wantValue(t, server, key, "before")

				// The read is good at once; the write is, unless it takes longer than the rule lets it.
				harness.Eventually(t, 0, func() bool {
					a.does("before", "GET", key)
					a.sends("SET", key, "A's")
					reply := a.reply()
					if reply != "OK" && !(broken.name == "by max_hold" && isError(reply, "FENCED")) {
						t.Fatalf("A's next write: %v", reply)
					}
					return reply == "OK"
				}, "A's next sequence ends well")
				wantValue(t, server, key, "A's")
			})
		}
	}
}

// An atomic update depends on no read, so it is not refused for the loss of the grant; what was read before it is
// stale all the same. Case 5.
func TestAtomicWriteDoesNotMakeAStaleReadGood(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	for _, fence := range fences {
		t.Run(fence.name, func(t *testing.T) {
			proxies := startPair(t, guarding(longHolds...))
			record := recordOf(t, proxies.redis, key)
			a, _ := connect(t, "A", proxies.first.Addr)
			b, _ := connect(t, "B", proxies.second.Addr)
			a.does(nil, "GET", key)
			fence.place(a)
			record.loses(record.hold)
			b.does(nil, "GET", key)
			b.does("OK", "SET", key, "B's")
			a.does(int64(len("B's, A's")), "APPEND", key, ", A's")
			a.fails("FENCED", "SET", key, "A's, stale")
			wantValue(t, proxies.redis, key, "B's, A's")
			a.does("B's, A's", "GET", key)
			a.does("OK", "SET", key, "A's")
		})
	}
}

func TestBrokenSequenceLeavesTheOthersOfItsOwnerAlone(t *testing.T) {
	t.Parallel()
	const key, other = "ctx:s", "ctx:other"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", key)
	a.does(nil, "GET", other)
	record.loses(record.token)
	a.does("OK", "SET", other, "A's")
	a.fails("FENCED", "SET", key, "A's, stale")
	a.does("A's", "GET", other)
	wantValue(t, server, key, "")
}
