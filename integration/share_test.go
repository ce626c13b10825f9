//go:build integration

package integration

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// connections counts the connections that a Redis has.
func connections(t *testing.T, direct *redis.Client) int {
	t.Helper()
	list, err := direct.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, " addr=")
}

// crowd connects n clients, enough of them to share.
func crowd(t *testing.T, proxy *harness.Proxy, n int) []*party {
	t.Helper()
	clients := make([]*party, n)
	for i := range clients {
		clients[i], _ = connect(t, fmt.Sprint("client ", i), proxy.Addr)
	}
	clients[n-1].does("PONG", "PING") // accepted, and so are those before it
	return clients
}

func TestClientsShareTheirConnectionsToRedisUntilOneNeedsItsOwn(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	direct := server.Client()
	before := connections(t, direct)
	clients := crowd(t, proxy, 20)
	for i := range clients {
		clients[i].does("OK", "SET", fmt.Sprint("k", i), fmt.Sprint(i))
		clients[i].does(fmt.Sprint(i), "GET", fmt.Sprint("k", i))
	}
	if n := connections(t, direct) - before; n > 2 {
		t.Errorf("20 clients have %d connections to Redis", n)
	}
	clients[0].does("OK", "CLIENT", "SETNAME", "named")
	clients[0].does("named", "CLIENT", "GETNAME")
	clients[0].does("0", "GET", "k0")
	clients[1].does(nil, "CLIENT", "GETNAME")
	if n := connections(t, direct) - before; n > 4 {
		t.Errorf("two clients with connections of their own make %d", n)
	}
}

func TestASharedConnectionIsInTheClientsDatabaseAndProtocol(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	crowd(t, proxy, 8)
	second, old := harness.Dial(t, proxy.Addr), harness.Dial(t, proxy.Addr)
	for _, command := range [][]string{{"HELLO", "3"}, {"SELECT", "1"}, {"HSET", "h", "f", "v"}} {
		second.Do(command...)
	}
	old.Do("HSET", "h", "f", "other")
	for _, want := range []struct {
		client *harness.RawConn
		reply  string
	}{{second, "%1\r\n$1\r\nf\r\n$1\r\nv\r\n"}, {old, "*2\r\n$1\r\nf\r\n$5\r\nother\r\n"}} {
		if got := string(want.client.Do("HGETALL", "h")); got != want.reply {
			t.Errorf("got %q, want %q", got, want.reply)
		}
	}
	if !knows(t, server, "reset") {
		return
	}
	second.Do("RESET")
	if got := string(second.Do("HGETALL", "h")); got != "*2\r\n$1\r\nf\r\n$5\r\nother\r\n" {
		t.Errorf("after RESET: %q", got)
	}
}

// Nothing of the client's is lost with a shared connection, so the client is carried over.
func TestAnIdleClientIsCarriedOverToANewConnectionToRedis(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	client := crowd(t, proxy, 8)[0]
	client.does("OK", "SET", "k", "v")
	client.does("v", "GET", "k")
	server.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes")
	client.does("v", "GET", "k")
	client.does("OK", "SET", "k", "w")
	server.RestartEmpty()
	client.does(nil, "GET", "k")
}

// Clients that share connections, and use their own in between, each hear what they said, in order,
// and see their own writes.
func TestAClientsCommandsKeepTheirOrderOverBothKindsOfConnections(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	crowd(t, proxy, 8)
	var clients sync.WaitGroup
	for client := range 12 {
		conn := harness.Dial(t, proxy.Addr)
		clients.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(client)))
			key, counted := fmt.Sprint("k", client), 0
			for range 60 {
				var said, want strings.Builder
				for range 1 + r.IntN(12) {
					command, reply := say(r, client, key, &counted)
					said.WriteString(command)
					want.WriteString(reply)
				}
				if _, err := conn.Write([]byte(said.String())); err != nil {
					t.Error(err)
					return
				}
				got := make([]byte, want.Len())
				_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(conn.Conn, got); err != nil || string(got) != want.String() {
					t.Errorf("client %d said %q and heard %q (%v), want %q", client, said.String(), got, err, want.String())
					return
				}
			}
		})
	}
	clients.Wait()
}

// say is something to say, and what must come back. A client counts in a key of its own.
func say(r *rand.Rand, client int, key string, counted *int) (command, reply string) {
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	switch r.IntN(9) {
	case 0, 1: // over a shared connection, for writes
		*counted++
		return harness.Encode("INCR", key), fmt.Sprintf(":%d\r\n", *counted)
	case 2, 3: // over another, for reads
		return harness.Encode("STRLEN", "none"+key) + harness.Encode("ECHO", key), ":0\r\n" + bulk(key)
	case 4: // over one of its own
		*counted++
		return harness.Encode("EVAL", "return redis.call('incr', KEYS[1])", "1", key), fmt.Sprintf(":%d\r\n", *counted)
	case 5:
		*counted++
		return harness.Encode("MULTI") + harness.Encode("INCR", key) + harness.Encode("EXEC"),
			fmt.Sprintf("+OK\r\n+QUEUED\r\n*1\r\n:%d\r\n", *counted)
	case 6: // guarded
		session := fmt.Sprint("ctx:", client)
		return harness.Encode("STRLEN", session) + harness.Encode("SET", session, "12345") + harness.Encode("DEL", session), ":0\r\n+OK\r\n:1\r\n"
	case 7: // by nobody but the proxy
		line := "-FENCEDENIED the key \"fence-proxy:x\" is reserved for fence records\r\n"
		return harness.Encode("GET", "fence-proxy:x"), line
	default:
		return harness.Encode("SELECT", "1") + harness.Encode("EXISTS", key) + harness.Encode("SELECT", "0"), "+OK\r\n:0\r\n+OK\r\n"
	}
}
