//go:build integration

package provider_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

const consulTTL = 2 * time.Second

func TestConsulKeepsThePromises(t *testing.T) {
	c := newConsulBench(t)
	locktest.Run(t, locktest.Harness{
		Open:    c.open,
		Servers: c,
		End:     c.end,
		Lease:   consulTTL,
		Gone:    2*consulTTL + time.Second,
	})
}

// consulBench is a server and a look into it.
type consulBench struct {
	server *harness.Consul
	client *api.Client
}

func newConsulBench(tb testing.TB, settings ...string) *consulBench {
	tb.Helper()
	server := harness.StartConsul(tb, settings...)
	client, err := api.NewClient(&api.Config{
		Address: server.Addr, Token: harness.ConsulToken, Transport: &http.Transport{DisableKeepAlives: true},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return &consulBench{server: server, client: client}
}

func (c *consulBench) Stop()   { c.server.Kill() }
func (c *consulBench) Pause()  { c.server.Pause() }
func (c *consulBench) Resume() { c.server.Resume() }
func (c *consulBench) Start() {
	if !c.server.Leads() {
		c.server.Kill()
		c.server.Start()
	}
}

func (c *consulBench) open(tb testing.TB) locktest.Proxy {
	tb.Helper()
	network := harness.StartNetwork(tb, []string{c.server.Addr})
	return locktest.Proxy{Locker: openConsul(tb, network.Addrs()[0]), Network: network}
}

// openConsul opens a Locker that the caller closes. The edits change its settings.
func openConsul(tb testing.TB, addr string, edits ...func(*provider.ConsulSettings)) provider.Locker {
	tb.Helper()
	settings, ok := provider.Consul.Settings().(*provider.ConsulSettings)
	if !ok {
		tb.Fatal("consul has other settings")
	}
	settings.Address, settings.SessionTTL = "http://"+addr, consulTTL
	for _, edit := range edits {
		edit(settings)
	}
	return openKind(tb, provider.Consul, settings)
}

// key is a session's, nil if it is not there.
func (c *consulBench) key(tb testing.TB, session string) *api.KVPair {
	tb.Helper()
	pair, _, err := c.client.KV().Get("fence-proxy/"+provider.PlainName(session), nil)
	if err != nil {
		tb.Fatalf("read the key of %.40q: %v", session, err)
	}
	return pair
}

func (c *consulBench) end(tb testing.TB, session string) {
	tb.Helper()
	pair := c.key(tb, session)
	if pair == nil || pair.Session == "" {
		tb.Fatalf("nobody holds %.40q", session)
	}
	if _, err := c.client.KV().Delete(pair.Key, nil); err != nil {
		tb.Fatalf("delete %s: %v", pair.Key, err)
	}
}
