//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// guardRights are what a guarded client's user needs beside its own commands and keys, as docs/acl.md
// has it.
func guardRights(t *testing.T) string {
	t.Helper()
	command := recipe(t, "Agents with users of their own", "redis")[0]
	_, rights, _ := strings.Cut(command, "+eval ")
	return "+eval " + rights
}

// allow makes a user at a Redis; the password is "pw".
func allow(t *testing.T, server *harness.Redis, name, rights string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">pw"}
	for _, r := range strings.Fields(rights) {
		args = append(args, r)
	}
	err := server.Client().Do(t.Context(), args...).Err()
	if err != nil && strings.Contains(err.Error(), "modifier '%R~") { // before 7.0 a key may be read and written, or neither
		t.Skip("this server has no users who only read a key: ", err)
	}
	if err != nil && strings.Contains(err.Error(), "modifier '&") { // before 6.2 there are no rights to channels
		args = slices.DeleteFunc(args, func(a any) bool { return strings.HasPrefix(a.(string), "&") })
		err = server.Client().Do(t.Context(), args...).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAGuardedClientsUserNeedsTheRightsThatTheDocsName(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	allow(t, server, "agent", "+get +set +append +mget +mset +acl|whoami ~ctx:* "+guardRights(t))
	agents := map[string]*party{}
	for name, login := range map[string][]string{"A": {"AUTH", "agent", "pw"}, "B": {"HELLO", "2", "AUTH", "agent", "pw"}, "C": {"AUTH", "agent", "pw"}} {
		agent, conn := connect(t, name, proxy.Addr)
		conn.Do(login...)
		agent.does("agent", "ACL", "WHOAMI")
		agents[name] = agent
	}
	a, b, c := agents["A"], agents["B"], agents["C"]
	line := lineFor(t, server, "ctx:s")
	a.does(nil, "GET", line.key)
	a.does("OK", "SET", line.key, "1")        // under the WATCH of its read
	a.does(int64(2), "APPEND", line.key, "2") // blindly
	a.does("12", "GET", line.key)
	a.does("12", "GET", line.key)
	b.sends("GET", line.key) // waits, and is handed the session
	line.hasWaiters(1)
	c.sends("SET", line.key, "4") // so does a blind write
	line.hasWaiters(2)
	a.does("OK", "SET", line.key, "3")
	b.hears("3")
	b.does("OK", "SET", line.key, "3b")
	c.hears("OK")
	a.does([]any{"4", nil}, "MGET", line.key, "ctx:t")
	a.does("OK", "MSET", line.key, "5", "ctx:t", "5")

	a.does("5", "GET", line.key)
	server.Client().Del(t.Context(), line.token, line.hold) // its hold is over
	b.does("OK", "SET", line.key, "6")
	a.fails("FENCED", "SET", line.key, "stale")
	a.does("6", "GET", line.key)
	a.does("OK", "SET", line.key, "7")
	line.isEmpty()
}

// A user's rights are its own, whatever the proxy's user may do. Redis's own words say so, and nothing
// is taken. Case 73.
func TestAUserWithoutRightsToAGuardedKeyIsToldByRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, endless("0s"))
	for _, server := range []*harness.Redis{w.straight, w.behind} {
		reset := ""
		if knows(t, server, "reset") {
			reset = "+reset "
		}
		allow(t, server, "agent", "+get +set +mget +mset +del +ping "+reset+"~ctx:mine ~free "+guardRights(t))
		allow(t, server, "reader", "+get +mget %R~ctx:* "+guardRights(t))
		allow(t, server, "nobody", "+get +set ~none")
	}
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			w.plays(t, protocol, `
				A: SET ctx:theirs v => 1
				A: AUTH agent wrong => 1
				A: SET ctx:theirs v => 1
				A: AUTH agent pw => 1
				A: GET ctx:theirs => 1
				A: SET ctx:theirs w => 1
				A: MGET ctx:mine ctx:theirs => 1
				A: MSET ctx:mine v ctx:theirs v => 1
				A: APPEND ctx:mine v => 1
				A: DEL ctx:theirs => 1
				A: SET free v ; GET free ; GET other => 3
				A: GET ctx:mine => 1
				A: SET ctx:mine v => 1
				A: GET ctx:mine ; SET ctx:mine w ; DEL ctx:mine => 3
				R: AUTH reader pw => 1
				R: GET ctx:theirs => 1
				R: SET ctx:theirs x => 1
				R: RESET => 1
				R: SET ctx:theirs v => 1
				R: HELLO `+protocol+` AUTH reader wrong => 1
				R: SET ctx:theirs v => 1
				N: AUTH nobody pw => 1
				N: GET ctx:theirs => 1
				N: GET free => 1`)
			wantValue(t, w.behind, "ctx:theirs", "v")
		})
	}
	keys := w.behind.Client().Keys(t.Context(), "fence-proxy:*:[hq]").Val()
	if len(keys) > 0 {
		t.Errorf("sessions are held or waited for: %q", keys)
	}
}

// A user who lacks the guard's rights has no guarded keys, though it may touch their data.
func TestAUserWithoutTheGuardsRightsIsRefused(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("0s")})
	server.Client().Set(t.Context(), "ctx:s", "v", 0)
	for _, rights := range []string{"+get +set +multi +exec ~ctx:*", "+@all ~ctx:*", "+@all -@scripting ~*", "+@all -watch ~* &*", "+@all -multi ~* &*", "+@all -exec ~* &*"} {
		allow(t, server, "agent", rights)
		agent, conn := connect(t, rights, proxy.Addr)
		conn.Do("AUTH", "agent", "pw")
		agent.sends("GET", "ctx:s") // of those who may begin, some may read
		agent.reply()
		message := agent.fails("FENCEDOWN", "SET", "ctx:s", "unfenced")
		if !strings.Contains(message, "NOPERM") {
			t.Errorf("%s: it is not told why: %s", rights, message)
		}
		agent.fails("FENCEDOWN", "SET", "ctx:t", "unfenced")
		wantValue(t, server, "ctx:t", "")
		wantValue(t, server, "ctx:s", "v")
		_ = conn.Close()
	}
}

// Rights that were there can be taken away while a client goes on. A write that got past its fence then
// is not reported as a good one.
func TestAWriteThatEscapedItsFenceIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("0s")})
	direct := server.Client()
	allow(t, server, "agent", "+@all ~* &*")
	agent, conn := connect(t, "agent", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	conn.Do("AUTH", "agent", "pw")
	agent.does(nil, "GET", "ctx:s")
	session := recordOf(t, server, "ctx:s")
	direct.Del(t.Context(), session.token, session.hold) // its hold is over
	other.does("OK", "SET", "ctx:s", "theirs")
	direct.Do(t.Context(), "ACL", "SETUSER", "agent", "-watch")
	agent.fails("FENCEUNKNOWN", "SET", "ctx:s", "stale")
	agent.fails("FENCEDOWN", "SET", "ctx:s", "again")

	direct.Do(t.Context(), "ACL", "SETUSER", "agent", "+watch")
	agent.does("OK", "SET", "ctx:t", "v")
	direct.Do(t.Context(), "ACL", "SETUSER", "agent", "-multi")
	agent.fails("FENCEUNKNOWN", "SET", "ctx:t", "unfenced")
	agent.fails("FENCEDOWN", "SET", "ctx:t", "again")
	wantValue(t, server, "ctx:t", "unfenced")
	proxy.WaitLog(t, "applied a write without its fence")
}

// The same is asked of the proxy's own user, once.
func TestAProxyWhoseUserMayNotWatchDoesNotStart(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	for _, command := range []string{"watch", "multi", "exec"} {
		allow(t, server, "proxy", "+@all -"+command+" ~* &*")
		config := filepath.Join(t.TempDir(), "config.yaml")
		text := "listen: \"127.0.0.1:0\"\nupstream:\n  url: \"redis://proxy:pw@" + server.Addr + "\"\n" + guarding()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, output := harness.RunProxy(t, "--config", config); code == 0 || !strings.Contains(output, "'"+command+"'") {
			t.Errorf("without %s: exit code %d, %s", command, code, output)
		}
	}
}

// With a password at Redis, a client that does not log in has the rights of the proxy's user, and RESET
// takes them away.
func TestResetLogsOut(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding(), harness.WithPassword("pw"))
	p := w.meet(t, "client", "2")
	p.direct.Do("AUTH", "pw")
	for _, command := range []string{"SET ctx:s v", "GET ctx:s", "RESET", "GET ctx:s", "SET ctx:s w", "GET free", "PING", "AUTH wrong", "AUTH pw", "GET ctx:s", "SET ctx:s w", "HELLO 3", "GET free"} {
		if strings.HasPrefix(command, "HELLO") {
			p.direct.Do("HELLO", "3")
			p.client.Do("HELLO", "3")
			continue
		}
		p.says(1, strings.Fields(command))
	}
}
