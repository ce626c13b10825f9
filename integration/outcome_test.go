//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A write whose connection to Redis breaks before its answer has come is answered all the same.
func TestALostAnswerIsFoundOut(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	direct := server.Client()
	known := findsOut(t, direct)
	straight, _ := connect(t, "straight", server.Addr)
	contents := func() string {
		ctx := t.Context()
		return fmt.Sprint(direct.MGet(ctx, "ctx:s", "ctx:n"), direct.LRange(ctx, "ctx:list", 0, -1), direct.HGetAll(ctx, "ctx:h"), direct.SMembersMap(ctx, "ctx:set"))
	}
	const carriedOut = "was carried out, once"
	for _, c := range []struct {
		command string
		want    any // a text in a FENCEUNKNOWN, or the reply
		unread  bool
	}{
		{command: "SET ctx:s after", want: "OK"},
		{command: "SET ctx:s after PX 60000", want: "OK"},
		{command: "SET ctx:s after NX", want: carriedOut, unread: true},
		{command: "SET ctx:s after GET", want: carriedOut},
		{command: "SETEX ctx:s 60 after", want: "OK"},
		{command: "MSET ctx:s after", want: "OK"},
		{command: "RPUSH ctx:list c d", want: int64(4)},
		{command: "LPUSH ctx:list c d", want: int64(4)},
		{command: "RPUSH ctx:s c", want: carriedOut}, // so Redis has refused it, in words that are lost
		{command: "APPEND ctx:s r", want: int64(7)},
		{command: "INCR ctx:n", want: int64(8)},
		{command: "DECRBY ctx:n 3", want: int64(4)},
		{command: "INCRBYFLOAT ctx:n 0.5", want: "7.5"},
		{command: "HINCRBY ctx:h f 1", want: int64(8)},
		{command: "HINCRBYFLOAT ctx:h f 0.5", want: "7.5"},
		{command: "SADD ctx:set a b", want: carriedOut},
		{command: "LPOP ctx:list", want: carriedOut},
	} {
		name, _, _ := strings.Cut(c.command, "\r")
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(c.command)
			prepare := func() *party {
				direct.FlushAll(t.Context())
				client, _ := connect(t, "client", proxy.Addr)
				client.does("OK", "SET", "ctx:s", "before")
				client.does(int64(2), "RPUSH", "ctx:list", "a", "b")
				client.does(int64(7), "INCRBY", "ctx:n", "7")
				client.does(int64(1), "HSET", "ctx:h", "f", "7")
				client.does(int64(1), "SADD", "ctx:set", "b")
				return client
			}
			prepare()
			before := contents()
			straight.sends(args...)
			straight.reply()
			after := contents()
			for _, direction := range []harness.Direction{harness.ToClient, harness.ToServer} {
				client, want := prepare(), after
				client.does("OK", "SELECT", "0")
				client.does("OK", "CLIENT", "SETNAME", "me")
				if !c.unread {
					client.does(int64(1), "EXISTS", "ctx:s")
				}
				client.does(int64(0), "EXISTS", "ctx:elsewhere") // another session, so the connection has its name
				cut := relay.CutAfterBytes(direction, 0)
				client.sends(args...)
				<-cut
				switch {
				case !known || c.want != carriedOut:
					if !client.hearsOfLost(server, direction, c.want) {
						want = before
					}
				case direction == harness.ToClient:
					if message := client.hearsError("FENCEUNKNOWN"); !strings.Contains(message, carriedOut) {
						t.Errorf("the client hears %q", message)
					}
				default:
					client.reply()
				}
				if got := contents(); got != want {
					t.Errorf("there is %s, want %s", got, want)
				}
				client.does("me", "CLIENT", "GETNAME")
				client.does("OK", "SET", "ctx:s", "next")
			}
		})
	}
}

// What was sent over the broken connection, and is delivered only after the write was presented again, is not carried out.
func TestWhatIsDeliveredLateIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	client.does(int64(1), "RPUSH", "ctx:list", "a")
	for i := range 3 {
		client.does(nil, "GET", "ctx:elsewhere")
		cut, deliver := relay.HauntAfterBytes(0)
		client.sends("RPUSH", "ctx:list", fmt.Sprint(i))
		<-cut
		client.hearsOfLost(server, harness.ToServer, int64(i+2))
		deliver()
		harness.Eventually(t, 0, func() bool {
			for _, c := range relay.Connections()[:len(relay.Connections())-1] {
				if c.Open && c.RoundTrips == 0 {
					return false
				}
			}
			return true
		}, "it is delivered")
	}
	got := server.Client().LRange(t.Context(), "ctx:list", 0, -1).Val()
	if once := slices.Compact(slices.Sorted(slices.Values(got))); len(once) < len(got) || len(once) != 4 && findsOut(t, server.Client()) {
		t.Errorf("the list is %v", got)
	}
}

// While the proxy can't reach Redis any more, others get on.
func TestALostWriteIsJudgedByWhatOthersHaveDoneSince(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		write   []string
		lost    harness.Direction
		since   func(t *testing.T, server *harness.Redis, other *party)
		want    any    // the reply, or the error's first word
		says    string // in the error
		applied string
	}{
		"nothing, and it was applied": {
			lost: harness.ToClient, since: func(*testing.T, *harness.Redis, *party) {}, want: "OK", applied: "mine",
		},
		"nothing, and it was not applied": {
			lost: harness.ToServer, since: func(*testing.T, *harness.Redis, *party) {}, want: "OK", applied: "mine",
		},
		"read, and it was applied": {
			lost: harness.ToClient, since: readsAnew, want: "OK", applied: "mine",
		},
		"read, and it was not applied": {
			lost: harness.ToServer, since: readsAnew, want: "FENCED", says: "granted to another owner", applied: "before",
		},
		"written, and it was applied": {
			lost: harness.ToClient, since: writesAnew, want: "FENCEUNKNOWN", says: "may or may not", applied: "theirs",
		},
		"written, and it was not applied": {
			lost: harness.ToServer, since: writesAnew, want: "FENCEUNKNOWN", says: "may or may not", applied: "theirs",
		},
		"lost the record": {
			lost: harness.ToClient, want: "FENCEUNKNOWN", says: "may or may not", applied: "mine",
			since: func(t *testing.T, server *harness.Redis, _ *party) {
				t.Helper()
				r := recordOf(t, server, "ctx:s")
				r.loses(r.token, r.hold, r.queue)
			},
		},
		"lost the record, and made another": {
			lost: harness.ToServer, want: "FENCEUNKNOWN", says: "may or may not", applied: "before",
			since: func(t *testing.T, server *harness.Redis, other *party) {
				t.Helper()
				r := recordOf(t, server, "ctx:s")
				r.loses(r.token, r.hold, r.queue)
				other.does("before", "GET", "ctx:s")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := harness.StartRedis(t)
			relay := harness.StartRelay(t, server.Addr)
			options := guarding("wait: 30s", "lease: 60s", "max_hold: 60s")
			proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: options})
			others := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: options})
			client, _ := connect(t, "client", proxy.Addr)
			other, _ := connect(t, "other", others.Addr)
			client.does("OK", "SET", "ctx:s", "before")

			client.does("before", "GET", "ctx:s")
			broken := relay.BreakAfterBytes(c.lost, 0)
			client.sends("SET", "ctx:s", "mine")
			<-broken
			c.since(t, server, other)
			relay.Restore()
			if c.says == "" || !findsOut(t, server.Client()) {
				if !client.hearsOfLost(server, c.lost, c.want) && c.applied == "mine" {
					c.applied = "before"
				}
			} else if message := client.hearsError(c.want.(string)); !strings.Contains(message, c.says) {
				t.Errorf("the client hears %q", message)
			}
			wantValue(t, server, "ctx:s", c.applied)
			other.does(c.applied, "GET", "ctx:s") // nobody holds it any more, but for the other himself
			other.does("OK", "SET", "ctx:s", "next")
			client.does("next", "GET", "ctx:s")
			client.does("OK", "SET", "ctx:s", "last")
		})
	}
}

func readsAnew(t *testing.T, _ *harness.Redis, other *party) {
	t.Helper()
	other.sends("FENCE.BREAK", "ctx:s") // the client's hold, unless it has written
	other.reply()
	other.reads("ctx:s")
}

func writesAnew(t *testing.T, server *harness.Redis, other *party) {
	t.Helper()
	readsAnew(t, server, other)
	other.does("OK", "SET", "ctx:s", "theirs")
}

// reads reads a key, whatever it has.
func (p *party) reads(key string) {
	p.t.Helper()
	p.sends("GET", key)
	if reply := p.reply(); isError(reply, "") {
		p.t.Fatalf("%s: GET %s: %v", p.name, key, reply)
	}
}

// What a client has sent behind a write hears its own reply, in its place, whatever became of the write.
func TestAPipelineBehindALostWriteKeepsItsOrder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	options := guarding("wait: 30s", "lease: 60s", "max_hold: 60s")
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: options})
	others := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: options})
	other, _ := connect(t, "other", others.Addr)
	behind := harness.Encode("SET", "ctx:s", "behind") + harness.Encode("ECHO", "x") + harness.Encode("RPUSH", "ctx:list", "a") + harness.Encode("GET", "ctx:s")

	t.Run("found out", func(t *testing.T) {
		client, conn := connect(t, "client", proxy.Addr)
		client.does("OK", "SET", "ctx:s", "before")
		cut := relay.CutAfterBytes(harness.ToClient, 0)
		conn.Send(harness.Encode("SET", "ctx:s", "first") + behind)
		<-cut
		client.hearsOfLost(server, harness.ToClient, "OK")
		value := "behind"
		if findsOut(t, server.Client()) {
			client.hears("OK")
		} else {
			client.hearsError("FENCED")
			value = "first"
		}
		client.hears("x")
		client.hears(int64(1))
		client.hears(value)
	})
	t.Run("not found out", func(t *testing.T) {
		client, conn := connect(t, "client", proxy.Addr)
		client.does("OK", "SET", "ctx:s", "before")
		client.does("before", "GET", "ctx:s")
		broken := relay.BreakAfterBytes(harness.ToClient, 0)
		conn.Send(harness.Encode("SET", "ctx:s", "first") + behind)
		<-broken
		other.does("first", "GET", "ctx:s")
		other.does("OK", "SET", "ctx:s", "theirs")
		relay.Restore()
		client.hearsError("FENCEUNKNOWN")
		if message := client.hearsError("FENCED"); !strings.Contains(message, "before that could be heard") {
			t.Errorf("the write behind it hears %q", message)
		}
		client.hears("x")
		client.hears(int64(2))
		client.hears("theirs")
	})
}

// A transaction is found out as a whole, and what its client has not heard of its commands is made up for.
func TestALostTransactionIsFoundOut(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	for name, direction := range map[string]harness.Direction{"applied": harness.ToClient, "not applied": harness.ToServer} {
		for _, form := range []string{"in one piece", "step by step", "under a WATCH"} {
			t.Run(name+" "+form, func(t *testing.T) {
				client, conn := connect(t, "client", proxy.Addr)
				client.does("OK", "MSET", "ctx:a", "1", "ctx:b", "1")
				client.does("1", "GET", "ctx:a")
				if form == "under a WATCH" {
					client.does("OK", "WATCH", "ctx:b")
					client.does("1", "GET", "ctx:b")
				}
				commands := []string{harness.Encode("MULTI"), harness.Encode("SET", "ctx:a", "2"), harness.Encode("SET", "ctx:b", "2"), harness.Encode("EXEC")}
				replies := []any{"OK", "QUEUED", "QUEUED"}
				var cut <-chan struct{}
				if form == "in one piece" {
					cut = relay.CutAfterBytes(direction, 0)
					conn.Send(strings.Join(commands, ""))
				} else {
					for i := range replies {
						conn.Send(commands[i])
						client.hears(replies[i])
					}
					replies = nil
					aside := 0
					if form == "under a WATCH" { // what was tried aside comes first
						aside = map[harness.Direction]int{harness.ToServer: len("*1\r\n$7\r\nDISCARD\r\n"), harness.ToClient: len("+OK\r\n")}[direction]
					}
					cut = relay.CutAfterBytes(direction, aside)
					conn.Send(commands[3])
				}
				<-cut
				for _, reply := range replies {
					client.hears(reply)
				}
				if form == "under a WATCH" && direction == harness.ToServer && findsOut(t, server.Client()) {
					client.hearsError("FENCEDOWN") // its WATCH is gone with the connection
					wantValue(t, server, "ctx:b", "1")
				} else {
					want := "2"
					if !client.hearsOfLost(server, direction, []any{"OK", "OK"}) {
						want = "1"
					}
					client.does(want, "GET", "ctx:a")
					client.does(want, "GET", "ctx:b")
				}
				client.does("OK", "SET", "ctx:b", "3")
			})
		}
	}
}

// Who has logged in goes on as the same user, and so does who has keys under WATCH, whose plain writes go over a
// connection aside.
func TestALostWriteIsPresentedAgainAsTheSameClient(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	allow(t, server, "agent", "+@all ~* &*")
	for _, direction := range []harness.Direction{harness.ToClient, harness.ToServer} {
		client, _ := connect(t, "client", proxy.Addr)
		client.does("OK", "AUTH", "agent", "pw")
		client.does("OK", "SELECT", "3")
		client.does("OK", "SET", "ctx:s", "before")
		cut := relay.CutAfterBytes(direction, 0)
		client.sends("SET", "ctx:s", "after")
		<-cut
		value := "after"
		if !client.hearsOfLost(server, direction, "OK") {
			value = "before"
		}
		client.does("agent", "ACL", "WHOAMI")
		client.does(value, "GET", "ctx:s")
		client.does("OK", "SET", "ctx:s", "next")

		client.does("OK", "WATCH", "ctx:w")
		client.does("OK", "SET", "ctx:s", "beside")
		cut = relay.CutAfterBytes(direction, 0)
		client.sends("SET", "ctx:s", "beside again")
		<-cut
		client.hearsOfLost(server, direction, "OK")
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "ctx:s", "last")
		client.does([]any{"OK"}, "EXEC")
	}
	if got := server.Client(func(o *redis.Options) { o.DB = 3 }).Get(t.Context(), "ctx:s").Val(); got != "last" {
		t.Errorf("in database 3 there is %q", got)
	}
}

// Where the proxy's user may not end the connection, what was sent over it may still come: nobody knows.
func TestWithoutTheRightToKillALostWriteStaysUnknown(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	allow(t, server, "sidecar", "+@all -client +client|setname +client|info ~* &*")
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: "redis://sidecar:pw@" + relay.Addr, ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	client.does("OK", "SET", "ctx:s", "before")
	cut := relay.CutAfterBytes(harness.ToServer, 0)
	client.sends("SET", "ctx:s", "after")
	<-cut
	client.hearsError("FENCEUNKNOWN")
	wantValue(t, server, "ctx:s", "before")
}

// Redis is killed under a write, and comes back with what it has kept.
func TestAWriteIsFoundOutAfterRedisHasRestarted(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding("wait: 30s")})
	for i, direction := range []harness.Direction{harness.ToClient, harness.ToServer} {
		client, _ := connect(t, "client", proxy.Addr)
		value := fmt.Sprint("after ", i)
		client.does("OK", "SET", "ctx:s", "before")
		broken := relay.BreakAfterBytes(direction, 0)
		client.sends("SET", "ctx:s", value)
		<-broken
		server.Restart()
		relay.Restore()
		if !client.hearsOfLost(server, direction, "OK") {
			value = "before"
		}
		wantValue(t, server, "ctx:s", value)
	}
}

// What a client hears of a FENCE.ONCE is the reply that was kept.
func TestALostFenceOnceIsAnsweredWithItsReply(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	look := len("+OK\r\n+QUEUED\r\n+QUEUED\r\n+OK\r\n$-1\r\n") // whether there is one kept already
	for n := range 3 {
		client.does(int64(1), "SADD", "ctx:set", fmt.Sprint("before", n))
		cut := relay.CutAfterBytes(harness.ToClient, look)
		id := fmt.Sprint("id", n)
		client.sends("FENCE.ONCE", id, "60000", "SADD", "ctx:set", "before0", id, id+id)
		<-cut
		client.hears(int64(2))
		client.does(int64(2), "FENCE.ONCE", id, "60000", "SADD", "ctx:set", "before0", id, id+id)
	}
}
