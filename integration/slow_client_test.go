//go:build integration

package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A library that packs a pipeline in one piece sends all of it before it reads. The requests and the
// replies are each more than the sockets on the way take. Case 61.
func TestAClientMaySayAllItHasToSayBeforeItListens(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	const commands = 100_000
	key := strings.Repeat("k", 200)
	value := strings.Repeat("v", 1000)
	server.Client().Set(t.Context(), key, value, 0)
	for name, clients := range map[string]int{"over a connection of its own": 0, "over a shared connection": 10} {
		t.Run(name, func(t *testing.T) {
			proxy := limited(t, server, "pipeline: 100")
			crowd(t, proxy, clients+1)
			client := harness.Dial(t, proxy.Addr)
			staysSmall(t, proxy, 64, func() {
				block := strings.Repeat(harness.Encode("GET", key), 100)
				_ = client.SetWriteDeadline(time.Now().Add(patience))
				for i := range commands / 100 {
					if _, err := io.WriteString(client.Conn, block); err != nil {
						t.Fatalf("after %d commands: %v", 100*i, err)
					}
				}
			})
			in, want := bufio.NewReader(client.Conn), fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
			got := make([]byte, len(want))
			_ = client.SetReadDeadline(time.Now().Add(patience))
			for i := range commands {
				if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
					t.Fatalf("reply %d is %q, %v", i, got, err)
				}
			}
		})
	}
}

// The replies to guarded commands come one by one, and each must come before the next is sent.
func TestAClientMaySayAllItHasToSayOfAGuardedKeyBeforeItListens(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	const commands = 20_000
	key := "ctx:" + strings.Repeat("k", 1000)
	value := strings.Repeat("v", 1000)
	server.Client().Set(t.Context(), key, value, 0)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: endless("1s")})
	client := harness.Dial(t, proxy.Addr)
	staysSmall(t, proxy, 128, func() {
		block := strings.Repeat(harness.Encode("GET", key), 100)
		_ = client.SetWriteDeadline(time.Now().Add(4 * patience)) // with the race detector, on a machine that others use
		for i := range commands / 100 {
			if _, err := io.WriteString(client.Conn, block); err != nil {
				t.Fatalf("after %d commands: %v", 100*i, err)
			}
		}
	})
	in, want := bufio.NewReader(client.Conn), fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	got := make([]byte, len(want))
	_ = client.SetReadDeadline(time.Now().Add(4 * patience))
	for i := range commands {
		if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
			t.Fatalf("reply %d is %q, %v", i, got, err)
		}
	}
}

// Case 61.
func TestAHundredThousandUnreadRefusalsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	const commands = 100_000
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "log: {level: error}\n" + guarding()}) // not a line for each
	client := harness.Dial(t, proxy.Addr)
	want := string(harness.Dial(t, proxy.Addr).Do("GET", "fence-proxy:x"))
	staysSmall(t, proxy, 64, func() {
		client.Send(strings.Repeat(harness.Encode("GET", "fence-proxy:x"), commands))
		const refused = `fence_proxy_refusals_total{error="FENCEDENIED",rule=""}`
		harness.Eventually(t, 4*patience, func() bool { return proxy.Metric(refused) == commands+1 }, "all are refused")
	})
	for i := range commands {
		if got := string(client.ReadReply()); got != want {
			t.Fatalf("reply %d is %q", i, got)
		}
	}
}

// A client that reads no replies piles up no requests behind a command that takes its time.
func TestNoMoreIsReadFromAClientWhoseCommandsWaitForRedis(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "pipeline: 100")
	const stops, commands = "fence_proxy_pipeline_stops_total", 100_000
	client := harness.Dial(t, proxy.Addr)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(client.Conn, harness.Encode("BLPOP", "list", "0")+strings.Repeat(harness.Encode("ECHO", "x"), commands))
		sent <- err
	}()
	counts(t, proxy, stops, 1)
	direct := server.Client()
	list, err := direct.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	blocked := regexp.MustCompile(` qbuf=(\d+) .* cmd=blpop `).FindStringSubmatch(list)
	if blocked == nil {
		t.Fatalf("nobody is blocked:\n%s", list)
	}
	if n, _ := strconv.Atoi(blocked[1]); n > 100*len(harness.Encode("ECHO", "x")) {
		t.Errorf("Redis has %d bytes of requests that wait", n)
	}
	direct.RPush(t.Context(), "list", "v")
	if got, want := string(client.ReadReply()), "*2\r\n$4\r\nlist\r\n$1\r\nv\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range commands {
		if got := string(client.ReadReply()); got != "$1\r\nx\r\n" {
			t.Fatalf("reply %d is %q", i, got)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A client that has said all it has to say, and closes its side, is served to the end though it is held up.
func TestAClientThatIsHeldUpMayCloseItsSide(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "pipeline: 10")
	client := harness.Dial(t, proxy.Addr)
	client.Send(harness.Encode("BLPOP", "list", "0") + strings.Repeat(harness.Encode("INCR", "n"), 1000))
	counts(t, proxy, "fence_proxy_pipeline_stops_total", 1)
	direct := server.Client()
	direct.Ping(t.Context())
	_ = client.Conn.(*net.TCPConn).CloseWrite()
	direct.RPush(t.Context(), "list", "v") // at once: Redis drops who is blocked and has said all
	// As Redis itself, the proxy drops what is under way once it has read the end: what it has sent by
	// then is no less than what it had when it was held up.
	counts(t, proxy, "fence_proxy_connections", 0)
	if n, _ := direct.Get(t.Context(), "n").Int(); n < 9 {
		t.Errorf("%d of the commands were carried out", n)
	}
}

func TestAClientThatIsOwedTooMuchIsDroppedAndNobodyElse(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "output_buffer: 64kb")
	const dropped = `fence_proxy_clients_dropped_total{reason="output_buffer"}`
	big := strings.Repeat("v", 100_000)
	server.Client().Set(t.Context(), "big", big, 0)

	t.Run("by Redis, over its own connection: never", func(t *testing.T) {
		client, _ := connect(t, "client", proxy.Addr)
		client.does(big, "GET", "big")
		counts(t, proxy, dropped, 0)
	})
	t.Run("by the proxy", func(t *testing.T) {
		client := harness.Dial(t, proxy.Addr)
		client.Send(harness.Encode("BLPOP", "list", "0") + strings.Repeat(harness.Encode("GET", "fence-proxy:x"), 5000))
		client.ExpectClosed()
		counts(t, proxy, dropped, 1)
	})
	t.Run("by KEYS", func(t *testing.T) {
		direct := server.Client()
		for i := range 10_000 {
			direct.Set(t.Context(), fmt.Sprintf("key:%d", i), "", 0)
		}
		client := harness.Dial(t, proxy.Addr)
		client.Send(harness.Encode("KEYS", "*"))
		if got := string(client.ReadReply()); !strings.HasSuffix(got, "the replies kept for the client are more than limits.output_buffer\r\n") {
			t.Errorf("got %q", got)
		}
		client.ExpectClosed()
		counts(t, proxy, dropped, 2)
	})
	t.Run("over a shared connection", func(t *testing.T) {
		others := crowd(t, proxy, 10)
		client := harness.Dial(t, proxy.Addr)
		if got := string(client.Do("PING")); got != "+PONG\r\n" {
			t.Errorf("before: %q", got)
		}
		client.Send(harness.Encode("STRLEN", "big") + harness.Encode("GET", "big"))
		for _, want := range []string{":100000\r\n", "-ERR fence-proxy: the replies kept for the client are more than limits.output_buffer\r\n"} {
			if got := string(client.ReadReply()); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		client.ExpectClosed()
		counts(t, proxy, dropped, 3)
		for _, other := range others {
			other.does(int64(100_000), "STRLEN", "big")
		}
	})
	proxy.WaitLog(t, "client dropped: it is owed more replies than limits.output_buffer")
}

func TestAClientThatTakesNoneOfItsRepliesIsDroppedInTheEnd(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "output_timeout: 1s")
	server.Client().Set(t.Context(), "big", strings.Repeat("v", 10<<20), 0)
	idle, _ := connect(t, "an idle client", proxy.Addr)
	idle.does("PONG", "PING")
	client := harness.Dial(t, proxy.Addr)
	client.Send(strings.Repeat(harness.Encode("GET", "big"), 5))
	counts(t, proxy, `fence_proxy_clients_dropped_total{reason="output_timeout"}`, 1)
	proxy.WaitLog(t, "client dropped: it took none of its replies for limits.output_timeout")
	idle.does("PONG", "PING")
	counts(t, proxy, "fence_proxy_connections", 1)
}

func TestAReplyThatIsNestedTooDeepEndsItsClient(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "nesting: 100")
	nested := func(depth int) []string {
		return []string{"EVAL", fmt.Sprintf("local a = {1} for i = 2, %d do a = {a} end return a", depth), "0"}
	}
	client := harness.Dial(t, proxy.Addr)
	if got, want := string(client.Do(nested(100)...)), strings.Repeat("*1\r\n", 100)+":1\r\n"; got != want {
		t.Errorf("got %q", got)
	}
	client.Send(harness.Encode(nested(101)...))
	if _, err := io.ReadAll(client.Conn); err != nil {
		t.Error(err)
	}
	counts(t, proxy, `fence_proxy_clients_dropped_total{reason="nesting"}`, 1)
	proxy.WaitLog(t, "client dropped: it is owed a reply that is nested deeper than limits.nesting")
}

// Redis ends a table that holds itself with an error, thousands of levels deep.
func TestTheDeepestReplyOfAScriptPasses(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := limited(t, server, "")
	script := harness.Encode("EVAL", "local a = {} local b = {a} a[1] = b return a", "0") + harness.Encode("ECHO", "the end")
	read := func(addr string) string {
		conn := harness.Dial(t, addr)
		conn.Send(script)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		var all strings.Builder
		for buf := make([]byte, 4096); !strings.HasSuffix(all.String(), "the end\r\n"); {
			n, err := conn.Conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(buf[:n])
		}
		return all.String()
	}
	if got, want := read(proxy.Addr), read(server.Addr); got != want || strings.Count(want, "*1\r\n") < 1000 {
		t.Errorf("got %d bytes, want %d, of them %d levels", len(got), len(want), strings.Count(want, "*1\r\n"))
	}
}
