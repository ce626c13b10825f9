//go:build unix

package run

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/event/eventtest"
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

// runs runs a command while it holds a session, and returns what was told.
func runs(t *testing.T, store *tokenstore.Store, wait time.Duration, command ...string) (*eventtest.Recorder, error) {
	t.Helper()
	terms := *rule.ForUnguarded()
	terms.Lease, terms.Wait = 300*time.Millisecond, wait
	told := new(eventtest.Recorder)
	_, err := Run(t.Context(), Options{
		Store: store, Terms: &terms, Session: "job", Identity: tokenstore.Identity{Proxy: "here", Client: "exec"}, Command: command,
		Grace: time.Second, Signals: make(chan os.Signal), Log: slog.New(slog.DiscardHandler), Events: told,
	})
	told.Check(t, true)
	return told, err
}

func story(t *testing.T, told *eventtest.Recorder, want string) {
	t.Helper()
	if got := told.Story("exec"); got != want {
		t.Errorf("told:\n%s\nwant\n%s", got, want)
	}
}

func TestTheHoldOfACommandIsTold(t *testing.T) {
	told, err := runs(t, open(t), 0, "true")
	if err != nil {
		t.Fatal(err)
	}
	story(t, told, "grant, release released")
	if e := told.Of(event.Grant)[0]; !e.Apart || e.Grant == 0 || e.Session != "job" || e.Rule != rule.Unguarded {
		t.Errorf("%+v", e)
	}
}

func TestACommandThatDoesNotGetItsSessionIsToldAsRefused(t *testing.T) {
	store := open(t)
	claim := tokenstore.NewClaim("other", tokenstore.Identity{Client: "other"}, time.Minute, time.Hour)
	b, err := store.Begin(t.Context(), tokenstore.NewRecord(0, rule.Unguarded, "job"), claim, "", tokenstore.Basis{})
	if err != nil || !b.Granted {
		t.Fatal(b, err)
	}
	told, err := runs(t, store, 0, "true")
	var locked *lock.LockedError
	if !errors.As(err, &locked) {
		t.Fatal(err)
	}
	story(t, told, "refuse LOCKED held")
	if e := told.Of(event.Refuse)[0]; e.Other.Client != "other" || e.Other.Grant != b.Grant {
		t.Errorf("%+v", e)
	}
	told, _ = runs(t, store, 50*time.Millisecond, "true")
	story(t, told, "wait, quit timeout, refuse LOCKED timeout")
}

func TestAHoldThatACommandLosesIsTold(t *testing.T) {
	store := open(t)
	record := tokenstore.NewRecord(0, rule.Unguarded, "job")
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
	told, err := runs(t, store, 0, "sleep", "60")
	if broke := <-broken; broke != nil || !errors.Is(err, ErrLost) {
		t.Fatal(broke, err)
	}
	if n := len(told.Of(event.Break)); n != 1 || len(told.Of(event.Release)) != 0 {
		t.Errorf("told: %s", told.Story("exec"))
	}
	if e := told.Of(event.Break)[0]; e.Reason != "not_newest" || e.Grant == 0 || e.Newest <= e.Grant {
		t.Errorf("%+v", e)
	}
}
