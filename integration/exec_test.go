//go:build integration

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// execution is a run of fence-proxy exec.
type execution struct {
	t      *testing.T
	cmd    *exec.Cmd
	output strings.Builder
	done   chan struct{} // closed when it has ended
}

// execute starts fence-proxy exec for the session "job" of a Redis.
func execute(t *testing.T, server *harness.Redis, flags []string, command ...string) *execution {
	t.Helper()
	e := &execution{t: t, done: make(chan struct{})}
	args := append([]string{"exec", "--session", "job", "--upstream", server.URL()}, flags...)
	e.cmd = exec.Command(harness.Build(t), append(append(args, "--"), command...)...)
	e.cmd.Stdout, e.cmd.Stderr = &e.output, &e.output
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(e.done)
		_ = e.cmd.Wait() // its news is in ProcessState
	}()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-e.done
	})
	return e
}

// ends waits for its end, with this exit status.
func (e *execution) ends(status int) {
	e.t.Helper()
	select {
	case <-e.done:
	case <-time.After(patience):
		e.t.Fatal("exec does not end")
	}
	if got := e.cmd.ProcessState.ExitCode(); got != status {
		e.t.Fatalf("exit status %d, want %d:\n%s", got, status, e.output.String())
	}
}

func (e *execution) signals(signal syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(signal); err != nil {
		e.t.Fatal(err)
	}
}

// appears waits until the command has made this file.
func appears(t *testing.T, path string) {
	t.Helper()
	harness.Eventually(t, 0, func() bool { _, err := os.Stat(path); return err == nil }, path+" is there")
}

func TestExecEndsAsItsCommandEnds(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	record := noneOf(t, server, "job")
	for _, end := range []struct {
		status  int
		command []string
	}{
		{0, []string{"true"}},
		{7, []string{"sh", "-c", "exit 7"}},
		{128 + 9, []string{"sh", "-c", "kill -9 $$"}},
		{127, []string{"no such command"}},
		{126, []string{"/etc/passwd"}},
	} {
		execute(t, server, nil, end.command...).ends(end.status)
		if record.holder() != "" {
			t.Errorf("%q: the session is still held", end.command)
		}
	}
	server.Stop()
	execute(t, server, nil, "true").ends(69)
}

func TestExecRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"exec", "true"},
		{"exec", "--session", "job"},
		{"exec", "--session", "job", "true"}, // no Redis
		{"exec", "--session", "fence-proxy:x", "--upstream", "redis://localhost", "true"},
		{"exec", "--session", "job", "--ttl", "1ms", "--upstream", "redis://localhost", "true"},
		{"exec", "--session", "job", "--wait", "-1s", "--upstream", "redis://localhost", "true"},
	} {
		if code, output := harness.RunProxy(t, args...); code != 2 {
			t.Errorf("%q: exit code %d:\n%s", args, code, output)
		}
	}
}

// Of commands that run for one session, one runs at a time; and what FENCE.ACQUIRE takes is the same session.
func TestExecRunsOneCommandAtATime(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside") // mkdir fails for who is not alone
	var all []*execution
	for range 4 {
		all = append(all, execute(t, server, []string{"--wait", "1m"}, "sh", "-c", "mkdir "+inside+" && sleep 0.1 && rmdir "+inside))
	}
	for _, e := range all {
		e.ends(0)
	}
	client, _ := connect(t, "client", proxy.Addr)
	grant := client.acquires("job")
	execute(t, server, []string{"--wait", "0s"}, "true").ends(75)
	client.does(int64(1), "FENCE.RELEASE", "job", grant)
	execute(t, server, []string{"--wait", "0s"}, "true").ends(0)
}

func TestExecGivesItsCommandAGrantToWriteUnder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	file := filepath.Join(t.TempDir(), "grant")
	e := execute(t, server, nil, "sh", "-c", "echo $FENCE_GRANT >"+file+".new; mv "+file+".new "+file+"; sleep 60 & wait")
	appears(t, file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	grant := strings.TrimSpace(string(text))
	client, _ := connect(t, "client", proxy.Addr)
	client.does("OK", "FENCE.DO", grant, "SET", "job", "1")
	e.signals(syscall.SIGTERM) // is passed on
	e.ends(128 + int(syscall.SIGTERM))
	client.fails("FENCED", "FENCE.DO", grant, "SET", "job", "2")
}

func TestExecRenewsItsHold(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	record := noneOf(t, server, "job")
	events := record.events()
	file := filepath.Join(t.TempDir(), "go")
	e := execute(t, server, []string{"--ttl", "300ms"}, "sh", "-c", "until test -e "+file+"; do sleep 0.05; done")
	for renewals := 0; renewals < 6; {
		switch event := nextEvent(t, events); event {
		case "expire":
			renewals++
		case "del", "expired":
			if renewals > 0 {
				t.Fatalf("the hold is gone: %s", event)
			}
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.ends(0)
	record.becomesFree()
}

// ending is a command that says when it runs and when it is told to end, and then goes on or ends; at the latest when
// the test is over.
func ending(dir, then string) []string {
	return []string{"sh", "-c", "trap 'touch " + dir + "/told; " + then + "' TERM; touch " + dir + "/runs; while test -d " + dir + "; do sleep 0.05; done"}
}

func TestExecEndsItsCommandWhenTheHoldIsLost(t *testing.T) {
	t.Parallel()
	for _, loss := range []struct {
		name string
		lose func(*execution, *record)
	}{
		{"since its record is gone", func(_ *execution, r *record) { r.loses(r.token) }},
		{"while it was frozen", func(e *execution, r *record) {
			e.signals(syscall.SIGSTOP)
			r.becomesFree() // its lease has ended
			proxy := harness.StartProxy(r.t, harness.ProxyOptions{Upstream: "redis://" + r.redis.Options().Addr, ConfigYAML: "rules: []\n"})
			successor, _ := connect(r.t, "its successor", proxy.Addr)
			successor.acquires("job", "TTL", "1h")
			e.signals(syscall.SIGCONT)
		}},
	} {
		for _, end := range []struct {
			name, then, grace string
			status            int
		}{
			{"and it obeys", "exit 0", "1h", 75},
			{"and it fails", "exit 3", "1h", 3},
			{"and it does not obey", "", "200ms", 128 + int(syscall.SIGKILL)},
		} {
			t.Run(loss.name+" "+end.name, func(t *testing.T) {
				server := harness.StartRedis(t)
				dir := t.TempDir()
				e := execute(t, server, []string{"--ttl", "300ms", "--grace", end.grace}, ending(dir, end.then)...)
				appears(t, filepath.Join(dir, "runs"))
				loss.lose(e, noneOf(t, server, "job"))
				if end.then != "" { // else it may be killed before it has noted that it was told
					appears(t, filepath.Join(dir, "told"))
				}
				e.ends(end.status)
			})
		}
	}
}

// A fence-proxy exec that is killed renews nothing, so its command is told to end.
func TestTheCommandOfAKilledExecIsToldToEnd(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	dir := t.TempDir()
	e := execute(t, server, []string{"--ttl", "1h", "--session", "ctx:killed"}, ending(dir, "exit 0")...)
	appears(t, filepath.Join(dir, "runs"))
	e.signals(syscall.SIGKILL)
	appears(t, filepath.Join(dir, "told"))
}

// A signal that comes while the session is waited for ends the waiting, and nothing is left in line.
func TestASignalEndsTheWaitingOfExec(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	client, _ := connect(t, "client", proxy.Addr)
	client.acquires("job", "TTL", "1h")
	e := execute(t, server, []string{"--wait", "1h"}, "true")
	record := noneOf(t, server, "job")
	record.hasWaiters(1)
	e.signals(syscall.SIGINT)
	e.ends(128 + int(syscall.SIGINT))
	record.hasWaiters(0)
}

// Under a rule, it is the session of the rule.
func TestExecHoldsTheSessionOfARule(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 0s")})
	file := filepath.Join(t.TempDir(), "runs")
	e := execute(t, server, []string{"--config", proxy.Config, "--session", "ctx:s"}, "sh", "-c", "touch "+file+"; sleep 60")
	appears(t, file)
	client, _ := connect(t, "client", proxy.Addr)
	client.fails("LOCKED", "GET", "ctx:s")
	client.fails("LOCKED", "SET", "ctx:s", "v")
	e.signals(syscall.SIGTERM)
	e.ends(128 + int(syscall.SIGTERM))
	client.does("OK", "SET", "ctx:s", "v")
}
