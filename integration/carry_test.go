//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 54: an idle client whose connection to Redis ends is carried over to a new one, with all that
// can be said again.
func TestAClientIsCarriedOver(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	for name, c := range map[string]struct{ before, after [][]string }{
		"that read and wrote":    {before: [][]string{{"SET", "free", "v"}, {"GET", "free"}}},
		"that wrote its session": {before: [][]string{{"GET", "ctx:s"}, {"SET", "ctx:s", "v"}}},
		"that wrote blindly":     {before: [][]string{{"SET", "ctx:s", "v"}}},
		"that has ended what can't be said again": {before: [][]string{
			{"WATCH", "free"},
			{"MULTI"},
			{"SET", "free", "v"},
			{"EXEC"},
			{"WATCH", "free"},
			{"UNWATCH"},
			{"SUBSCRIBE", "a"},
			{"UNSUBSCRIBE", "a"},
			{"CLIENT", "REPLY", "ON"},
			{"BLPOP", "none", "0.01"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client, conn := connect(t, "client", proxy.Addr)
			client.does("OK", "SELECT", "3")
			for _, command := range c.before {
				conn.Do(command...)
			}
			for i := range 2 {
				name := fmt.Sprintf("carried-%d-%x", i, name)
				client.does("OK", "CLIENT", "SETNAME", name)
				setAdrift(t, server, proxy, name)
				client.does(name, "CLIENT", "GETNAME")
				client.does("OK", "SET", "free", "3")
				client.does("OK", "SET", "ctx:s", "w")
				client.does("w", "GET", "ctx:s")
				client.does("OK", "SET", "ctx:s", "x")
			}
			in3 := server.Client(func(o *redis.Options) { o.DB = 3 })
			if got := in3.Get(t.Context(), "ctx:s").Val(); got != "x" {
				t.Errorf("in database 3 there is %q", got)
			}
		})
	}
	t.Run("that speaks RESP3", func(t *testing.T) {
		conn := greet(t, proxy.Addr, "3")
		conn.Do("CLIENT", "SETNAME", "three")
		conn.Do("HSET", "h", "f", "v")
		setAdrift(t, server, proxy, "three")
		if got := string(conn.Do("HGETALL", "h")); got != "%1\r\n$1\r\nf\r\n$1\r\nv\r\n" {
			t.Errorf("HGETALL: %q", got)
		}
	})
	t.Run("that turned its replies off", func(t *testing.T) {
		client, conn := connect(t, "client", proxy.Addr)
		client.does("OK", "CLIENT", "SETNAME", "off")
		conn.Send(harness.Encode("CLIENT", "REPLY", "OFF"))
		conn.Send(harness.Encode("SET", "ctx:off", "1"))
		harness.Eventually(t, 0, func() bool { return server.Client().Get(t.Context(), "ctx:off").Val() == "1" }, "it is written")
		setAdrift(t, server, proxy, "off")
		conn.Send(harness.Encode("SET", "ctx:off", "2") + harness.Encode("CLIENT", "REPLY", "ON") + harness.Encode("GET", "ctx:off"))
		client.hears("OK")
		client.hears("2")
	})
	t.Run("over a restart", func(t *testing.T) {
		client, _ := connect(t, "client", proxy.Addr)
		client.does("OK", "SET", "ctx:r", "v")
		client.does("v", "GET", "ctx:r")
		client.does("OK", "SET", "ctx:r", "w")
		client.does("OK", "CLIENT", "SETNAME", "restart")
		server.RestartEmpty()
		proxy.WaitLog(t, "name=restart")
		client.does(nil, "GET", "ctx:r")
		client.does("OK", "SET", "ctx:r", "x")
	})
}

// setAdrift breaks the upstream connection of the client with this name, and waits until the proxy has
// seen it.
func setAdrift(t *testing.T, server *harness.Redis, proxy *harness.Proxy, name string) {
	t.Helper()
	kill(t, server.Client(), name)
	proxy.WaitLog(t, "name="+name)
}

// Redis has closed such a client, so it is closed. Case 54.
func TestAClientWhoseStateIsLostIsClosed(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	allow(t, server, "u", "+@all ~* &*")
	for _, state := range []string{
		"MULTI", "WATCH free", "SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a", "MONITOR", "AUTH u pw", "HELLO 2 AUTH u pw",
		"CLIENT TRACKING ON", "CLIENT NO-EVICT ON", "CLIENT ID", "BLPOP none 0",
	} {
		t.Run(state, func(t *testing.T) {
			if newLacking(t, server).any(t, [][]string{strings.Fields(state)}) {
				t.Skip("this server lacks it")
			}
			client, conn := connect(t, "client", proxy.Addr)
			client.does("OK", "CLIENT", "SETNAME", "lonely")
			if client.sends(strings.Fields(state)...); state == "BLPOP none 0" {
				harness.Eventually(t, 0, func() bool { return blocked(t, server) }, "BLPOP blocks")
			} else {
				client.reply()
			}
			if state == "MONITOR" {
				kill(t, server.Client(), "lonely")
				for {
					if _, err := conn.Read(); err != nil {
						return
					}
				}
			}
			kill(t, server.Client(), "lonely")
			conn.ExpectClosed()
		})
	}
}

// Who is meant by a CLIENT KILL is closed, though it is idle and has no state.
func TestAClientThatIsKilledIsClosed(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	through := redis.NewClient(&redis.Options{Addr: proxy.Addr})
	t.Cleanup(func() { _ = through.Close() })
	for range 3 {
		client, conn := connect(t, "client", proxy.Addr)
		client.does("OK", "CLIENT", "SETNAME", "unwanted")
		kill(t, through, "unwanted")
		conn.ExpectClosed()
	}
}

// A request under way gets an error or the end of the connection; it is never sent again.
func TestARequestUnderWayIsNotSentAgain(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	client, conn := connect(t, "client", proxy.Addr)
	client.does(int64(1), "INCR", "free")
	client.does("OK", "CLIENT", "SETNAME", "lonely")
	server.Pause()
	client.sends("INCR", "free")
	client.sends("INCR", "free")
	relay.Cut()
	for {
		reply, err := conn.Read()
		if err != nil {
			break
		}
		if !bytes.HasPrefix(reply, []byte("-ERR ")) {
			t.Fatalf("the client hears %q of a command that was under way, want an error or the end", reply)
		}
	}
	server.Resume()
	relay.Restore()
	other, _ := connect(t, "other", proxy.Addr)
	other.does("OK", "SET", "barrier", "v")
	if n, _ := server.Client().Get(t.Context(), "free").Int(); n > 3 {
		t.Errorf("three commands counted to %d", n)
	}
}

// QUIT ends a client, whatever it had.
func TestQuitClosesTheClient(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding())
	for _, before := range []string{"PING", "MULTI", "SUBSCRIBE a", "MONITOR", "GET ctx:s"} {
		p := w.meet(t, before, "2")
		p.says(1, strings.Fields(before))
		p.says(1, []string{"QUIT"}, []string{"SET", "free", "after QUIT"})
		p.direct.ExpectClosed()
		p.client.ExpectClosed()
	}
	wantValue(t, w.behind, "free", "")
}
