//go:build unix

package run

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *tokenstore.Store {
	t.Helper()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	store, err := tokenstore.Open(t.Context(), &redis.Options{Network: "tcp", Addr: server.Addr(), Protocol: 2, MaxRetries: -1}, "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// runs runs a command while it holds a session.
func runs(t *testing.T, store *tokenstore.Store, command ...string) error {
	t.Helper()
	terms := *rule.ForUnguarded()
	terms.Lease, terms.Wait = 300*time.Millisecond, 0
	_, err := Run(t.Context(), Options{
		Store: store, Terms: &terms, Session: "job", Identity: tokenstore.Identity{Proxy: "here", Client: "exec"}, Command: command,
		Grace: time.Second, Signals: make(chan os.Signal), Log: slog.New(slog.DiscardHandler),
	})
	return err
}

func TestACommandThatDoesNotGetItsSessionIsNotRun(t *testing.T) {
	store := open(t)
	claim := tokenstore.NewClaim("other", tokenstore.Identity{Client: "other"}, time.Minute, time.Hour)
	b, err := store.Begin(t.Context(), tokenstore.NewRecord(tokenstore.Area{}, rule.Unguarded, "job"), claim, "", tokenstore.Basis{})
	if err != nil || !b.Granted {
		t.Fatal(b, err)
	}
	file := filepath.Join(t.TempDir(), "ran")
	err = runs(t, store, "touch", file)
	var locked *lock.LockedError
	if !errors.As(err, &locked) || locked.Holder.Client != "other" || locked.Holder.Grant != b.Grant {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it ran: %v", err)
	}
}

func TestACommandEndsWithItsHold(t *testing.T) {
	store := open(t)
	record := tokenstore.NewRecord(tokenstore.Area{}, rule.Unguarded, "job")
	claim := tokenstore.NewClaim("operator", tokenstore.Identity{Client: "operator"}, time.Minute, time.Hour)
	broken := make(chan error, 1)
	go func() {
		for {
			_, held, err := store.Break(t.Context(), record, claim)
			if held || err != nil {
				broken <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err := runs(t, store, "sleep", "60")
	if broke := <-broken; broke != nil || !errors.Is(err, ErrLost) {
		t.Fatal(broke, err)
	}
}
