//go:build integration

package lock_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// homeLease is long beside what a node takes on a busy machine.
const homeLease = 5 * time.Second

func TestHomeKeepsThePromisesOfAProvider(t *testing.T) {
	server := harness.StartRedis(t, harness.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	client := server.Client()
	operator := openHome(t, server.Addr)
	locktest.Run(t, locktest.Harness{
		Open: func(tb testing.TB) locktest.Proxy {
			tb.Helper()
			network := harness.StartNetwork(tb, []string{server.Addr})
			return locktest.Proxy{Locker: openHome(tb, network.Addrs()[0]), Network: network}
		},
		Servers: restarting{server, new(bool)},
		End: func(tb testing.TB, session string) {
			tb.Helper()
			if _, broken, err := operator.Break(context.Background(), session); err != nil || !broken {
				tb.Fatal(broken, err)
			}
		},
		Waiting: func(_ testing.TB, session string) int {
			return int(client.ZCard(context.Background(), lock.HomeRecord(session).Keys()[2]).Val())
		},
		Lease: homeLease, Gone: homeLease, OwnLeases: true, GoesAbove: true, NotLater: true,
	})
}

func openHome(tb testing.TB, addr string) closing {
	tb.Helper()
	store, err := tokenstore.Open(context.Background(), &redis.Options{
		Addr: addr, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true,
	}, tokenstore.Own)
	if err != nil {
		tb.Fatal(err)
	}
	home := closing{lock.NewHome(strings.ToLower(rand.Text()), store, slog.New(slog.NewTextHandler(tb.Output(), nil))), store}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = home.Close(ctx)
	})
	return home
}

// closing closes the store behind its Locker.
type closing struct {
	*lock.Home
	store *tokenstore.Store
}

func (c closing) Close(ctx context.Context) error {
	defer c.store.Close()
	return c.Home.Close(ctx)
}

// restarting is a real server that keeps on its disk what it has acknowledged.
type restarting struct {
	*harness.Redis
	stopped *bool
}

func (r restarting) Stop() { r.Kill(); *r.stopped = true }

func (r restarting) Start() {
	if *r.stopped {
		r.Restart()
		*r.stopped = false
	}
}
