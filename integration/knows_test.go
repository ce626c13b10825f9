//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Servers differ in what they know, and are asked.

// knows asks a server whether it has a command, as in "xgroup" or "client|no-evict".
func knows(t *testing.T, server *harness.Redis, name string) bool {
	t.Helper()
	container, _, sub := strings.Cut(name, "|")
	info, err := server.Client().Do(t.Context(), "COMMAND", "INFO", name).Slice()
	if err == nil && sub && (len(info) == 0 || info[0] == nil) { // before 7.0 it does not tell
		help, _ := server.Client().Do(t.Context(), container, "HELP").StringSlice()
		_, word, _ := strings.Cut(name, "|")
		return strings.Contains(strings.ToLower(strings.Join(help, "\n")), word)
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(info) > 0 && info[0] != nil
}

// needs passes the test over if the server lacks a command that it is about.
func needs(t *testing.T, server *harness.Redis, names ...string) {
	t.Helper()
	for _, name := range names {
		if !knows(t, server, name) {
			t.Skipf("this server has no %s", strings.ToUpper(name))
		}
	}
}

// takes asks a server whether it takes a call, and passes over what it lacks: another option, a setting, a right.
func takes(t *testing.T, server *harness.Redis, call ...any) bool {
	t.Helper()
	err := server.Client().Do(t.Context(), call...).Err()
	if err != nil {
		t.Logf("this server does not take %v: %v", call, err)
	}
	return err == nil
}

// findsOut reports whether the proxy can find out at a server what became of a write whose answer was lost: that takes CLIENT INFO
// (docs/servers.md).
func findsOut(t *testing.T, server redis.UniversalClient) bool {
	t.Helper()
	return server.Do(t.Context(), "CLIENT", "INFO").Err() == nil
}

// hearsOfLost takes the reply to a write of which the relay has cut off one direction: want, with a server where what became of it
// is found out, and else FENCEUNKNOWN. It returns whether the write is applied, once.
func (p *party) hearsOfLost(server *harness.Redis, cut harness.Direction, want any) (applied bool) {
	p.t.Helper()
	if findsOut(p.t, server.Client()) {
		p.hears(want)
		return true
	}
	if message := p.hearsError("FENCEUNKNOWN"); !strings.Contains(message, "may or may not have been applied") {
		p.t.Errorf("%s hears %q", p.name, message)
	}
	return cut == harness.ToClient
}

// lacking tells which commands came after a server's. It asks once, so that it is in nobody's way.
type lacking struct {
	later *command.Table // of a server that has them
	has   map[string]bool
}

func newLacking(t *testing.T, server *harness.Redis) *lacking {
	t.Helper()
	l := &lacking{later: command.Builtin(), has: map[string]bool{}}
	all, err := server.Client().Do(t.Context(), "COMMAND").Slice()
	for _, entry := range all {
		if entry, ok := entry.([]any); ok && len(entry) > 0 {
			l.has[fmt.Sprint(entry[0])] = true
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// any reports whether the server lacks one of the calls' commands: a line of a script with such a call is left out.
func (l *lacking) any(t *testing.T, calls [][]string) bool {
	t.Helper()
	for _, call := range calls {
		if len(call) == 0 {
			continue
		}
		name := strings.ToLower(call[0])
		if _, there := l.later.Lookup([][]byte{[]byte(name)}); there && !l.has[name] {
			t.Logf("left out, since this server has no %s: %q", strings.ToUpper(name), calls)
			return true
		}
	}
	return false
}

// confirmsLeaving passes the test over if the server answers whoever leaves channels without being in one by an error, not
// by a confirmation for each: Valkey 8.0 does.
func confirmsLeaving(t *testing.T, server *harness.Redis) {
	t.Helper()
	if err := server.Client().Do(t.Context(), "UNSUBSCRIBE", "none").Err(); err != nil && strings.HasPrefix(err.Error(), "NOSUB") {
		t.Skip("this server answers otherwise: ", err)
	}
}
