//go:build integration

package provider_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// Who waits for others may try again later, whom nobody answers is told so: a deadline is the error of the first only.
func TestADeadlineMeansThatOthersHadTheSession(t *testing.T) {
	t.Parallel()
	c, z := newConsulBench(t), harness.StartZooKeeper(t)
	for name, open := range map[string]func(addr string) provider.Locker{
		"zookeeper": func(addr string) provider.Locker { return openZooKeeper(t, addr) },
		"consul":    func(addr string) provider.Locker { return openConsul(t, addr) },
	} {
		t.Run(name, func(t *testing.T) {
			server := map[string]string{"zookeeper": z.Addr, "consul": c.server.Addr}[name]
			relay := harness.StartRelay(t, server)
			l, other := open(relay.Addr), open(server)
			never := open("127.0.0.1:1")
			t.Cleanup(func() { closeInTime(t, l); closeInTime(t, other); closeInTime(t, never) })
			takeTurn(t, l, "free").release()

			held := takeTurn(t, other, "s")
			harness.Eventually(t, 0, func() bool { // on a busy machine it may not have been asked in time
				return errors.Is(deadline(t, l, "s", 2*time.Second), context.DeadlineExceeded)
			}, "a deadline passes behind another")
			held.release()
			if err := deadline(t, never, "s", 300*time.Millisecond); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("where there is no server: %v", err)
			}
			relay.Blackhole(true)
			defer relay.Blackhole(false)
			if err := deadline(t, l, "free", 300*time.Millisecond); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("when nobody answers: %v", err)
			}
		})
	}
}

// deadline is the error of an Acquire whose time is up.
func deadline(t *testing.T, l provider.Locker, session string, after time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	return startTurn(ctx, l, session).fails(t)
}
