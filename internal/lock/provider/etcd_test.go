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

const etcdTTL = 3 * time.Second

func TestEtcdKeepsThePromises(t *testing.T) {
	e := newEtcdBench(t, 3)
	h := e.harness()
	h.KillOne = func(tb testing.TB) {
		tb.Helper()
		e.servers.Leader().Kill()
	}
	locktest.Run(t, h)
}

// etcdBench is a cluster and a look into it.
type etcdBench struct {
	servers  *harness.Etcd
	operator *clientv3.Client
}

func newEtcdBench(t *testing.T, members int) *etcdBench {
	t.Helper()
	servers := harness.StartEtcd(t, members)
	return &etcdBench{servers: servers, operator: etcdClient(t, servers.Addrs())}
}

func (e *etcdBench) harness() locktest.Harness {
	return locktest.Harness{
		Open:    e.open,
		Servers: e.servers,
		End:     e.end,
		Waiting: e.waiting,
		Lease:   etcdTTL,
		Gone:    2*etcdTTL + time.Second, // a leader begins all leases anew
	}
}

func (e *etcdBench) open(tb testing.TB) locktest.Proxy {
	tb.Helper()
	network := harness.StartNetwork(tb, e.servers.Addrs())
	return locktest.Proxy{Locker: openEtcd(tb, network.Addrs()), Network: network}
}

func (e *etcdBench) end(tb testing.TB, session string) {
	tb.Helper()
	line := etcdLine(tb, e.operator, session)
	if len(line) == 0 {
		tb.Fatalf("nobody holds %.40q", session)
	}
	if _, err := e.operator.Delete(tb.Context(), line[0]); err != nil {
		tb.Fatal(err)
	}
}

func (e *etcdBench) waiting(tb testing.TB, session string) int {
	tb.Helper()
	return max(0, len(etcdLine(tb, e.operator, session))-1)
}

// openEtcd opens a Locker that the caller closes. The edits change its settings.
func openEtcd(tb testing.TB, endpoints []string, edits ...func(*provider.EtcdSettings)) provider.Locker {
	tb.Helper()
	settings, ok := provider.Etcd.Settings().(*provider.EtcdSettings)
	if !ok {
		tb.Fatal("etcd has other settings")
	}
	settings.Endpoints, settings.TTL, settings.RequestTimeout = endpoints, etcdTTL, time.Second
	for _, edit := range edits {
		edit(settings)
	}
	log := slog.New(slog.NewTextHandler(tb.Output(), nil))
	locker, err := provider.Etcd.Open(settings, provider.Environment{Proxy: "proxy-of-a-test", Log: log})
	if err != nil {
		tb.Fatalf("open etcd: %v", err)
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
