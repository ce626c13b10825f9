//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A client's own connection to Redis is made when it is first needed. If that fails, the command is
// answered once, or the answers to all that follow would be off by one.
func TestACommandThatFindsNoRedisIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	server.Stop()
	client.fails("FENCEDOWN", "GET", "ctx:s")
	client.fails("FENCEDOWN", "SET", "ctx:s", "v")
	server.Restart()
	client.does(nil, "GET", "ctx:s")
	client.does("OK", "SET", "ctx:s", "v")
	client.does("PONG", "PING")
}

// WAIT is about the writes of its own connection, and theirs may have gone over a shared one. What
// the proxy does about it must not show. Case 55.
func TestWaitIsAnsweredAsByRedis(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	crowd(t, proxy, 8)
	direct, client := harness.Dial(t, server.Addr), harness.Dial(t, proxy.Addr)
	for _, command := range [][]string{
		{"SET", "k", "v"},
		{"WAIT", "0", "0"},
		{"PING"},
		{"MULTI"},
		{"SET", "k", "w"},
		{"WAIT", "0", "0"},
		{"EXEC"},
		{"PING"},
	} {
		want, got := string(direct.Do(command...)), string(client.Do(command...))
		if got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// Redis 7.2 and later do not wait for what another connection has written.
func TestWaitCountsReplicasThatHaveTheClientsWrites(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithArgs("--repl-diskless-sync-delay", "0"))
	replica := replicate(t, server, 0)
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "bound", "on", ">secret", "resetkeys", "~k*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	for _, login := range [][]string{nil, {"AUTH", "bound", "secret"}} { // the proxy's user, and one who may not write what is the fence's
		crowd := crowd(t, proxy, 10)
		for _, client := range crowd {
			if login != nil {
				client.does("OK", login...)
			}
			client.does("OK", "SET", "k", "v") // by now they share
		}
		client := crowd[0]
		replica.Pause()
		client.does("OK", "SET", "k", "w")
		client.does(int64(0), "WAIT", "1", "100")
		replica.Resume()
		client.does("OK", "SET", "k", "x")
		client.does(int64(1), "WAIT", "1", "0")
	}
}

func TestWaitCountsReplicasOfTheNodeThatWasWrittenTo(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, 3, 1)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: c.URL(), ConfigYAML: "rules: []\n"})
	crowd := crowd(t, proxy, 10)
	for _, client := range crowd {
		client.does("OK", "SET", "k", "v") // by now they share
	}
	for _, slot := range []int{100, 5561, 11022} {
		key, replica := c.Key(slot, "k"), c.Replicas(c.Owner(slot))[0]
		for _, client := range crowd[:3] {
			replica.Pause()
			client.does("OK", "SET", key, "w")
			client.does(int64(0), "WAIT", "1", "50")
			replica.Resume()
			client.does("OK", "SET", key, "x")
			client.does(int64(1), "WAIT", "1", "0")
		}
	}
}

// A Redis that does not answer must not keep the proxy from ending.
func TestSigtermEndsAProxyWhoseRedisIsFrozen(t *testing.T) {
	t.Parallel()
	for name, clients := range map[string]int{"with connections of their own": 2, "that share connections": 12} {
		t.Run("clients "+name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
			waiting := crowd(t, proxy, clients)
			for _, client := range waiting {
				client.does(nil, "GET", "k")
			}
			server.Pause()
			for _, client := range waiting {
				client.sends("GET", "k")
			}
			proxy.Terminate()
			if code := proxy.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			server.Resume()
		})
	}
}
