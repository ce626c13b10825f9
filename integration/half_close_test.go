//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// saysAndListens sends the text, closes the half that it speaks over, and returns all that comes back.
func saysAndListens(t *testing.T, addr, text string) []byte {
	t.Helper()
	conn := harness.Dial(t, addr)
	conn.Send(text)
	if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	heard, err := io.ReadAll(conn.Conn)
	if err != nil {
		t.Errorf("%.60q: %v", text, err)
	}
	_ = conn.Close()
	return heard
}

// What a client has said is answered, though it has closed the half of its connection that it spoke over.
func TestAClientThatSaysNoMoreIsAnswered(t *testing.T) {
	t.Parallel()
	slow := "EVAL \"local n = 0 for i = 1, 3e7 do n = n + i end return redis.call('incr', KEYS[1])\" 1 "
	for _, others := range []int{0, 8} {
		for _, config := range []string{"rules: []\n", guarding()} {
			w := startTwins(t, config)
			crowd(t, w.proxy, max(others, 1))
			for _, said := range []string{
				"PING\r\nECHO abc\r\n",
				"SET free v\r\nGET free\r\n",
				"CLIENT SETNAME me\r\nCLIENT GETNAME\r\nGET free\r\n",
				"MULTI\r\nSET free w\r\nGET free\r\n",
				"MULTI\r\nSET free w\r\nGET free\r\nEXEC\r\n",
				"GET ctx:k\r\nSET ctx:k v\r\nGET ctx:k\r\n",
				"MULTI\r\nSET ctx:k w\r\nGET ctx:k\r\nEXEC\r\n",
				"WATCH free\r\nMULTI\r\nSET ctx:k w\r\nGET ctx:k\r\n",
				"SUBSCRIBE a\r\nPING\r\n",
				"GET ctx:k", // not all of it
				slow + "free\r\nPING\r\n",
				slow + "ctx:n\r\nGET ctx:n\r\nPING\r\n",
				"BLPOP none 0\r\nPING\r\n",
				"BLPOP none 0\r\nSELECT 0\r\nPING\r\n",
				"BLPOP ctx:none 0\r\nPING\r\n",
				"GET ctx:k\r\nBLPOP ctx:none 0\r\nPING\r\n",
				"XREAD BLOCK 0 STREAMS ctx:stream $\r\nPING\r\n",
				strings.Repeat("ECHO 0123456789\r\nGET free\r\n", 2000),
			} {
				t.Run(fmt.Sprintf("%d others, rules %v, %.40q", others, len(config) > 12, said), func(t *testing.T) {
					want, got := saysAndListens(t, w.straight.Addr, said), saysAndListens(t, w.proxy.Addr, said)
					if !bytes.Equal(got, want) {
						t.Errorf("it hears %.200q, want %.200q", got, want)
					}
				})
			}
		}
	}
}

// A client that has left while it waits in a command that blocks takes nothing.
func TestAClientThatHasLeftTakesNothing(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding()})
	direct := server.Client()
	for _, said := range []string{"BLPOP jobs 0\r\n", "BLPOP jobs 0\r\nSELECT 0\r\n", "BLPOP ctx:jobs 0\r\n"} {
		key := strings.Fields(said)[1]
		client := harness.Dial(t, proxy.Addr)
		client.Send("PING\r\n" + said)
		client.ReadReply()
		if key == "jobs" {
			harness.Eventually(t, 0, func() bool {
				return strings.Contains(direct.ClientList(t.Context()).Val(), " flags=b ")
			}, "the client is blocked")
		}
		_ = client.Close()
		harness.Eventually(t, 0, func() bool {
			return !strings.Contains(direct.ClientList(t.Context()).Val(), " flags=b ")
		}, "the client is blocked no more")
		counts(t, proxy, "fence_proxy_connections", 0)
		direct.RPush(t.Context(), key, "job")
		if left := direct.LLen(t.Context(), key).Val(); left != 1 {
			t.Errorf("%q: %d jobs are left", said, left)
		}
		direct.Del(t.Context(), key)
	}
}

// Redis closes a client that says no more, whatever it waits for, and without a word; so does the proxy one in line.
func TestAClientThatSaysNoMoreDoesNotStayInLine(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", line.key)
	for _, said := range []string{"GET ctx:s\r\n", "SET ctx:s v\r\n", "MGET ctx:s ctx:t\r\n", "BLPOP ctx:s 0\r\n", "MULTI\r\nGET ctx:s\r\nSET ctx:s v\r\nEXEC\r\n"} {
		want := ""
		if strings.HasPrefix(said, "MULTI") {
			want = "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
		}
		if heard := string(saysAndListens(t, proxy.Addr, said)); heard != want {
			t.Errorf("%q: it hears %q, want %q", said, heard, want)
		}
		line.hasWaiters(0)
	}
	holder.does("OK", "SET", line.key, "v")
	line.isEmpty()
}
