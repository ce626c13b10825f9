//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A client library that connects again by itself would send the write of its stale read over the
// new connection, where it looks like a blind one. So the old one stays, to say that it is stale.
func TestAClientHearsThatItsUpstreamBrokeBeforeItConnectsAgain(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	direct := server.Client()
	stale, staleConn := connect(t, "stale", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)

	stale.does("OK", "CLIENT", "SETNAME", "stale")
	stale.does(nil, "GET", "ctx:s")
	kill(t, direct, "stale")
	other.does(nil, "GET", "ctx:s") // waits until the stale one's hold is over
	other.does("OK", "SET", "ctx:s", "theirs")

	message := stale.fails("FENCED", "SET", "ctx:s", "mine")
	if !strings.Contains(message, "the connection to the upstream Redis broke") {
		t.Errorf("the refusal doesn't say why: %s", message)
	}
	staleConn.ExpectClosed()
	wantValue(t, server, "ctx:s", "theirs")
}

func TestAClientThatWaitsOrListensIsClosedWithItsUpstream(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	for name, commands := range map[string][][]string{
		"that waits for a reply":    {{"GET", "ctx:s"}},
		"that quits":                {{"GET", "ctx:s"}},
		"that is told of what ends": {{"CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "free:"}, {"GET", "ctx:s"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, conn := connect(t, "client", proxy.Addr)
			if name == "that is told of what ends" {
				conn.Do("HELLO", "3")
			}
			client.does("OK", "CLIENT", "SETNAME", "lonely")
			for _, command := range commands {
				conn.Do(command...)
			}
			switch name {
			case "that waits for a reply":
				client.sends("BLPOP", "free", "0")
				harness.Eventually(t, 0, func() bool { return blocked(t, server) }, "BLPOP blocks")
				kill(t, server.Client(), "lonely")
			case "that quits":
				client.does("OK", "QUIT") // Redis ends the upstream connection by itself
			default:
				kill(t, server.Client(), "lonely")
			}
			conn.ExpectClosed()
		})
	}
}

// kill breaks the upstream connection of the client with this name.
func kill(t *testing.T, direct *redis.Client, name string) {
	t.Helper()
	clients, err := direct.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for client := range strings.Lines(clients) {
		if strings.Contains(client, " name="+name+" ") {
			id := strings.TrimPrefix(strings.Fields(client)[0], "id=")
			if err := direct.Do(t.Context(), "CLIENT", "KILL", "ID", id).Err(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no client %s is connected:\n%s", name, clients)
}
