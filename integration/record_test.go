//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// guarding is a configuration with one rule, named ctx, that guards "ctx:"; the options are lines of the
// rule.
func guarding(options ...string) string {
	lines := append([]string{"rules:\n  - name: ctx", `prefix: "ctx:"`}, options...)
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "mode:") }) {
		lines = append(lines, "mode: lock")
	}
	if !slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "owner:") }) {
		lines = append(lines, "owner: connection") // each connection of a test is an agent of its own
	}
	return strings.Join(lines, "\n    ") + "\n"
}

// record is the fence record of a session, seen straight at Redis.
type record struct {
	t     *testing.T
	redis *redis.Client

	token, hold, queue string // its keys
}

// recordOf returns the record of a key that guarding's rule guards.
func recordOf(t *testing.T, server *harness.Redis, key string) *record {
	t.Helper()
	base := "fence-proxy:{ctx:" + key + "}:"
	return &record{t: t, redis: server.Client(), token: base + "t", hold: base + "h", queue: base + "q"}
}

// grant is the newest grant issued, or 0 without a record.
func (r *record) grant() uint64 {
	r.t.Helper()
	first, _, _ := strings.Cut(r.get(r.token), " ")
	if first == "" {
		return 0
	}
	grant, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		r.t.Fatalf("the record's grant: %v", err)
	}
	return grant
}

// holder is the owner of the hold, or "" when nobody holds the session.
func (r *record) holder() string {
	r.t.Helper()
	owner, _, _ := strings.Cut(r.get(r.hold), "\n")
	return owner
}

func (r *record) get(key string) string {
	r.t.Helper()
	value, err := r.redis.Get(r.t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.t.Fatalf("look at the record: %v", err)
	}
	return value
}

// loses deletes keys of the record behind the proxies' backs.
func (r *record) loses(keys ...string) {
	r.t.Helper()
	if err := r.redis.Del(r.t.Context(), keys...).Err(); err != nil {
		r.t.Fatalf("delete from the record: %v", err)
	}
}

// becomesFree waits until nobody holds the session.
func (r *record) becomesFree() {
	r.t.Helper()
	harness.Eventually(r.t, 0, func() bool { return r.holder() == "" }, "the session is free")
}

// hasWaiters waits until so many stand in line.
func (r *record) hasWaiters(n int64) {
	r.t.Helper()
	harness.Eventually(r.t, 0, func() bool { return r.redis.ZCard(r.t.Context(), r.queue).Val() == n },
		fmt.Sprintf("%d in line", n))
}

// events returns what happens to the hold from now on, in order: "set" when it is taken, "expire" when its
// lease is renewed, "del" when it is released, "expired" when its lease has ended.
func (r *record) events() <-chan *redis.Message {
	r.t.Helper()
	ctx := r.t.Context()
	if err := r.redis.ConfigSet(ctx, "notify-keyspace-events", "KA").Err(); err != nil {
		r.t.Fatalf("ask for events: %v", err)
	}
	events := r.redis.Subscribe(ctx, "__keyspace@0__:"+r.hold)
	r.t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(ctx); err != nil {
		r.t.Fatalf("ask for events: %v", err)
	}
	return events.Channel()
}

// nextEvent takes one from events; there has to be one.
func nextEvent(t *testing.T, events <-chan *redis.Message) string {
	t.Helper()
	select {
	case event := <-events:
		return event.Payload
	case <-time.After(patience):
		t.Fatal("nothing happens to the hold any more")
		return ""
	}
}

// wantValue fails the test unless the key has this value, straight at Redis; "" stands for none.
func wantValue(t *testing.T, server *harness.Redis, key, want string) {
	t.Helper()
	got, err := server.Client().Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("the value is %q, want %q", got, want)
	}
}
