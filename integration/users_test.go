//go:build integration

package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// usersWorld is a Redis with a password that the proxy alone has, behind a proxy with users of its own.
type usersWorld struct {
	*testing.T
	server *harness.Redis
	proxy  *harness.Proxy
}

// newUsersWorld starts it. rule is what guarding takes.
func newUsersWorld(t *testing.T, users string, rule ...string) *usersWorld {
	t.Helper()
	server := harness.StartRedis(t, harness.WithPassword("upstream-pw"))
	return &usersWorld{t, server, harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: users + guarding(rule...)})}
}

// comes returns a client that has logged in.
func (w *usersWorld) comes(name, password string) (*party, *harness.RawConn) {
	w.Helper()
	p, conn := connect(w.T, name, w.proxy.Addr)
	p.does("OK", "AUTH", name, password)
	return p, conn
}

// revise gives the proxy other users, and waits until they count.
func (w *usersWorld) revise(old, users string) {
	w.Helper()
	text, err := os.ReadFile(w.proxy.Config)
	if err != nil {
		w.Fatal(err)
	}
	changed := strings.Replace(string(text), old, users, 1)
	if changed == string(text) {
		w.Fatalf("%q is not in\n%s", old, text)
	}
	reloads := strings.Count(w.proxy.Logs(), "configuration reloaded")
	if err := os.WriteFile(w.proxy.Config, []byte(changed), 0o600); err != nil {
		w.Fatal(err)
	}
	harness.Eventually(w.T, 0, func() bool { return strings.Count(w.proxy.Logs(), "configuration reloaded") > reloads }, "it is reloaded")
}

// What a client hears that logs in, or does not, is what a Redis with the same users says.
func TestUsersOfTheProxyHearRedissOwnWords(t *testing.T) {
	t.Parallel()
	straight, behind := harness.StartRedis(t, harness.WithPassword("pw")), harness.StartRedis(t, harness.WithPassword("upstream-pw"))
	allow(t, straight, "worker", "+@all ~* &*")
	w := &twins{t, straight, behind, newLacking(t, straight), harness.StartProxy(t, harness.ProxyOptions{
		Redis: behind, ConfigYAML: "users:\n  - {name: default, passwords: [pw]}\n  - {name: worker, passwords: [pw]}\n" + guarding(),
	})}
	const strange = `
		A: GET k ; SET ctx:k v ; PING ; MULTI ; EXEC ; SUBSCRIBE c ; CLIENT SETNAME x ; INFO ; EVAL x 0 ; WATCH k => 10
		A: GET ; AUTH ; HELLO 2 ; HELLO 3 ; HELLO 4 ; HELLO +2 ; HELLO x ; HELLO 3 SETNAME a ; HELLO 3 AUTH worker => 9
		A: HELLO 3 AUTH worker wrong ; HELLO 2 AUTH nobody pw ; HELLO 3 SETNAME a AUTH worker wrong => 3
		A: AUTH wrong ; AUTH a b c ; AUTH nobody pw ; AUTH worker wrong ; AUTH worker pw2 => 5
		A: RESET ; GET k => 2`
	const admitted = `
		A: ACL WHOAMI ; SET free v ; GET free ; SET ctx:k v ; GET ctx:k => 5
		A: AUTH worker wrong ; ACL WHOAMI ; HELLO 3 AUTH worker wrong ; GET ctx:k => 4
		A: HELLO 9 AUTH worker pw ; HELLO 2 AUTH worker ; HELLO 3 SETNAME => 3
		A: MULTI ; SET ctx:k w ; GET free ; EXEC => 4`
	answers := !takes(t, straight, "CLIENT", "NO-TOUCH", "OFF") // it came with 7.2
	for name, script := range map[string]string{
		"AUTH with a name":     "A: AUTH worker pw => 1" + admitted,
		"AUTH with a password": "A: AUTH pw => 1" + admitted + "\nA: AUTH worker pw ; ACL WHOAMI ; AUTH pw ; ACL WHOAMI => 4",
		"HELLO 2":              "A: HELLO 2 AUTH worker pw => 1" + admitted,
		"HELLO 3":              "A: HELLO 3 AUTH worker pw SETNAME a => 1\nA: CLIENT GETNAME => 1" + admitted,
		"HELLO 3 twice":        "A: HELLO 3 AUTH worker pw => 1\nA: HELLO 3 SETNAME b AUTH default pw => 1\nA: CLIENT GETNAME => 1" + admitted,
		"RESET":                "A: HELLO 3 AUTH worker pw => 1" + admitted + "\nA: RESET => 1" + strange + "\nA: AUTH worker pw ; ACL WHOAMI ; GET free ; SET free w ; GET free => 5",
		"a subscriber":         "A: AUTH worker pw ; SUBSCRIBE c => 2\nA: AUTH worker pw => 1\nA: HELLO 3 AUTH worker pw => 1\nA: PING => 1",
		"QUIT":                 "A: QUIT => 1",
		"CLIENT REPLY OFF":     "A: AUTH worker pw => 1\nA: CLIENT REPLY SKIP ; AUTH worker pw ; CLIENT REPLY SKIP ; AUTH worker wrong ; ACL WHOAMI => 1",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "RESET" { // what follows is a stranger's
				needs(t, straight, "reset")
			}
			if answers { // a login that fails behind other commands
				w.one(t, "2", strange+"\n"+script)
				return
			}
			empty(t, w.straight)
			empty(t, w.behind)
			w.plays(t, "2", singly(strange+"\n"+script))
		})
	}
}

// singly is a script whose commands wait each for the one before, where each has one reply.
func singly(script string) string {
	var lines []string
	for line := range strings.Lines(script) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		said, heard, _ := strings.Cut(rest, "=>")
		calls := strings.Split(said, " ; ")
		if strings.TrimSpace(heard) != strconv.Itoa(len(calls)) {
			lines = append(lines, line)
			continue
		}
		for _, call := range calls {
			lines = append(lines, name+": "+call+" => 1")
		}
	}
	return strings.Join(lines, "\n")
}

// Users of the proxy are told apart by its rules, and are one user to Redis.
func TestUsersOfTheProxyAreToldApartByName(t *testing.T) {
	t.Parallel()
	w := newUsersWorld(t, "users:\n  - {name: worker, passwords: [pw]}\n  - {name: dashboard, passwords: [pw2]}\n", "mode: lock", "wait: 0s", "readers: [dashboard]")
	worker, _ := w.comes("worker", "pw")
	other, _ := w.comes("worker", "pw")
	dashboard, _ := w.comes("dashboard", "pw2")
	worker.does(nil, "GET", "ctx:s")
	other.fails("LOCKED", "GET", "ctx:s")
	dashboard.does(nil, "GET", "ctx:s")
	dashboard.does("dashboard", "ACL", "WHOAMI")
	dashboard.does("OK", "AUTH", "worker", "pw")
	dashboard.fails("LOCKED", "GET", "ctx:s")
	for line := range strings.Lines(w.server.Client().ClientList(t.Context()).Val()) {
		if field(line, "user") != "default" {
			t.Errorf("Redis has another user: %s", line)
		}
	}
	many := make([]*party, 24) // so many that they share connections
	for i := range many {
		many[i], _ = w.comes([]string{"worker", "dashboard"}[i%2], []string{"pw", "pw2"}[i%2])
	}
	for range 3 {
		for i, c := range many {
			c.does("OK", "SET", fmt.Sprint("free:", i), "v")
			c.does("v", "GET", fmt.Sprint("free:", i))
		}
	}
}

func TestAClientLibraryLogsInAtTheProxy(t *testing.T) {
	t.Parallel()
	w := newUsersWorld(t, "users: [{name: worker, passwords: [pw]}]\n")
	for _, protocol := range []int{2, 3} {
		as := func(password string) *redis.Client {
			return w.proxy.Client(func(o *redis.Options) {
				o.Username, o.Password, o.Protocol, o.DB, o.ClientName = "worker", password, protocol, 3, "agent"
			})
		}
		if err := as("pw").Set(t.Context(), "ctx:s", "v", 0).Err(); err != nil {
			t.Errorf("RESP%d: %v", protocol, err)
		}
		if err := as("wrong").Get(t.Context(), "ctx:s").Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("RESP%d with a wrong password: %v", protocol, err)
		}
	}
}

func TestALoginInATransactionIsRefused(t *testing.T) {
	t.Parallel()
	w := newUsersWorld(t, "users: [{name: worker, passwords: [pw]}]\n")
	for _, prefix := range []string{"ctx:", "free:"} {
		for i, login := range [][]string{{"AUTH", "worker", "pw"}, {"HELLO", "3", "AUTH", "worker", "pw"}} {
			key := fmt.Sprint(prefix, i)
			c, _ := w.comes("worker", "pw")
			c.does("OK", "MULTI")
			c.does("QUEUED", "SET", key, "v")
			c.fails("FENCEDENIED", login...)
			c.fails("EXECABORT", "EXEC")
			c.does(nil, "GET", key)
		}
	}
}

// Whoever has not logged in can't have much kept for it.
func TestAClientThatHasNotLoggedInIsBounded(t *testing.T) {
	t.Parallel()
	straight, behind := harness.StartRedis(t, harness.WithPassword("pw")), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: behind, Admin: true, ConfigYAML: "users: [{name: default, passwords: [pw]}]\n" + guarding(),
	})
	large := strings.Repeat("v", 16<<10)
	for name, text := range map[string]string{
		"more than ten arguments":          "*11\r\n",
		"an argument of more than 16 KiB":  "*2\r\n$16385\r\n",
		"one that is beyond every limit":   "*2\r\n$9999999999\r\n",
		"more arguments than Redis takes":  "*2147483648\r\n",
		"as much as may be":                harness.Encode("MSET", large, large, large, large, large, large, large, large, large),
		"a login and a large value behind": harness.Encode("AUTH", "pw") + harness.Encode("SET", "ctx:s", large+large),
		"many arguments behind a login":    harness.Encode("AUTH", "pw") + harness.Encode(strings.Fields("DEL"+strings.Repeat(" k", 100))...),
		"large ones after a RESET":         harness.Encode("AUTH", "pw") + harness.Encode("RESET") + "*11\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(text, "RESET") {
				needs(t, behind, "reset")
			}
			want, got := harness.Dial(t, straight.Addr), harness.Dial(t, proxy.Addr)
			want.Send(text)
			got.Send(text)
			for range strings.Count(text, "AUTH\r\n") + strings.Count(text, "RESET\r\n") + 1 {
				if w, g := string(want.ReadReply()), string(got.ReadReply()); w != g {
					t.Fatalf("%q, want %q", g, w)
				}
			}
			if strings.HasSuffix(text, "*11\r\n") || strings.HasPrefix(text, "*2") && strings.Contains(text, "$") && len(text) < 30 {
				want.ExpectClosed()
				got.ExpectClosed()
			}
		})
	}
	t.Run("one that takes no replies", func(t *testing.T) {
		before := proxy.Metric("process_resident_memory_bytes")
		deaf := harness.Dial(t, proxy.Addr)
		many := []byte(strings.Repeat("PING\r\n", 10_000))
		for sent := 0; ; sent++ {
			if _, err := deaf.Write(many); err != nil {
				break // it was dropped
			}
			if sent > 10_000 {
				t.Fatal("it is served for ever")
			}
		}
		if grown := proxy.Metric("process_resident_memory_bytes") - before; grown > 64<<20 {
			t.Errorf("memory has grown by %.0f bytes", grown)
		}
	})
}

func TestClientsOfAUserThatIsRemovedAreClosed(t *testing.T) {
	t.Parallel()
	const both = "users:\n  - {name: a, passwords: [pw]}\n  - {name: b, passwords: [pw]}\n"
	w := newUsersWorld(t, both, "mode: lock", "wait: 60s", "lease: 60s", "max_hold: 10m", "idle: 10m")
	line := lineFor(t, w.server, "ctx:s")
	a, aConn := w.comes("a", "pw")
	waiting, waitingConn := w.comes("a", "pw")
	b, _ := w.comes("b", "pw")
	stranger, _ := connect(t, "stranger", w.proxy.Addr)
	a.does(nil, "GET", "ctx:s")
	waiting.sends("GET", "ctx:s")
	line.hasWaiters(1)
	b.sends("GET", "ctx:s")
	line.hasWaiters(2)
	w.revise("{name: a, passwords: [pw]}", "{name: c, passwords: [pw]}")
	b.hears(nil) // what a held was given back
	aConn.ExpectClosed()
	waiting.hearsError("FENCEDOWN")
	waitingConn.ExpectClosed()
	b.does("OK", "SET", "ctx:s", "v")
	stranger.fails("WRONGPASS", "AUTH", "a", "pw")
	stranger.does("OK", "AUTH", "c", "pw")

	// Another password is for who logs in from now on.
	w.revise("{name: b, passwords: [pw]}", "{name: b, passwords: [next]}")
	b.does("v", "GET", "ctx:s")
	late, _ := connect(t, "late", w.proxy.Addr)
	late.fails("WRONGPASS", "AUTH", "b", "pw")
	late.does("OK", "AUTH", "b", "next")

	// A list that is no good changes nothing.
	bad := strings.Count(w.proxy.Logs(), "configuration not reloaded")
	text, err := os.ReadFile(w.proxy.Config)
	if err == nil {
		err = os.WriteFile(w.proxy.Config, []byte(strings.Replace(string(text), "passwords: [next]", "password_file: /nowhere", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, 0, func() bool { return strings.Count(w.proxy.Logs(), "configuration not reloaded") > bad }, "it is refused")
	late.does("PONG", "PING")
}

// Where there are no users any more, or there come to be some, nobody is who it was.
func TestUsersComeAndGoWhileTheProxyRuns(t *testing.T) {
	t.Parallel()
	w := newUsersWorld(t, "users: [{name: a, passwords: [pw]}]\n")
	_, aConn := w.comes("a", "pw")
	w.revise("users: [{name: a, passwords: [pw]}]\n", "")
	aConn.ExpectClosed()
	plain, plainConn := connect(t, "plain", w.proxy.Addr)
	plain.does("OK", "SET", "ctx:s", "v")
	plain.does("OK", "AUTH", "upstream-pw") // which Redis checks
	plain.does("v", "GET", "ctx:s")
	w.revise("rules:", "users: [{name: a, passwords: [pw]}]\nrules:")
	plainConn.ExpectClosed()
	late, _ := connect(t, "late", w.proxy.Addr)
	late.fails("NOAUTH", "GET", "ctx:s")
	late.fails("WRONGPASS", "AUTH", "upstream-pw")
}

func TestPasswordsOfUsersAreReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	secret := mount(t, map[string]string{"worker": "first\n"})
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, Env: []string{"WORKER_PASSWORD=from-a-variable"},
		ConfigYAML: fmt.Sprintf("users: [{name: worker, password_file: %q, password_env: WORKER_PASSWORD}]\n", secret.path("worker")) + guarding(),
	})
	early, _ := connect(t, "early", proxy.Addr)
	early.does("OK", "AUTH", "worker", "first")
	secret.swap(map[string]string{"worker": "first\nsecond\n"}) // both, while clients change over
	takes := func(password string) bool {
		c, conn := connect(t, "late", proxy.Addr)
		defer conn.Close()
		c.sends("AUTH", "worker", password)
		return c.reply() == "OK"
	}
	harness.Eventually(t, 0, func() bool { return takes("second") }, "the second password counts")
	if !takes("first") {
		t.Error("the first password counts no more")
	}
	secret.swap(map[string]string{"worker": "second"})
	harness.Eventually(t, 0, func() bool { return !takes("first") }, "the first password counts no more")
	secret.swap(map[string]string{"worker": ""})
	if !takes("second") || !takes("from-a-variable") {
		t.Error("an empty file locks clients out")
	}
	early.does(nil, "GET", "ctx:s")
}

// Who may break a hold is said in the configuration, whatever the proxy's user may do.
func TestOnlyAdminsAmongTheUsersBreakHolds(t *testing.T) {
	t.Parallel()
	w := newUsersWorld(t, "users:\n  - {name: worker, passwords: [pw], admin: false}\n  - {name: operator, passwords: [pw], admin: true}\n", "mode: lock")
	worker, _ := w.comes("worker", "pw")
	operator, _ := w.comes("operator", "pw")
	worker.does(nil, "GET", "ctx:s")
	worker.fails("NOPERM", "FENCE.BREAK", "ctx:s")
	operator.does(int64(1), "FENCE.BREAK", "ctx:s")
	worker.fails("FENCED", "SET", "ctx:s", "stale")
	w.revise("admin: false", "admin: true")
	worker.does(int64(0), "FENCE.BREAK", "ctx:s") // as its rights are now
	stranger, _ := connect(t, "stranger", w.proxy.Addr)
	stranger.fails("NOAUTH", "FENCE.BREAK", "ctx:s")
	stranger.fails("NOAUTH", "FENCE.LIST")
}
