package embedded

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *redis.Client {
	t.Helper()
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestKeysExpireInRealTime(t *testing.T) {
	c := start(t)
	c.Set(t.Context(), "short", "v", 200*time.Millisecond)
	c.Set(t.Context(), "long", "v", time.Hour)
	c.Set(t.Context(), "forever", "v", 0)
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := c.Get(t.Context(), "short").Err()
		if errors.Is(err, redis.Nil) {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the key does not expire: %v", err)
		}
	}
	if n := c.Exists(t.Context(), "long", "forever").Val(); n != 2 {
		t.Errorf("%d of two other keys are there", n)
	}
	if left := c.PTTL(t.Context(), "long").Val(); left <= 0 || left >= time.Hour {
		t.Errorf("an hour is now %v", left)
	}
}

func TestCommandDocsAreEmpty(t *testing.T) {
	c := start(t)
	for _, args := range [][]any{{"COMMAND", "DOCS"}, {"command", "docs"}, {"Command", "Docs", "get", "set"}} {
		docs, err := c.Do(t.Context(), args...).Slice()
		if err != nil || len(docs) != 0 {
			t.Errorf("%v: %v, %v", args, docs, err)
		}
	}
	if table, err := c.Do(t.Context(), "COMMAND").Slice(); err != nil || len(table) < 100 {
		t.Errorf("COMMAND lists %d commands, %v", len(table), err)
	}
}

func TestStoresAreApart(t *testing.T) {
	one, other := start(t), start(t)
	one.Set(t.Context(), "k", "v", 0)
	if err := other.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("another store has it: %v", err)
	}
}

func TestACloseStopsTheStore(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	s.Close()
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("it still answers")
	}
}
