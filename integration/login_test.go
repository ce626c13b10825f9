//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// logIn logs a crowd in, enough of them to share.
func logIn(t *testing.T, proxy *harness.Proxy, words ...string) []*party {
	t.Helper()
	clients := crowd(t, proxy, 10)
	for _, c := range clients {
		c.sends(words...)
		if reply := c.reply(); isError(reply, "WRONGPASS") {
			t.Fatal(reply)
		}
	}
	return clients
}

// used are the ids of a user's connections that have lately done one of these commands.
func used(t *testing.T, direct *redis.Client, user string, commands ...string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(direct.ClientList(t.Context()).Val()) {
		if f := field(line, "cmd"); field(line, "user") == user && slices.Contains(commands, f) {
			ids = append(ids, field(line, "id"))
		}
	}
	return ids
}

var fields = regexp.MustCompile(`(\S+)=(\S*)`)

// field returns what a line of CLIENT LIST says of a connection.
func field(line, name string) string {
	for _, f := range fields.FindAllStringSubmatch(line, -1) {
		if f[1] == name {
			return f[2]
		}
	}
	return ""
}

// shares makes each client say this until all do over one shared connection, and returns its id.
func (w *loginWorld) shares(clients []*party, reply any, command ...string) (id string) {
	w.Helper()
	harness.Eventually(w.T, 0, func() bool {
		for _, c := range clients {
			c.does("PONG", "ECHO", "PONG") // over its own, now and then; if so, the next is not
			c.does(reply, command...)
		}
		ids := used(w.T, w.direct, "agent", strings.ToLower(command[0]))
		if len(ids) == 1 {
			id = ids[0]
		}
		return id != ""
	}, "they share")
	return id
}

// loginWorld is a Redis with a user that may use "mine:", behind a proxy.
type loginWorld struct {
	*testing.T
	server *harness.Redis
	proxy  *harness.Proxy
	direct *redis.Client
}

const agentRights = "+get +set +echo +ping +strlen +acl|whoami +hello +select ~mine:*"

func newLoginWorld(t *testing.T) *loginWorld {
	t.Helper()
	server := harness.StartRedis(t)
	allow(t, server, "agent", agentRights)
	return &loginWorld{t, server, harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "rules: []\n"}), server.Client()}
}

func (w *loginWorld) acl(words string) {
	w.Helper()
	args := []any{"ACL"}
	for word := range strings.FieldsSeq(words) {
		args = append(args, word)
	}
	if err := w.direct.Do(w.Context(), args...).Err(); err != nil {
		w.Fatal(err)
	}
}

func TestClientsOfOneLoginShareConnections(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"AUTH", "agent", "pw"}, {"HELLO", "3", "AUTH", "agent", "pw"}} {
		w := newLoginWorld(t)
		clients := logIn(t, w.proxy, words...)
		w.shares(clients, "OK", "SET", "mine:k", "v")
		w.shares(clients, "v", "GET", "mine:k")
		for _, c := range clients {
			c.does("agent", "ACL", "WHOAMI")
			c.fails("NOPERM", "GET", "theirs")
			c.fails("NOPERM", "DEL", "mine:k")
		}
		for _, c := range clients {
			c.does("OK", "QUIT")
		}
		harness.Eventually(t, 0, func() bool { return !strings.Contains(w.direct.ClientList(t.Context()).Val(), " user=agent ") },
			"with its last client, a login has no connection")
	}
}

// Case 73: two users behind one proxy, whose own user is a third.
func TestEachUserHasItsOwnRightsAndConnections(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	allow(t, server, "reader", "+get +echo +auth %R~ctx:* %R~free:* "+guardRights(t))
	allow(t, server, "writer", "+get +set +echo +auth ~ctx:* ~free:* "+guardRights(t))
	allow(t, server, "fence", "+@all ~* &*")
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: "redis://fence:pw@" + server.Addr, ConfigYAML: guarding("mode: fence")})
	direct := server.Client()
	clients := crowd(t, proxy, 24) // so many that those of one user share
	for _, swap := range []bool{false, true} {
		for i, c := range clients {
			writes := (i%2 == 0) != swap
			user := map[bool]string{true: "writer", false: "reader"}[writes]
			c.does("OK", "AUTH", user, "pw") // the second time on a live socket
			for _, prefix := range []string{"ctx:", "free:"} {
				key, value := fmt.Sprint(prefix, i), fmt.Sprint(swap)
				before := direct.Get(t.Context(), key).Val()
				if writes {
					c.does("OK", "SET", key, value)
					c.does(value, "GET", key)
					continue
				}
				c.sends("GET", key)
				if _, failed := c.reply().(harness.ReplyError); failed {
					t.Errorf("a reader may not read %s", key)
				}
				c.fails("NOPERM", "SET", key, "a reader's")
				if after := direct.Get(t.Context(), key).Val(); after != before {
					t.Errorf("a reader has written %s", key)
				}
			}
		}
		for line := range strings.Lines(direct.ClientList(t.Context()).Val()) {
			if command := field(line, "cmd"); field(line, "user") == "fence" && (command == "get" || command == "set") {
				t.Errorf("the proxy's own connection serves clients: %s", line)
			}
		}
	}
}

// Whoever fails to log in, or has logged in as somebody else, gets nothing of another's.
func TestNobodyIsServedAsSomebodyElse(t *testing.T) {
	t.Parallel()
	w := startTwins(t, "rules: []\n")
	for _, server := range []*harness.Redis{w.straight, w.behind} {
		allow(t, server, "agent", agentRights)
		allow(t, server, "other", "+get +set +echo ~theirs:*")
		server.Client().Do(t.Context(), "ACL", "SETUSER", "default", "-set", "resetkeys", "~all:*")
	}
	people := make([]*twin, 40)
	for i := range people {
		people[i] = w.meet(t, fmt.Sprint("client ", i), "2")
		switch i % 4 {
		case 0:
			people[i].says(1, []string{"AUTH", "agent", "pw"})
		case 1:
			people[i].says(1, []string{"AUTH", "other", "pw"})
			people[i].says(1, []string{"AUTH", "agent", "wrong"}) // which since 7.2 is not answered behind another
		case 2:
			people[i].says(1, []string{"AUTH", "agent", "wrong"})
		default:
			people[i].says(3, []string{"AUTH", "agent", "pw"}, []string{"GET", "mine:k"}, []string{"AUTH", "other", "pw"})
		}
	}
	for range 5 {
		for i, p := range people {
			p.says(5, []string{"SET", fmt.Sprint("mine:", i), "v"}, []string{"SET", fmt.Sprint("theirs:", i), "v"}, []string{"GET", "mine:0"},
				[]string{"GET", "theirs:1"}, []string{"GET", "all:x"})
		}
	}
}

// RESET logs a client out: it shares with nobody then, and has the rights of one who has not logged in.
func TestAClientThatIsLoggedOutSharesWithNobody(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	needs(t, w.server, "reset")
	clients := logIn(t, w.proxy, "AUTH", "agent", "pw")
	w.shares(clients, nil, "GET", "mine:k")
	w.acl("SETUSER default resetkeys ~all:*")
	clients[0].does("RESET", "RESET")
	for range 5 {
		clients[0].fails("NOPERM", "GET", "mine:k")
		clients[0].does(nil, "GET", "all:k")
	}
	clients[0].does("OK", "AUTH", "agent", "pw")
	for range 5 {
		clients[0].does(nil, "GET", "mine:k")
		clients[0].fails("NOPERM", "GET", "all:k")
	}
}

// As at Redis, a user's rights count from now on, and another password only for who logs in.
func TestAUsersRightsAreItsLatest(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	clients := logIn(t, w.proxy, "AUTH", "agent", "pw")
	w.shares(clients, "OK", "SET", "mine:k", "v")
	w.acl("SETUSER agent -set +del ~more:*")
	for _, c := range clients {
		c.fails("NOPERM", "SET", "mine:k", "w")
		c.does(int64(0), "DEL", "more:k")
	}
	w.acl("SETUSER agent resetpass >new off")
	for range 3 {
		for _, c := range clients {
			c.does("v", "GET", "mine:k")
			c.fails("NOPERM", "SET", "mine:k", "w")
		}
	}
	late, _ := connect(t, "late", w.proxy.Addr)
	late.fails("WRONGPASS", "AUTH", "agent", "pw")
	late.fails("WRONGPASS", "AUTH", "agent", "new")
}

// The words are good no longer when the shared connection ends: each client still has its own.
func TestClientsOutliveTheConnectionsOfTheirLogin(t *testing.T) {
	t.Parallel()
	for _, pipelined := range []int{1, 20} {
		w := newLoginWorld(t)
		clients := logIn(t, w.proxy, "AUTH", "agent", "pw")
		id := w.shares(clients, "OK", "SET", "mine:k", "v")
		w.acl("SETUSER agent resetpass >new")
		if n := w.direct.ClientKillByFilter(t.Context(), "ID", id).Val(); n != 1 {
			t.Fatalf("%d connections were killed", n)
		}
		for range 3 {
			for _, c := range clients {
				for range pipelined {
					c.sends("SET", "mine:k", "w")
				}
				c.sends("ACL", "WHOAMI")
				for range pipelined {
					c.hears("OK")
				}
				c.hears("agent")
			}
		}
		w.acl("SETUSER agent >pw")
		for _, c := range logIn(t, w.proxy, "AUTH", "agent", "pw") {
			c.does("w", "GET", "mine:k")
		}
	}
}

// Redis closes the connections of a user that is deleted; another of the same name and password is another user.
func TestClientsOfAUserThatIsDeletedAreClosed(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	clients := logIn(t, w.proxy, "AUTH", "agent", "pw")
	conns := make([]*harness.RawConn, 0, 4)
	for range 4 {
		c, conn := connect(t, "idle", w.proxy.Addr)
		c.does("OK", "AUTH", "agent", "pw")
		conns = append(conns, conn)
	}
	w.shares(clients, "OK", "SET", "mine:k", "v")
	admin := harness.Dial(t, w.server.Addr)
	admin.Send(harness.Encode("ACL", "DELUSER", "agent") + harness.Encode(append([]string{"ACL", "SETUSER", "agent", "on", ">pw"}, strings.Fields(agentRights)...)...))
	admin.ReadReply()
	admin.ReadReply()
	for _, c := range clients {
		c.sends("GET", "mine:k")
		for { // an error for what was under way, but no value
			reply, err := c.read()
			if err != nil {
				break
			}
			if !isError(reply, "ERR") {
				t.Errorf("%s hears %v", c.name, reply)
			}
		}
	}
	for _, conn := range conns {
		conn.ExpectClosed()
	}
	w.shares(logIn(t, w.proxy, "AUTH", "agent", "pw"), "v", "GET", "mine:k")
}

// Redis may be set to close idle connections: a client that is busy has none, though it shares.
func TestABusyClientsOwnConnectionDoesNotGrowIdle(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	clients := logIn(t, w.proxy, "AUTH", "agent", "pw")
	w.shares(clients, nil, "GET", "mine:k")
	if err := w.direct.ConfigSet(t.Context(), "timeout", "2").Err(); err != nil {
		t.Fatal(err)
	}
	admin := harness.Dial(t, w.server.Addr)
	start := uptime(admin)
	harness.Eventually(t, 0, func() bool {
		for _, c := range clients {
			c.does(nil, "GET", "mine:k")
		}
		return uptime(admin) > start+4 // seconds
	}, "the time has passed twice")
}

// uptime returns the server's uptime in seconds.
func uptime(admin *harness.RawConn) (seconds int) {
	for line := range strings.Lines(string(admin.Do("INFO", "server"))) {
		_, _ = fmt.Sscanf(line, "uptime_in_seconds:%d", &seconds)
	}
	return seconds
}

// Clients come, log in, change who they are and leave, all at the same time.
func TestLoginsComeAndGo(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	allow(t, w.server, "other", "+get +set +echo ~theirs:*")
	w.direct.MSet(t.Context(), "mine:k", "v", "theirs:k", "v")
	var visits sync.WaitGroup
	for i := range 24 {
		visits.Go(func() {
			for range 10 {
				conn, err := harness.Connect(w.proxy.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				for turn, user := range []string{"agent", "other", "agent"}[i%2:] {
					theirs, mine := "-NOPERM", "$1\r\nv\r\n"
					if user == "other" {
						theirs, mine = "$1\r\nv\r\n", "-NOPERM"
					}
					text := harness.Encode("AUTH", user, "pw")
					for range 5 {
						text += harness.Encode("GET", "mine:k") + harness.Encode("GET", "theirs:k")
					}
					if _, err := conn.Write([]byte(text)); err != nil {
						t.Error(err)
					}
					for n := range 11 {
						want := []string{theirs, mine}[n%2]
						if n == 0 {
							want = "+OK"
						}
						if got, err := conn.Read(); err != nil || !strings.HasPrefix(string(got), want) {
							t.Errorf("turn %d as %s, reply %d: %q, %v; want %q", turn, user, n, got, err, want)
						}
					}
				}
				_ = conn.Close()
			}
		})
	}
	visits.Wait()
	counts(t, w.proxy, "fence_proxy_connections", 0)
	harness.Eventually(t, 0, func() bool {
		list := w.direct.ClientList(t.Context()).Val()
		return !strings.Contains(list, " user=agent ") && !strings.Contains(list, " user=other ")
	}, "nobody is logged in")
}
