package harness_test

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestRedisComesBackEmptyAfterAKill(t *testing.T) {
	server := harness.StartRedis(t)
	conn := harness.Dial(t, server.Addr)
	conn.Do("SET", "k", "v")
	pid := server.Pid()
	server.Kill()
	conn.ExpectClosed()
	server.RestartEmpty()
	if server.Pid() == pid {
		t.Error("the same process is back")
	}
	if n, err := server.Client().DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("DBSIZE is %d (%v), want 0", n, err)
	}
}

func TestRestartKeepsWhatIsPersisted(t *testing.T) {
	server := harness.StartRedis(t, harness.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	conn := harness.Dial(t, server.Addr)
	conn.Do("SET", "k", "v")
	server.Stop()
	conn.ExpectClosed()
	server.Restart()
	if got := harness.Dial(t, server.Addr).Do("GET", "k"); string(got) != "$1\r\nv\r\n" {
		t.Errorf("after Restart: %q", got)
	}
	server.RestartEmpty()
	if got := harness.Dial(t, server.Addr).Do("GET", "k"); string(got) != "$-1\r\n" {
		t.Errorf("after RestartEmpty: %q", got)
	}
}

func TestPausedRedisIsSilentUntilItResumes(t *testing.T) {
	server := harness.StartRedis(t)
	conn := harness.Dial(t, server.Addr)
	server.Pause()
	conn.Send("PING\r\n")
	conn.ExpectSilence(50 * time.Millisecond)
	server.Resume()
	if got := conn.ReadReply(); string(got) != "+PONG\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestRedisListensOnAUnixSocketAndAsksForAPassword(t *testing.T) {
	server := harness.StartRedis(t, harness.WithSocket(), harness.WithPassword("secret"))
	conn := harness.Dial(t, server.Socket)
	if _, err := harness.Decode(conn.Do("PING")); err != nil {
		t.Fatal(err)
	}
	if got := conn.Do("AUTH", "secret"); string(got) != "+OK\r\n" {
		t.Errorf("AUTH: %q", got)
	}
	if err := server.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("the client has no password: %v", err)
	}
}

func TestCommandCountsLeaveTheHarnessOut(t *testing.T) {
	server := harness.StartRedis(t)
	conn := harness.Dial(t, server.Addr)
	for round := range int64(3) {
		if n := server.CommandCount(t.Context()); n != 4*round {
			t.Errorf("%d commands before round %d, want %d", n, round, 4*round)
		}
		conn.Do("MULTI")
		conn.Do("INCR", "n")
		conn.Do("CLIENT", "GETNAME")
		conn.Do("EXEC")
	}
	calls := server.CommandCalls(t.Context())
	for _, name := range []string{"multi", "incr", "client|getname", "exec"} {
		if calls[name] != 3 {
			t.Errorf("%d calls of %s, want 3", calls[name], name)
		}
	}
	if len(calls) != 4 {
		t.Errorf("other calls: %v", calls)
	}
	server.RestartEmpty()
	if n := server.CommandCount(t.Context()); n != 0 {
		t.Errorf("%d commands after a restart", n)
	}
}
