package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/metrics"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/socket"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Options are what a Server is made of. All but the limits, the observer and Hear are required.
type Options struct {
	Name     string // of this proxy, in messages
	Rules    *rule.Set
	Upstream *upstream.Endpoint
	Store    *tokenstore.Store
	Locks    *lock.Manager
	Limits   Limits
	Metrics  *metrics.Metrics
	Log      *slog.Logger
	Observer *observe.Observer // nil unless the proxy observes
	Spans    Spans             // nil: there are none
	// Hear, if set, makes sure that the locks hear of hand-overs from now on, before a client may wait for one that no
	// rule has it wait for.
	Hear func(ctx context.Context) error
	// Clustered: the upstream is a Redis Cluster, so records live in the slots of their data.
	Clustered bool
	// Accounts are who may use the proxy; nil: it does not ask, and what clients say with AUTH goes to the upstream.
	Accounts *account.List
	// Node: the proxy shows itself as a Redis Cluster of one node.
	Node bool
}

// Spans are the spans of sequences.
type Spans interface {
	// Span is by what the span of a sequence is known, or else the trace of the application that is given; not valid if it gave none.
	Span(sequence uint64, application trace.SpanContext) trace.SpanContext
}

// Server accepts clients and serves them until it is shut down.
type Server struct {
	name      string
	rules     *rulebook
	upstream  *upstream.Endpoint
	store     *tokenstore.Store
	locks     *lock.Manager
	limits    atomic.Pointer[Limits]
	accounts  atomic.Pointer[account.List] // nil: the proxy does not ask who somebody is
	metrics   *metrics.Metrics
	log       *slog.Logger
	observer  *observe.Observer
	spans     Spans
	hear      func(ctx context.Context) error
	bare      *rule.Rule // of sessions that no rule guards
	clustered bool
	node      bool // it shows itself as a cluster of one
	unproved  bool // it is not known whether Redis lets the proxy's own user guard

	owner         *lock.Owner // of rules with owner: proxy
	patterns      patterns    // by which that has read
	shares        *shares     // of clients that have not logged in themselves
	logins        logins
	buffers       upstream.Buffers // of clients' own upstream connections
	groups        groups
	commands      commands
	nested        nested
	bulk          atomic.Int64 // the upstream's proto-max-bulk-len, as last heard
	crowded       bool         // of Serve: the last client was turned away
	blocked       blocked
	kills         kills
	wrongs        wrongs
	refusedLogins wrongs
	bytes         socket.Traffic // with clients
	tallies       tallies

	draining atomic.Bool

	mu       sync.Mutex
	listener net.Listener
	clients  map[*client]struct{}
	work     sync.WaitGroup
}

// NewServer returns a server; it learns the upstream's commands.
func NewServer(ctx context.Context, o Options) (*Server, error) {
	s := &Server{
		name: o.Name, rules: newRulebook(o.Rules), upstream: o.Upstream, store: o.Store, locks: o.Locks,
		metrics: o.Metrics, log: o.Log, observer: o.Observer, spans: o.Spans, hear: o.Hear,
		bare: rule.ForUnguarded(), clustered: o.Clustered, node: o.Node, unproved: o.Rules.Empty(),
		owner:   o.Locks.Owner(tokenstore.Identity{Proxy: o.Name}),
		clients: map[*client]struct{}{},
		shares:  newShares(o.Upstream, nil, o.Limits.upstream()),
	}
	s.limits.Store(&o.Limits)
	s.accounts.Store(o.Accounts)
	s.owner.Share()
	table, err := command.Load(ctx, o.Store.Client(0))
	if err != nil {
		return nil, fmt.Errorf("learn the upstream's commands: %w", err)
	}
	s.commands = commands{table, o.Store}
	if !o.Rules.Empty() {
		if err := o.Store.Allowed(ctx); err != nil {
			return nil, fmt.Errorf("the upstream does not let the proxy's user guard: %w", err)
		}
	}
	s.maxBulk(ctx)
	return s, nil
}

// Serve accepts clients from l until Shutdown. It returns nil then.
func (s *Server) Serve(l net.Listener) error {
	defer s.watchOutputs()()
	defer s.watchRules()()
	s.mu.Lock()
	s.listener = l
	if s.draining.Load() { // Shutdown came first
		_ = l.Close()
	}
	s.mu.Unlock()
	for {
		nc, err := l.Accept()
		switch {
		case err == nil && s.full():
			s.turnAway(nc)
		case err == nil:
			s.accept(nc)
		case errors.Is(err, net.ErrClosed):
			return nil
		default:
			var transient net.Error
			if !errors.As(err, &transient) {
				return fmt.Errorf("accept clients: %w", err)
			}
			s.log.Warn("client not accepted", "error", err) // out of descriptors, say
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// accept starts a client. A client that comes while the listener closes is turned away.
func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		_ = nc.Close()
		return
	}
	c := newClient(s, nc)
	s.crowded = false
	s.clients[c] = struct{}{}
	s.metrics.Connected(1)
	s.shares.clients.Add(1)
	s.work.Go(func() {
		if s.handshake(nc) == nil {
			c.run()
		} else {
			_ = nc.Close()
		}
		s.logins.leave(c.shares)
		s.metrics.Connected(-1)
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
	})
}

// Clients is how many are connected.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Draining reports whether Shutdown has begun.
func (s *Server) Draining() bool { return s.draining.Load() }

// Shutdown stops accepting, lets open sequences go on until none is left or ctx ends, closes all
// clients and waits for them.
func (s *Server) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.draining.Store(true)
	if s.listener != nil {
		_ = s.listener.Close()
	}
	n := len(s.clients)
	s.mu.Unlock()
	s.log.Info("draining", "clients", n, "holds", s.locks.Holds())
	if err := s.locks.Drained(ctx); err != nil {
		s.log.Warn("drain time is over, breaking off open sequences", "holds", s.locks.Holds())
	}
	s.mu.Lock()
	for c := range s.clients {
		c.stop()
	}
	s.mu.Unlock()
	late := time.AfterFunc(lastReplies, s.closeShares) // for those that wait for a Redis which does not answer
	s.work.Wait()
	late.Stop()
	s.closeShares()
}

func (s *Server) closeShares() {
	s.shares.close()
	s.logins.close()
}
