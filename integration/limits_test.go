//go:build integration

package integration

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// limited starts a proxy with these limits before a rule for "ctx:".
func limited(t *testing.T, server *harness.Redis, limits string, rule ...string) *harness.Proxy {
	t.Helper()
	return harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, Admin: true, ConfigYAML: "name: here\nlimits: {" + limits + "}\n" + guarding(rule...),
	})
}

// counts fails the test unless a metric has this value, soon.
func counts(t *testing.T, proxy *harness.Proxy, series string, want float64) {
	t.Helper()
	harness.Eventually(t, 0, func() bool { return proxy.Metric(series) == want }, fmt.Sprintf("%s is %v", series, want))
}

func TestOneClientMoreThanMayConnectIsTurnedAway(t *testing.T) {
	t.Parallel()
	proxy := limited(t, harness.StartRedis(t), "connections: 3")
	counts(t, proxy, "fence_proxy_connections", 0) // the harness has looked whether it listens
	clients := crowd(t, proxy, 3)
	counts(t, proxy, "fence_proxy_connections", 3)
	before := proxy.Metric("fence_proxy_connections_refused_total")
	for range 2 {
		other := harness.Dial(t, proxy.Addr)
		if got, want := string(other.ReadReply()), "-ERR max number of clients reached (limits.connections of fence-proxy here is 3)\r\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		other.ExpectClosed()
	}
	counts(t, proxy, "fence_proxy_connections_refused_total", before+2)
	clients[0].does("PONG", "PING")
	clients[0].does("OK", "QUIT")
	counts(t, proxy, "fence_proxy_connections", 2)
	if got := string(harness.Dial(t, proxy.Addr).Do("PING")); got != "+PONG\r\n" {
		t.Errorf("with room for one: %q", got)
	}
	if n := strings.Count(proxy.Logs(), "clients are turned away"); n != 1 {
		t.Errorf("the log says so %d times, want once", n)
	}
}

// Case 64.
func TestARequestBeyondALimitIsAnsweredAndEndsTheConnection(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithArgs("--proto-max-bulk-len", "1mb"))
	proxy := limited(t, server, "request: 2mb")
	tooBig := fmt.Sprintf("-ERR Protocol error: too big request (limits.request of fence-proxy here is 2mb; an argument counts for %d bytes more than it has)\r\n", 40)
	value := strings.Repeat("v", 1<<20)
	for _, c := range []struct{ name, request, reply, limit string }{
		{"three values that are two together", "*4\r\n$3\r\nDEL\r\n" + strings.Repeat("$1048576\r\n"+value+"\r\n", 2), tooBig, "request"},
		{"very many arguments", "*1000000\r\n" + strings.Repeat("$1\r\nx\r\n", 45_000), tooBig, "request"},
		{"a value longer than Redis takes", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n", "-ERR Protocol error: invalid bulk length\r\n", "bulk"},
		{"$9999999999", "*1\r\n$9999999999\r\n", "-ERR Protocol error: invalid bulk length\r\n", "bulk"},
		{"more arguments than Redis takes", "*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n", "arguments"},
		{"a request within a request", "*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'\r\n", "nesting"},
		{"a line without an end", strings.Repeat("x", 65537), "-ERR Protocol error: too big inline request\r\n", "inline"},
		{"no RESP", "*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n", "protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			series := fmt.Sprintf("fence_proxy_requests_refused_total{limit=%q}", c.limit)
			before := proxy.Metric(series)
			client := harness.Dial(t, proxy.Addr)
			if got := string(client.Do("ECHO", "x")); got != "$1\r\nx\r\n" {
				t.Fatalf("before it: %q", got)
			}
			client.Send(c.request)
			if got := string(client.ReadReply()); got != c.reply {
				t.Errorf("got %q, want %q", got, c.reply)
			}
			client.ExpectClosed()
			counts(t, proxy, series, before+1)
		})
	}
	client, _ := connect(t, "client", proxy.Addr)
	client.does(int64(0), "DEL", value) // as long as may be
	if err := server.Client().ConfigSet(t.Context(), "proto-max-bulk-len", "2mb").Err(); err != nil {
		t.Fatal(err)
	}
	client.does(int64(0), "DEL", value+"longer") // now it may
}

func TestTheUsualArgumentSizeCountsWhereRedisMayNotBeAsked(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	allow(t, server, "agent", "+@all -config ~* &*")
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: "redis://agent:pw@" + server.Addr})
	client := harness.Dial(t, proxy.Addr)
	client.Send("*1\r\n$536870913\r\n")
	if got, want := string(client.ReadReply()), "-ERR Protocol error: invalid bulk length\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	small := harness.Dial(t, proxy.Addr)
	if got := string(small.Do("ECHO", "x")); got != "$1\r\nx\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestARequestOfAsManyArgumentsAsRedisTakesPasses(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "")
	many := 1_200_000
	if !knows(t, server, "function") { // before 7.0
		many = 1 << 20
	}
	client, _ := connect(t, "client", proxy.Addr)
	args := make([]string, many)
	args[0] = "DEL"
	for i := range args[1:] {
		args[i+1] = "k"
	}
	client.does("OK", "SET", "k", "v")
	client.does(int64(1), args...)
}

func TestNoMoreClientsOfAllProxiesWaitForASessionThanMay(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := []string{"wait: 60s", "lease: 10m", "max_hold: 10m", "idle: 10m"}
	a, b := limited(t, server, "waiters: 2", options...), limited(t, server, "waiters: 2", options...)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", a.Addr)
	holder.does(nil, "GET", line.key)
	first, second := line.join("first", a), line.join("second", b)

	late, _ := connect(t, "late", a.Addr)
	for _, command := range [][]string{{"GET", line.key}, {"SET", line.key, "blind"}, {"RPUSH", line.key, "x"}} {
		got := late.fails("LOCKED", command...)
		if !strings.HasPrefix(got, `LOCKED rule "ctx" session "ctx:s" is held by client `) ||
			!strings.HasSuffix(got, ", and 2 wait for it, as many as limits.waiters allows. Nothing was written; try again later.") {
			t.Errorf("%s: %s", command[0], got)
		}
	}
	counts(t, a, `fence_proxy_acquisitions_total{outcome="full",rule="ctx"}`, 3)
	counts(t, a, `fence_proxy_refusals_total{error="LOCKED",rule="ctx"}`, 3)
	counts(t, b, `fence_proxy_acquisitions_total{outcome="full",rule="ctx"}`, 0)

	holder.does("OK", "SET", line.key, "holder")
	first.hears("holder")
	third := line.join("third", b)
	first.does("OK", "SET", line.key, "first")
	line.serve([]*waiter{second, third}, "first")
	line.isEmpty()
}

// Clients that are one owner wait for each other in the proxy, behind the one that waits in the
// store's line for all.
func TestNoMoreClientsOfOneOwnerWaitForItsTurnThanMay(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := []string{"wait: 60s", "lease: 10m", "max_hold: 10m", "idle: 10m", "owner: proxy"}
	other, proxy := limited(t, server, "", options...), limited(t, server, "waiters: 2", options...)
	holder, _ := connect(t, "holder", other.Addr)
	holder.does(nil, "GET", "ctx:s")
	clients := make([]*harness.RawConn, 5)
	for i := range clients {
		clients[i] = harness.Dial(t, proxy.Addr)
		clients[i].Send(harness.Encode("GET", "ctx:s"))
	}
	counts(t, proxy, `fence_proxy_acquisitions_total{outcome="full",rule="ctx"}`, 2)
	holder.does("OK", "SET", "ctx:s", "v")
	refused := 0
	for _, client := range clients {
		switch got := string(client.ReadReply()); {
		case strings.HasPrefix(got, "-LOCKED ") && strings.Contains(got, "2 wait for it, as many as limits.waiters allows"):
			refused++
		case got != "$1\r\nv\r\n":
			t.Errorf("got %q", got)
		}
	}
	if refused != 2 {
		t.Errorf("%d of five were refused, want two: one waits for all, and two for it", refused)
	}
}

// The proxy's heap is looked at as the system sees it: it never shrinks there, so a peak stays.
const heap = "go_memstats_heap_sys_bytes"

// staysSmall fails the test if the proxy's heap grows by more than so many megabytes.
func staysSmall(t *testing.T, proxy *harness.Proxy, most float64, during func()) {
	t.Helper()
	before := proxy.Metric(heap)
	during()
	if grown := (proxy.Metric(heap) - before) / (1 << 20); grown > most {
		t.Errorf("the heap has grown by %.0f MB, want %.0f at most", grown, most)
	} else {
		t.Logf("the heap has grown by %.0f MB", grown)
	}
}

// Case 64.
func TestWhatIsOnlyAnnouncedTakesNoMemory(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	const clients = 50
	part := strings.Repeat("v", 1<<20)
	for _, c := range []struct {
		name, sent string
		most       float64 // in MB
	}{
		{"two billion arguments", "*2000000000\r\n$3\r\nDEL\r\n", 32},
		{"an argument of ten billion bytes", "*2\r\n$3\r\nDEL\r\n$9999999999\r\n", 32},
		{"a value of 512 MB of which one is sent", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n" + part, 6 * clients},
		{"a line without an end", part, 32},
		{"a million arguments of which some are sent", "*1000000\r\n" + strings.Repeat("$1\r\nx\r\n", 10_000), 3 * clients},
	} {
		t.Run(c.name, func(t *testing.T) {
			proxy := limited(t, server, "")
			staysSmall(t, proxy, c.most, func() {
				all := make([]*harness.RawConn, clients)
				for i := range all {
					all[i] = harness.Dial(t, proxy.Addr)
					_, _ = all[i].Write([]byte(c.sent)) // it may be refused before the end
				}
				for _, client := range all {
					ends(t, client)
				}
			})
		})
	}
}

// Case 64, of clients that have said nothing else.
func TestAStrangerTakesNoMemory(t *testing.T) {
	t.Parallel()
	const clients = 50
	server := harness.StartRedis(t, harness.WithPassword("pw"))
	for name, sent := range map[string]string{
		"two billion arguments":            "*2000000000\r\n",
		"requests within requests":         strings.Repeat("*1\r\n", 12_000),
		"an argument of ten billion bytes": "*1\r\n$9999999999\r\n",
		"an inline command that looks so":  "$9999999999\r\n",
		"a login of 512 MB":                "*2\r\n$4\r\nAUTH\r\n$536870912\r\n" + strings.Repeat("p", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "rules: []\n"})
			staysSmall(t, proxy, 32, func() {
				all := make([]*harness.RawConn, clients)
				for i := range all {
					all[i] = harness.Dial(t, proxy.Addr)
					_, _ = all[i].Write([]byte(sent)) // it may be refused before the end
				}
				for _, client := range all {
					ends(t, client)
				}
			})
			again := harness.Dial(t, proxy.Addr)
			if got := string(again.Do("AUTH", "pw")); got != "+OK\r\n" {
				t.Errorf("the next client hears %q", got)
			}
		})
	}
}

func TestManyTinyArgumentsTakeAFewTimesTheirBytes(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "")
	client, _ := connect(t, "client", proxy.Addr)
	args := make([]string, 1_000_000) // 7 MB
	args[0] = "DEL"
	for i := range args[1:] {
		args[i+1] = "k"
	}
	staysSmall(t, proxy, 400, func() {
		client.does(int64(0), args...)
		client.does(int64(0), args...)
	})
}

// ends ends what the client sends, and returns once the proxy has read it all and closed.
func ends(t *testing.T, client *harness.RawConn) {
	t.Helper()
	if tcp, ok := client.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // it may be closed already
	}
	_ = client.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, client.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the proxy does not end")
	}
}
