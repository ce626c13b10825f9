//go:build integration

package page

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const token = "0123456789abcdef"

// rules guard ctx:<session>:… by locks that end in no time of the test's.
const rules = `name: agents-1
rules:
  - {name: chat, prefix: "ctx:", session: "ctx:<session>:*", mode: lock, owner: connection, wait: 60s, lease: 30m, max_hold: 30m, idle: 30m}
  - {name: impatient, prefix: "now:", mode: lock, owner: connection, wait: 0s, lease: 30m, max_hold: 30m, idle: 30m}
`

// agent is a client of the proxy's, with a name.
type agent struct {
	*harness.RawConn
	t testing.TB
}

func connect(t testing.TB, p *harness.Proxy, name string) *agent {
	t.Helper()
	a := &agent{harness.Dial(t, p.Addr), t}
	a.says("+OK", "CLIENT", "SETNAME", name)
	return a
}

// says sends a command and wants a reply that begins so.
func (a *agent) says(want string, args ...string) {
	a.t.Helper()
	if got := string(a.Do(args...)); !strings.HasPrefix(got, want) {
		a.t.Fatalf("%v: %s, want %s", args, got, want)
	}
}

// superseded has agent a read, its hold end as if its proxy had been frozen for longer than the lease, and b come in between.
func superseded(t testing.TB, server *harness.Redis, a, b *agent, key, session string) {
	t.Helper()
	a.says("$-1", "GET", key)
	server.Client().Del(t.Context(), "fence-proxy:{chat:"+session+"}:h")
	b.says("$-1", "GET", key)
	b.says("+OK", "SET", key, "b")
}
