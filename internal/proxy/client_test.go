package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/event/eventtest"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/metrics"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// patience is how long something may take that must happen.
const patience = 30 * time.Second

// rules are the tests' own: sessions under "agent:", but not under "agent:free:", and under
// "shared:", where all clients are one owner.
func rules(t *testing.T) *rule.Set {
	t.Helper()
	return ruled(t,
		rule.Rule{Name: "chat", Prefix: "agent:", Session: "agent:<session>:*", Mode: rule.ModeLock, Wait: patience, Owner: rule.OwnerConnection},
		rule.Rule{Name: "free", Prefix: "agent:free:", Mode: rule.ModePass},
		rule.Rule{Name: "team", Prefix: "shared:", Mode: rule.ModeLock, Owner: rule.OwnerProxy})
}

// ruled is a set of rules, with the defaults of what they leave out.
func ruled(t *testing.T, rules ...rule.Rule) *rule.Set {
	t.Helper()
	var all []*rule.Rule
	for i := range rules {
		if rules[i].Owner == "" {
			rules[i].Owner = rule.OwnerConnection
		}
		compiled, err := rule.New(rules[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, compiled)
	}
	set, err := rule.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// offline is a server without an upstream, for what is decided without one.
func offline(t *testing.T) *Server {
	t.Helper()
	locks := lock.NewManager("here", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // there is no store to wait for
		locks.Close(ctx)
	})
	s := &Server{
		name: "here", rules: newRulebook(rules(t)), locks: locks, log: slog.New(slog.DiscardHandler),
		upstream: &upstream.Endpoint{Options: &redis.Options{}},
		owner:    locks.Owner(tokenstore.Identity{Proxy: "here"}),
		commands: commands{table: command.Builtin()}, metrics: metrics.None(),
		clients: map[*client]struct{}{},
	}
	s.limits.Store(&Limits{})
	return s
}

// connect makes a client of s, and returns it with the other end of its connection.
func connect(t *testing.T, s *Server, network string) (*client, net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	c := newClient(s, near)
	c.owner = s.locks.Owner(c.identity())
	c.waiter = s.locks.Waiter()
	t.Cleanup(c.waiter.Close)
	return c, far
}

// call is a command in words.
func call(words string) [][]byte {
	var args [][]byte
	for word := range strings.FieldsSeq(words) {
		args = append(args, []byte(word))
	}
	return args
}

// served is a server on the embedded store.
type served struct {
	*Server
	addr  string
	store string
	told  *eventtest.Recorder
}

func serve(t *testing.T) served {
	t.Helper()
	return serveBy(t, rules(t))
}

// serveBy is serve with rules of the test's own.
func serveBy(t *testing.T, rules *rule.Set) served {
	t.Helper()
	store, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	options := &redis.Options{Network: "tcp", Addr: store.Addr(), Protocol: 2, MaxRetries: -1}
	tokens, err := tokenstore.Open(t.Context(), options, "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	log := slog.New(slog.DiscardHandler)
	locks := lock.NewManager("here", tokens, log)
	told := new(eventtest.Recorder)
	locks.Observe(told)
	ctx, cancel := context.WithCancel(context.Background())
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		tokens.Listen(ctx, "here", locks)
	}()
	s, err := NewServer(t.Context(), Options{
		Name: "here", Rules: rules, Upstream: &upstream.Endpoint{Options: options, DialTimeout: patience},
		Store: tokens, Locks: locks, Metrics: metrics.None(), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		s.Shutdown(ctx)
		if err := <-ended; err != nil {
			t.Errorf("served until %v", err)
		}
		locks.Close(context.Background())
		told.Check(t, true)
		cancel()
		<-heard
	})
	return served{s, l.Addr().String(), store.Addr(), told}
}

// agent is a client of a served proxy.
type agent struct {
	*testing.T
	net.Conn
	in *bufio.Reader
	to served
}

func dial(t *testing.T, to served) *agent {
	t.Helper()
	nc, err := net.Dial("tcp", to.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return &agent{t, nc, bufio.NewReader(nc), to}
}

// lapse ends the hold on a session as the end of its lease does: its key is gone.
func (a *agent) lapse(rule, session string) {
	a.Helper()
	direct := redis.NewClient(&redis.Options{Addr: a.to.store})
	defer direct.Close()
	if n := direct.Del(a.Context(), tokenstore.NewRecord(tokenstore.Area{}, rule, session).Keys()[1]).Val(); n != 1 {
		a.Fatal("nobody holds the session")
	}
}

// sends sends commands in one piece.
func (a *agent) sends(commands ...string) {
	a.Helper()
	var block []byte
	for _, words := range commands {
		block = resp.AppendCommand(block, call(words)...)
	}
	if _, err := a.Write(block); err != nil {
		a.Fatal(err)
	}
}

// gets fails the test unless these bytes come next.
func (a *agent) gets(want string) {
	a.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(a.in, got)
	if string(got[:n]) != want {
		a.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// refusal reads an error line.
func (a *agent) refusal(want string) {
	a.Helper()
	line, err := a.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, want) {
		a.Fatalf("got %q (%v), want %q", line, err, want)
	}
}

func (a *agent) does(command, reply string) {
	a.Helper()
	a.sends(command)
	a.gets(reply)
}

func TestRepliesInAPipelineKeepTheirOrder(t *testing.T) {
	a := dial(t, serve(t))
	a.sends("SET other 1", "GET agent:s1:k", "GET fence-proxy:x", "SET agent:s1:k v", "INCR other", "GET agent:s1:k", "KEYS *", "ECHO end")
	a.gets("+OK\r\n$-1\r\n")
	a.refusal("-FENCEDENIED the key \"fence-proxy:x\" is reserved")
	a.gets("+OK\r\n:2\r\n$1\r\nv\r\n*2\r\n$10\r\nagent:s1:k\r\n$5\r\nother\r\n$3\r\nend\r\n")
}

func TestClientsTakeTurnsOnASession(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("SET agent:s1:k 1", "+OK\r\n")
	a.does("GET agent:s1:k", "$1\r\n1\r\n")
	b.sends("GET agent:s1:k") // it waits
	a.does("SET agent:s1:k 2", "+OK\r\n")
	b.gets("$1\r\n2\r\n")
	a.sends("SET agent:s1:k 4") // it waits as well, though it read nothing
	b.does("SET agent:s1:k 3", "+OK\r\n")
	a.gets("+OK\r\n")
	b.does("GET agent:s1:k", "$1\r\n4\r\n")
}

func TestAStaleHolderIsRefusedAfterItsSuccessorRead(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	a.lapse("chat", "s1")
	b.does("GET agent:s1:k", "$-1\r\n")
	a.sends("SET agent:s1:k stale")
	a.refusal(`-FENCED rule "chat" session "s1": nothing was written: the session was granted to another owner since it was read`)
	b.does("SET agent:s1:k 1", "+OK\r\n")
	a.does("GET agent:s1:k", "$1\r\n1\r\n") // it was told once
	a.does("SET agent:s1:k 2", "+OK\r\n")
}

func TestATransactionWithARefusedCommandAppliesNothing(t *testing.T) {
	a := dial(t, serve(t))
	a.sends("MULTI", "SET other 1", "GET fence-proxy:x", "EXEC", "EXISTS other", "MULTI", "SET other 2", "EXEC")
	a.gets("+OK\r\n+QUEUED\r\n")
	a.refusal(`-FENCEDENIED the key "fence-proxy:x" is reserved`)
	a.refusal("-EXECABORT Transaction discarded because of previous errors.")
	a.gets(":0\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n")
}

func TestAProtocolErrorIsAnsweredAndEndsTheConnection(t *testing.T) {
	a := dial(t, serve(t))
	a.sends("ECHO x")
	if _, err := a.Write([]byte("*1\r\n:1\r\n")); err != nil {
		t.Fatal(err)
	}
	a.gets("$1\r\nx\r\n")
	a.refusal("-ERR Protocol error: expected '$', got ':'")
	if _, err := a.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection goes on: %v", err)
	}
}

func TestAClientThatLeavesGivesItsHoldBack(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	b.sends("GET agent:s1:k")
	_ = a.Close()
	b.gets("$-1\r\n")
}

func TestAWaiterThatLeavesDoesNotKeepTheLine(t *testing.T) {
	to := serve(t)
	a, b, c := dial(t, to), dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	b.sends("GET agent:s1:k")
	c.sends("GET agent:s1:k")
	_ = b.Close()
	a.does("SET agent:s1:k 1", "+OK\r\n")
	c.gets("$1\r\n1\r\n")
}
