//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// shortHolds end soon by themselves.
var shortHolds = []string{"wait: 20s", "lease: 300ms", "max_hold: 600ms", "record_ttl: 1m"}

// longHolds are ended by nothing but what the test does.
var longHolds = []string{"wait: 20s", "lease: 60s", "max_hold: 10m", "idle: 10m"}

// pauses are the ways in which a holder can stop in the middle of its turn, and go on.
var pauses = []struct {
	name string
	// hold connects the holder through its own proxy; pause stops it, resume makes it go on.
	hold func(t *testing.T, proxy *harness.Proxy) (holder *party, pause, resume func())
}{
	{"its process is frozen", func(t *testing.T, proxy *harness.Proxy) (*party, func(), func()) {
		t.Helper()
		a, process := spawn(t, "A", proxy.Addr)
		return a, process.Pause, process.Resume
	}},
	{"its proxy is frozen", func(t *testing.T, proxy *harness.Proxy) (*party, func(), func()) {
		t.Helper()
		a, _ := connect(t, "A", proxy.Addr)
		return a, proxy.Pause, proxy.Resume
	}},
	{"its network is silent", func(t *testing.T, proxy *harness.Proxy) (*party, func(), func()) {
		t.Helper()
		network := harness.StartRelay(t, proxy.Addr)
		a, _ := connect(t, "A", network.Addr)
		return a, func() { network.Blackhole(true) }, func() { network.Blackhole(false) }
	}},
}

// fences are the two ways in which the store is made to refuse: by the fence that stands since the read, and by
// a check that comes with the write. place makes it so for a session that was just read.
var fences = []struct {
	name  string
	place func(a *party)
}{
	{"the fence stands", func(*party) {}},
	{"the fence is elsewhere", func(a *party) { a.does(nil, "GET", "ctx:elsewhere") }},
}

// Cases 4 and 18.
func TestHolderThatPausedPastMaxHoldIsRefused(t *testing.T) {
	t.Parallel()
	for _, pause := range pauses {
		t.Run(pause.name+" while its successor reads", func(t *testing.T) {
			testPausedHolder(t, pause.hold, false)
		})
		t.Run(pause.name+" while its successor writes", func(t *testing.T) {
			testPausedHolder(t, pause.hold, true)
		})
	}
}

func testPausedHolder(t *testing.T, hold func(*testing.T, *harness.Proxy) (*party, func(), func()), written bool) {
	t.Helper()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding(shortHolds...)})
	proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding(longHolds...)})
	record := recordOf(t, server, key)
	b, _ := connect(t, "B", proxyB.Addr)
	b.does("OK", "SET", key, "before")

	a, pause, resume := hold(t, proxyA)
	a.does("before", "GET", key)
	holder := record.holder()
	pause()
	a.sends("SET", key, "A's, stale") // on its way, or to be sent, when A goes on
	b.does("before", "GET", key)      // waits until A's hold has ended
	if record.holder() == holder {
		t.Fatal("B has read the session in the middle of A's hold")
	}
	if written {
		b.does("OK", "SET", key, "B's")
	}

	resume()
	a.hearsError("FENCED")
	if written {
		wantValue(t, server, key, "B's")
	} else {
		wantValue(t, server, key, "before")
		b.does("OK", "SET", key, "B's")
		wantValue(t, server, key, "B's")
	}
	a.does("B's", "GET", key)
}

// A pause leaves it open whether the holder's own proxy or the store refuses. Here the proxy has no way to
// know. Case 7.
func TestStoreRefusesAHolderWhoseProxyThinksItStillHolds(t *testing.T) {
	t.Parallel()
	for _, fence := range fences {
		t.Run(fence.name+", its successor has read", func(t *testing.T) {
			testHolderUnawares(t, fence.place, false)
		})
		t.Run(fence.name+", its successor has written", func(t *testing.T) {
			testHolderUnawares(t, fence.place, true)
		})
	}
}

func testHolderUnawares(t *testing.T, place func(*party), written bool) {
	t.Helper()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding(longHolds...)})
	proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding(longHolds...)})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	a.does(nil, "GET", key)
	place(a)
	record.loses(record.hold) // as if the lease had ended
	b.does(nil, "GET", key)
	want := ""
	if written {
		b.does("OK", "SET", key, "B's")
		want = "B's"
	}
	a.fails("FENCED", "SET", key, "A's, stale")
	wantValue(t, server, key, want)
	if !written {
		b.does("OK", "SET", key, "B's")
		wantValue(t, server, key, "B's")
	}
}

// A holder is not refused for a clock's sake: only somebody else's grant makes its read stale.
func TestHolderThatPausedPastItsLeaseGoesOnIfNobodyCame(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding("lease: 300ms", "max_hold: 10m", "idle: 10m"),
	})
	record := recordOf(t, server, key)
	for _, next := range []string{"writes", "reads again", "holds again"} {
		t.Run("it "+next, func(t *testing.T) {
			a, _ := connect(t, "A", proxy.Addr)
			a.does("OK", "SET", key, "before")
			a.does("before", "GET", key)
			holder := record.holder()
			proxy.Pause()
			record.becomesFree()
			proxy.Resume()
			switch next {
			case "reads again":
				a.does("before", "GET", key)
			case "holds again":
				harness.Eventually(t, 0, func() bool { return record.holder() == holder }, "A holds the session again")
			}
			a.does("OK", "SET", key, "A's")
			wantValue(t, server, key, "A's")
		})
	}
}
