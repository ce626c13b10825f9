//go:build integration

package integration

import (
	"strings"
	"sync"
	"testing"

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

// lacking are the commands among the calls of a script that came after the server, in any line of it.
type lacking struct {
	server *harness.Redis
	table  *command.Table // of a later one

	mu    sync.Mutex
	known map[string]bool
}

func newLacking(server *harness.Redis) *lacking {
	return &lacking{server: server, table: command.Builtin(), known: map[string]bool{}}
}

// any reports whether the server lacks one of the calls' commands: a line of a script with such a call is left out.
func (l *lacking) any(t *testing.T, calls [][]string) bool {
	t.Helper()
	for _, call := range calls {
		if len(call) == 0 {
			continue
		}
		name := strings.ToLower(call[0])
		if _, there := l.table.Lookup([][]byte{[]byte(name)}); !there {
			continue
		}
		if !l.knows(t, name) {
			t.Logf("left out, since this server has no %s: %q", strings.ToUpper(name), calls)
			return true
		}
	}
	return false
}

func (l *lacking) knows(t *testing.T, name string) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	known, asked := l.known[name]
	if !asked {
		known = knows(t, l.server, name)
		l.known[name] = known
	}
	return known
}
