//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// mounted is a Secret as Kubernetes mounts it: links to ..data, which is a link.
type mounted struct {
	*testing.T
	dir string
}

func mount(t *testing.T, files map[string]string) mounted {
	t.Helper()
	m := mounted{t, t.TempDir()}
	m.swap(files)
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), m.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m mounted) path(name string) string { return filepath.Join(m.dir, name) }

// swap puts other contents in the place of all files at once.
func (m mounted) swap(files map[string]string) {
	m.Helper()
	next, err := os.MkdirTemp(m.dir, "..")
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(next, name), []byte(text), 0o600)
		}
	}
	link := filepath.Join(m.dir, "..data_tmp")
	if err == nil {
		err = os.Symlink(filepath.Base(next), link)
	}
	if err == nil {
		err = os.Rename(link, filepath.Join(m.dir, "..data"))
	}
	if err != nil {
		m.Fatal(err)
	}
}

// alsoTakes gives a user of a Redis, whose password is "pw", another one.
func alsoTakes(t *testing.T, server *harness.Redis, user, password string) {
	t.Helper()
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", user, ">"+password).Err(); err != nil {
		t.Fatal(err)
	}
}

// endsOld takes the password "pw" away from a user, and ends its connections.
func endsOld(t *testing.T, server *harness.Redis, user string) {
	t.Helper()
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", user, "<pw").Err(); err != nil {
		t.Fatal(err)
	}
	server.Client().Do(t.Context(), "CLIENT", "KILL", "USER", user)
}

func TestThePasswordOfTheUpstreamIsReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	allow(t, server, "fence", "+@all ~* &*")
	secret := mount(t, map[string]string{"password": "pw\n"})
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Env:        []string{"FENCE_UPSTREAM_PASSWORD_FILE=" + secret.path("password")},
		ConfigYAML: fmt.Sprintf("upstream: {url: %q, username: fence}\n", server.URL()) + guarding("mode: lock"),
	})
	cycle := func(want any) {
		agent, conn := connect(t, "agent", proxy.Addr)
		defer conn.Close()
		agent.does("fence", "ACL", "WHOAMI")
		agent.does(want, "GET", "ctx:s")
		agent.does("OK", "SET", "ctx:s", "v")
	}
	cycle(nil)
	alsoTakes(t, server, "fence", "next")
	secret.swap(map[string]string{"password": "next"})
	cycle("v")
	endsOld(t, server, "fence")
	cycle("v")
	holder, _ := connect(t, "holder", proxy.Addr)
	waiter, _ := connect(t, "waiter", proxy.Addr)
	holder.does("v", "GET", "ctx:s")
	waiter.sends("SET", "ctx:s", "w") // it is woken over the proxy's own connections
	lineFor(t, server, "ctx:s").hasWaiters(1)
	holder.does("OK", "SET", "ctx:s", "v")
	waiter.hears("OK")
}

func TestThePasswordOfAClusterIsReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, 0)
	for _, n := range c.Nodes {
		allow(t, n.Redis, "fence", "+@all ~* &*")
	}
	secret := mount(t, map[string]string{"password": "pw"})
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		ConfigYAML: fmt.Sprintf("upstream: {url: %q, username: fence, password_file: %q}\n", c.URL(), secret.path("password")) + guarding(),
	})
	early, _ := connect(t, "early", proxy.Addr)
	early.does("OK", "SET", "0", "v")
	for _, n := range c.Nodes {
		alsoTakes(t, n.Redis, "fence", "next")
	}
	secret.swap(map[string]string{"password": "next"})
	for _, n := range c.Nodes {
		if err := n.Client().Do(t.Context(), "ACL", "SETUSER", "fence", "<pw").Err(); err != nil {
			t.Fatal(err)
		}
	}
	late, _ := connect(t, "late", proxy.Addr)
	for i := range 30 { // in slots of nodes that nobody has had a connection to
		early.does("OK", "SET", fmt.Sprint(i), "v")
		late.does("v", "GET", fmt.Sprint(i))
		late.does(nil, "GET", fmt.Sprint("ctx:", i))
		late.does("OK", "SET", fmt.Sprint("ctx:", i), "v")
	}
}

func TestThePasswordsBehindSentinelsAreReplacedWithoutARestart(t *testing.T) {
	t.Parallel()
	set := harness.StartSentinels(t)
	secret := mount(t, map[string]string{"redis": "pw", "sentinel": "pw"})
	servers, login := map[string][]*harness.Redis{}, ""
	if takes(t, set.Sentinels[0], "ACL", "WHOAMI") { // before 6.2 Sentinels have no users
		servers["watch"] = set.Sentinels
		login = fmt.Sprintf("sentinel: {username: watch, password_file: %q}", secret.path("sentinel"))
	}
	for _, n := range set.Nodes {
		servers["fence"] = append(servers["fence"], n.Redis)
	}
	each := func(do func(server *harness.Redis, user string)) {
		for user, all := range servers {
			for _, server := range all {
				do(server, user)
			}
		}
	}
	each(func(server *harness.Redis, user string) { allow(t, server, user, "+@all ~* &*") })
	proxy := harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf(`
upstream:
  url: %q
  username: fence
  password_file: %q
  %s
`, set.URL(), secret.path("redis"), login) + guarding()})
	agent, _ := connect(t, "agent", proxy.Addr)
	agent.does("OK", "SET", "ctx:s", "v")
	each(func(server *harness.Redis, user string) { alsoTakes(t, server, user, user+"-next") })
	secret.swap(map[string]string{"redis": "fence-next", "sentinel": "watch-next"})
	each(func(server *harness.Redis, user string) { endsOld(t, server, user) })
	primary := set.Failover()
	proxy.WaitLog(t, "primary="+primary.Addr)
	late, _ := connect(t, "late", proxy.Addr)
	late.does("fence", "ACL", "WHOAMI")
	late.does("OK", "SET", "ctx:s", "w")
}
