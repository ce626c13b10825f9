package tokenstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The terms of the tests' claims.
const (
	lease = 30 * time.Second
	ttl   = time.Hour
)

// server is a store to test, a proxy's Store on it, and a client that looks at what is there.
type server struct {
	*testing.T
	addr  string
	store *tokenstore.Store
	redis *redis.Client
}

// each runs a test on every store.
func each(t *testing.T, test func(*server)) {
	t.Helper()
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) { test(open(t, start(t))) })
	}
}

func startEmbedded(t *testing.T) string {
	t.Helper()
	s, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Addr()
}

// open connects to a store.
func open(t *testing.T, addr string) *server {
	t.Helper()
	s := &server{T: t, addr: addr, redis: redis.NewClient(options(addr))}
	t.Cleanup(func() { _ = s.redis.Close() })
	s.store = s.another("redis")
	return s
}

func options(addr string) *redis.Options {
	return &redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1}
}

// another is another proxy's Store on the same store.
func (s *server) another(provider string) *tokenstore.Store {
	s.Helper()
	store, err := tokenstore.Open(s.Context(), options(s.addr), provider)
	if err != nil {
		s.Fatalf("open the store: %v", err)
	}
	s.Cleanup(store.Close)
	return store
}

func claim(owner string) *tokenstore.Claim {
	return tokenstore.NewClaim(owner, tokenstore.Identity{Proxy: "here", Client: owner + "'s address", Name: owner + "'s name"}, lease, ttl)
}

func record() *tokenstore.Record { return tokenstore.NewRecord(tokenstore.Area{}, "chat", "s1") }

// begin begins without waiting.
func (s *server) begin(c *tokenstore.Claim) tokenstore.Begin {
	s.Helper()
	return s.beginAs(c, "", 0)
}

func (s *server) beginAs(c *tokenstore.Claim, waiter string, expected uint64) tokenstore.Begin {
	s.Helper()
	b, err := s.store.Begin(s.Context(), record(), c, waiter, tokenstore.Basis{Grant: expected})
	if err != nil {
		s.Fatalf("begin for %s: %v", c.Owner, err)
	}
	return b
}

// grant begins and must be granted.
func (s *server) grant(c *tokenstore.Claim) uint64 {
	s.Helper()
	return s.granted(s.begin(c))
}

func (s *server) granted(b tokenstore.Begin) uint64 {
	s.Helper()
	if !b.Granted || b.Grant == 0 {
		s.Fatalf("not granted: %+v", b)
	}
	return b.Grant
}

func (s *server) release(c *tokenstore.Claim, grant uint64, revoke bool) {
	s.Helper()
	if err := s.store.Release(s.Context(), record(), c, grant, revoke); err != nil {
		s.Fatalf("release for %s: %v", c.Owner, err)
	}
}

// lapse ends the hold as the end of its lease does: its key is gone.
func (s *server) lapse() {
	s.Helper()
	if n := s.redis.Del(s.Context(), record().Keys()[1]).Val(); n != 1 {
		s.Fatal("there is no hold")
	}
}

// token is the token key as it is.
func (s *server) token() string {
	s.Helper()
	return s.value(record().Keys()[0])
}

// value is a key as it is, "" without one.
func (s *server) value(key string) string {
	s.Helper()
	v, err := s.redis.Get(s.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.Fatalf("GET %s: %v", key, err)
	}
	return v
}

// newest is the newest grant, by the token key.
func (s *server) newest() uint64 {
	s.Helper()
	grant, _, _ := strings.Cut(s.token(), " ")
	n, err := strconv.ParseUint(grant, 10, 64)
	if err != nil {
		s.Fatalf("the token key says %q", s.token())
	}
	return n
}

// heldBy fails the test unless an owner holds the session, or nobody ("").
func (s *server) heldBy(owner string) {
	s.Helper()
	part := strings.Split(s.value(record().Keys()[1]), "\n")
	if strings.HasPrefix(part[0], "unused ") { // says that a number is nobody's
		part[0] = ""
	}
	if part[0] != owner {
		s.Fatalf("the session is held by %q, want %q", part[0], owner)
	}
	if owner != "" && part[1] != strconv.FormatUint(s.newest(), 10) {
		s.Fatalf("%s's grant %s is not the newest, %d", owner, part[1], s.newest())
	}
}

// queued are the waiters in line.
func (s *server) queued() []string {
	s.Helper()
	entries, err := s.redis.ZRange(s.Context(), record().Keys()[2], 0, -1).Result()
	if err != nil {
		s.Fatal(err)
	}
	for i, entry := range entries {
		entries[i], _, _ = strings.Cut(entry, "\n")
	}
	return entries
}

// ear hears of hand-overs as one proxy.
type ear struct {
	*server
	ready chan struct{}
	wakes chan wake
}

type wake struct {
	waiter string
	grant  uint64
}

func (e *ear) Subscribed()                       { e.ready <- struct{}{} }
func (e *ear) Woken(waiter string, grant uint64) { e.wakes <- wake{waiter, grant} }

// listen is a proxy that listens until the test ends.
func (s *server) listen(proxy string) *ear {
	s.Helper()
	e := &ear{server: s, ready: make(chan struct{}, 100), wakes: make(chan wake, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.store.Listen(ctx, proxy, e)
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
	e.subscribed()
	return e
}

// patience is how long something may take that must happen.
const patience = 30 * time.Second

func (e *ear) subscribed() {
	e.Helper()
	select {
	case <-e.ready:
	case <-time.After(patience):
		e.Fatal("the subscription does not stand")
	}
}

// hears waits for a hand-over to a waiter and returns its grant.
func (e *ear) hears(waiter string) uint64 {
	e.Helper()
	select {
	case w := <-e.wakes:
		if w.waiter != waiter {
			e.Fatalf("%s was woken, want %s", w.waiter, waiter)
		}
		return w.grant
	case <-time.After(patience):
		e.Fatalf("%s was not woken", waiter)
	}
	return 0
}

// wire is a client's own connection to the store.
type wire struct {
	*server
	*harness.RawConn
}

func (s *server) wire() *wire {
	s.Helper()
	return &wire{s, harness.Dial(s, s.addr)}
}

// replies sends a block and returns its n replies.
func (w *wire) replies(block []byte, n int) [][]byte {
	w.Helper()
	w.RawConn.Send(string(block))
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = w.ReadReply()
	}
	return frames
}
