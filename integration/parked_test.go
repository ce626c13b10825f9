//go:build integration

package integration

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// What is granted to a waiter at the store is granted for a moment, since its proxy may be frozen. The proxy knows that.
func TestAHoldThatWasGrantedInLineIsRenewed(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", line.key)
	waiter := line.join("the waiter", proxy)
	holder.does("OK", "SET", line.key, "v")
	waiter.hears("v")
	harness.Eventually(t, 0, func() bool {
		return line.redis.PTTL(t.Context(), line.hold).Val() > tokenstore.Reservation
	}, "the hold lasts for longer than a reservation")
	if owner := line.holder(); owner != waiter.place.owner {
		t.Errorf("%q holds the session, want %q", owner, waiter.place.owner)
	}
	waiter.does("OK", "SET", line.key, "waiter")
}

// … and counts it from its end of the wait: a read behind it has the hold, and asks for none.
func TestAReadBehindOneThatWaitedGoesOnWithItsHold(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr, harness.WithCapture())
	near := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", near.Addr)
	harness.Eventually(t, 0, func() bool { // a machine that stalls may miss the lease now and then
		holder.sends("GET", line.key)
		holder.reply()
		waiter := line.joinWith("the waiter", proxy, strings.Repeat(harness.Encode("GET", line.key), 2))
		time.Sleep(tokenstore.Reservation + 100*time.Millisecond)
		holder.does("OK", "SET", line.key, "v")
		waiter.hears("v")
		waiter.hears("v")
		waiter.does("OK", "SET", line.key, "waiter")
		own := relay.Connections()
		begins := bytes.Count(own[len(own)-1].Bytes[harness.ToServer], []byte("\r\nEVALSHA\r\n"))
		return begins-1 == 2 // but for the settlement: it has asked for its place, and behind its wait
	}, "the second read asks for no grant")
}

// Redis may end a wait by an error, as when it becomes a replica. What comes behind the wait says how the read goes on: if it has
// the session, the client gets its reply, and nothing else; and if not, it waits on.
func TestAWaitThatRedisEndsWithAnErrorIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]bool{"the session is free": true, "the session is held": false} {
		t.Run(name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
			line := lineFor(t, server, "ctx:s")
			server.Client().Set(t.Context(), line.key, "v", 0)
			holder, _ := connect(t, "holder", proxy.Addr)
			holder.does("v", "GET", line.key)
			waiter := line.join("the waiter", proxy)
			if free {
				line.redis.Del(t.Context(), line.hold)
			}
			harness.Eventually(t, 0, func() bool {
				for client := range strings.Lines(line.redis.ClientList(t.Context()).Val()) {
					if strings.Contains(client, "cmd=blpop") {
						id := strings.TrimPrefix(strings.Fields(client)[0], "id=")
						return line.redis.Do(t.Context(), "CLIENT", "UNBLOCK", id, "ERROR").Val() == int64(1)
					}
				}
				return false
			}, "the waiter's wait is ended")
			if !free {
				holder.does("OK", "SET", line.key, "v")
			}
			waiter.hears("v")
			waiter.does("mine", "ECHO", "mine")
			waiter.does("OK", "SET", line.key, "waiter")
		})
	}
}

// A client that leaves is noticed at once, though its command waits at the store.
func TestClientsLeaveTheLineAtOnce(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", line.key)
	clients := 0
	for end := time.Now().Add(patience); clients < 40 && time.Now().Before(end); clients++ {
		_ = line.join("the one that leaves", proxy).conn.Close()
		line.hasWaiters(0)
	}
	if clients < 40 {
		t.Errorf("in %v only %d clients have left the line", patience, clients)
	}
}

// A user who may not wait at the store is told so.
func TestAWaiterThatMayNotWaitIsTold(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	allow(t, server, "agent", "+get +set ~ctx:* "+guardRights(t)+" -blpop")
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", line.key)
	agent, _ := connect(t, "agent", proxy.Addr)
	agent.does("OK", "AUTH", "agent", "pw")
	if told := agent.fails("FENCEDOWN", "GET", line.key); !strings.Contains(told, "'blpop'") {
		t.Errorf("it is told %q", told)
	}
	line.hasWaiters(0)
	holder.does("OK", "SET", line.key, "v")
	agent.does("v", "GET", line.key)
}
