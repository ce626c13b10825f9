package lock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// countingStore is a store that counts how often a grant was released.
type countingStore struct {
	*tokenstore.Store
	releases atomic.Int64
}

func (s *countingStore) ReleaseGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (tokenstore.Holder, bool, error) {
	s.releases.Add(1)
	return s.Store.ReleaseGrant(ctx, r, c, grant)
}

// A session may have been held many times within a lease. One look at it tells which of the holds stands again.
func TestAHomeHoldThatStandsAgainIsGivenBackWithoutTryingAll(t *testing.T) {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	store, err := tokenstore.Open(t.Context(), &redis.Options{Addr: server.Addr(), Protocol: 2}, tokenstore.Own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	counting := &countingStore{Store: store}
	home := NewHome("home", counting, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = home.Close(context.Background()) })
	acquire := func(session string) provider.Hold {
		t.Helper()
		h, err := home.Acquire(t.Context(), provider.Request{Session: "0:chat:" + session, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	client := store.Client(0)
	const turns = 100
	var keys, values []string
	for i := range turns {
		h := acquire("s")
		if i == turns-2 { // this is where the replica is
			keys = HomeRecord("0:chat:s").Keys()[:2]
			for _, key := range keys {
				values = append(values, client.Get(t.Context(), key).Val())
			}
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	kept := acquire("kept")
	for i, key := range keys {
		client.Set(t.Context(), key, values[i], time.Minute)
	}
	if !home.HolderOf("0:chat:s").Held() {
		t.Fatal("the hold does not stand again")
	}
	before := counting.releases.Load()
	home.moved()
	for deadline := time.Now().Add(30 * time.Second); home.HolderOf("0:chat:s").Held(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it stands still")
		}
	}
	if h := home.HolderOf("0:chat:kept"); h.Grant != kept.Grant() {
		t.Errorf("the one that was not given back is held as %+v", h)
	}
	home.m.Close(t.Context()) // all that was begun is over
	if n := counting.releases.Load() - before; n != 1 {
		t.Errorf("%d holds were given back, want one", n)
	}
}
