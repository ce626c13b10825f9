//go:build integration

package provider_test

import (
	"log/slog"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func TestEtcd(t *testing.T) {
	servers := harness.StartEtcd(t, 1)
	operator := etcdClient(t, servers.Addrs())
	const ttl = 3 * time.Second
	locktest.Run(t, locktest.Harness{
		Open: func(tb testing.TB) locktest.Proxy {
			tb.Helper()
			network := harness.StartNetwork(tb, servers.Addrs())
			return locktest.Proxy{Locker: openEtcd(tb, network.Addrs(), ttl), Network: network}
		},
		Servers: servers,
		End: func(tb testing.TB, session string) {
			tb.Helper()
			line := etcdLine(tb, operator, session)
			if len(line) == 0 {
				tb.Fatalf("nobody holds %.40q", session)
			}
			if _, err := operator.Delete(tb.Context(), line[0]); err != nil {
				tb.Fatal(err)
			}
		},
		Waiting: func(tb testing.TB, session string) int {
			tb.Helper()
			return max(0, len(etcdLine(tb, operator, session))-1)
		},
		Lease: ttl,
		Gone:  2*ttl + time.Second, // etcd may begin a lease anew when it starts
	})
}

// openEtcd opens a Locker.
func openEtcd(tb testing.TB, endpoints []string, ttl time.Duration) provider.Locker {
	tb.Helper()
	settings := provider.Etcd.Settings().(*provider.EtcdSettings)
	settings.Endpoints, settings.TTL, settings.RequestTimeout = endpoints, ttl, time.Second
	locker, err := provider.Etcd.Open(settings, provider.Environment{Proxy: tb.Name(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return locker
}

// etcdClient is a client of the test's own.
func etcdClient(tb testing.TB, endpoints []string) *clientv3.Client {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// etcdLine are the places of a session's line, the holder's first.
func etcdLine(tb testing.TB, client *clientv3.Client, session string) []string {
	tb.Helper()
	reply, err := client.Get(tb.Context(), provider.EtcdLine("fence-proxy/", session), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		tb.Fatal(err)
	}
	var line []string
	for _, place := range reply.Kvs {
		line = append(line, string(place.Key))
	}
	return line
}
