//go:build integration

package provider_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

const zookeeperTimeout = 2 * time.Second

func TestZooKeeperKeepsThePromises(t *testing.T) {
	z := newZooKeeperBench(t, harness.StartZooKeeperEnsemble(t, 3, "znode.container.checkIntervalMs=100"))
	locktest.Run(t, locktest.Harness{
		Open:    z.open,
		Servers: z.servers,
		End:     z.end,
		Waiting: z.waiting,
		KillOne: func(testing.TB) { z.servers.Leader().Kill() },
		Lease:   zookeeperTimeout,
		Gone:    2*zookeeperTimeout + time.Second, // a leader begins all sessions anew
	})
}

// zookeeperBench is an ensemble and a look into it.
type zookeeperBench struct {
	servers  harness.ZooKeeperEnsemble
	operator *zk.Conn
}

func newZooKeeperBench(tb testing.TB, servers harness.ZooKeeperEnsemble) *zookeeperBench {
	tb.Helper()
	return &zookeeperBench{servers: servers, operator: connectZooKeeper(tb, servers.Addrs())}
}

func (z *zookeeperBench) open(tb testing.TB) locktest.Proxy {
	tb.Helper()
	network := harness.StartNetwork(tb, z.servers.Addrs())
	return locktest.Proxy{Locker: openZooKeeper(tb, network.Addrs()...), Network: network}
}

// openZooKeeper opens a Locker that the caller closes.
func openZooKeeper(tb testing.TB, servers ...string) provider.Locker {
	tb.Helper()
	settings := zookeeperSettings(tb)
	settings.Servers, settings.SessionTimeout = servers, zookeeperTimeout
	return openKind(tb, provider.ZooKeeper, settings)
}

func zookeeperSettings(tb testing.TB) *provider.ZooKeeperSettings {
	tb.Helper()
	settings, ok := provider.ZooKeeper.Settings().(*provider.ZooKeeperSettings)
	if !ok {
		tb.Fatal("zookeeper has other settings")
	}
	return settings
}

// line are the nodes of a session, in their order.
func (z *zookeeperBench) line(tb testing.TB, session string) (nodes []string) {
	tb.Helper()
	dir := "/fence-proxy/" + provider.PlainName(session)
	if _, err := z.operator.Sync(dir); err != nil {
		tb.Fatalf("sync %s: %v", dir, err)
	}
	children, _, err := z.operator.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		tb.Fatalf("list %s: %v", dir, err)
	}
	slices.SortFunc(children, func(a, b string) int { return strings.Compare(sequence(a), sequence(b)) })
	for _, child := range children {
		nodes = append(nodes, dir+"/"+child)
	}
	return nodes
}

// sequence is what the servers have put behind a node's name.
func sequence(node string) string {
	_, number, _ := strings.Cut(node, "-")
	return number
}

func (z *zookeeperBench) waiting(tb testing.TB, session string) int {
	tb.Helper()
	return max(0, len(z.line(tb, session))-1)
}

func (z *zookeeperBench) end(tb testing.TB, session string) {
	tb.Helper()
	nodes := z.line(tb, session)
	if len(nodes) == 0 {
		tb.Fatalf("nobody holds %.40q", session)
	}
	if err := z.operator.Delete(nodes[0], -1); err != nil && !errors.Is(err, zk.ErrNoNode) { // its session may be over already
		tb.Fatalf("delete %s: %v", nodes[0], err)
	}
}

// connectZooKeeper is a client of the test's own.
func connectZooKeeper(tb testing.TB, servers []string) *zk.Conn {
	tb.Helper()
	client, events, err := zk.Connect(servers, time.Minute, zk.WithLogInfo(false))
	if err != nil {
		tb.Fatalf("connect to %v: %v", servers, err)
	}
	tb.Cleanup(func() {
		client.Close()
		for range events { // closed when the client's goroutines have ended
		}
	})
	return client
}

// openKind opens a Locker that the caller closes.
func openKind(tb testing.TB, kind provider.Kind, settings provider.Settings) provider.Locker {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	locker, err := kind.Open(settings, provider.Environment{Proxy: "proxy-of-a-test", Log: log})
	if err != nil {
		tb.Fatalf("open %s: %v", kind.Name, err)
	}
	return locker
}
