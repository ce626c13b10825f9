//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

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
	second.Do("RESET")
	if got := string(second.Do("HGETALL", "h")); got != "*2\r\n$1\r\nf\r\n$5\r\nother\r\n" {
		t.Errorf("after RESET: %q", got)
	}
}

// Nothing of the client's is lost with a shared connection, so the client is carried over.
func TestAnIdleClientIsCarriedOverToANewConnectionToRedis(t *testing.T) {
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
