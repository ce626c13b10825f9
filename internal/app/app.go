// Package app puts a proxy together from its configuration and runs it: the store, the locks, the
// server, and the order in which they start and end.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/embedded"
	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/metrics"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/proxy"
	"github.com/fence-proxy/fence-proxy/internal/status"
	"github.com/fence-proxy/fence-proxy/internal/telemetry"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// releaseTime bounds giving back holds at the end.
const releaseTime = 2 * time.Second

// ownBuffer is what the proxy's own connections have for either direction. Its commands are short,
// and the library's default is eight times as much.
const ownBuffer = 4 << 10

// Proxy is a proxy that is ready to serve.
type Proxy struct {
	cfg      *config.Config // follow's, while it runs
	log      *slog.Logger
	embedded *embedded.Store
	way      *Way
	store    *tokenstore.Store
	locks    *lock.Manager
	locker   provider.Locker // nil: the store itself grants
	endpoint *upstream.Endpoint
	server   *proxy.Server
	listener net.Listener
	open     atomic.Bool // the listener is there
	metrics  *metrics.Metrics
	admin    *admin.Server     // nil if it is turned off
	status   *status.Collector // for the admin server, nil without
	observer *observe.Observer // nil unless the proxy observes

	telemetry *telemetry.Telemetry // nil: nothing is sent
	tracer    *telemetry.Tracer    // nil: no traces are
	tracing   bool                 // it was asked for

	reloading Reloading
	used      atomic.Pointer[inUse]
	version   string
	started   time.Time

	id        string // of the wake-up channel
	hearing   sync.Once
	listening context.CancelFunc // ends the wake-up subscription, nil before
	heard     chan struct{}
}

// Option is something about a proxy that no configuration says.
type Option func(*Proxy)

// Observed has an observer told of all that passes. The configuration has no rules then.
func Observed(by *observe.Observer) Option { return func(p *Proxy) { p.observer = by } }

// Sending has the proxy's telemetry sent. The caller closes it when the proxy has ended.
func Sending(by *telemetry.Telemetry) Option { return func(p *Proxy) { p.telemetry = by } }

// Start connects to the upstream, for which it waits as long as Upstream.StartTimeout says, and begins to listen. version
// is the program's, for the metrics. The caller runs Serve, which also cleans up.
func Start(ctx context.Context, cfg *config.Config, version string, log *slog.Logger, options ...Option) (_ *Proxy, err error) {
	p := &Proxy{cfg: cfg, log: log, version: version, started: time.Now()}
	p.use(inUse{cfg: cfg, since: p.started})
	if cfg.Admin != "" {
		p.status = status.New(p.terms)
	}
	for _, set := range options {
		set(p)
	}
	defer func() {
		if err != nil {
			p.close(ctx)
		}
	}()
	p.metrics = metrics.None()
	if p.counts() {
		if p.metrics, err = metrics.New(version, p.telemetry.Metrics()...); err != nil {
			return nil, err
		}
	}
	if err := p.metrics.Sends(p.telemetry.Lost); err != nil {
		return nil, err
	}
	p.countRules()
	p.warnOfFiles()
	p.id = strings.ToLower(rand.Text())
	if err := p.reach(ctx); err != nil {
		return nil, err
	}
	if err := p.metrics.Reads(p.readings); err != nil {
		return nil, err
	}
	if !cfg.Guards() {
		p.store.Rest() // a proxy that only passes on keeps no connections of its own
	}
	if err := p.serveAdmin(ctx); err != nil { // before the first client comes
		return nil, err
	}
	if p.listener, err = p.listen(); err != nil {
		return nil, err
	}
	p.open.Store(true)
	return p, nil
}

// sinks are who is told of guarded sequences, nil if nobody is.
func (p *Proxy) sinks() event.Sink {
	if !p.counts() {
		return event.Fan(p.sink())
	}
	if p.cfg.Admin == "" {
		return event.Fan(p.metrics, p.sink())
	}
	return event.Fan(p.metrics, p.status, p.sink())
}

// counts reports whether anybody reads the metrics.
func (p *Proxy) counts() bool { return p.cfg.Admin != "" || p.telemetry.Metrics() != nil }

// hear makes sure that the proxy hears of hand-overs to its waiters.
func (p *Proxy) hear(ctx context.Context) error {
	p.hearing.Do(p.subscribe)
	if err := p.locks.Ready(ctx); err != nil {
		return fmt.Errorf("subscribe to wake-ups: %w", err)
	}
	return nil
}

// options are how the proxy's own connections reach the upstream.
func (p *Proxy) options(ctx context.Context) (*redis.Options, error) {
	target, err := p.cfg.Upstream.Target()
	if err != nil {
		return nil, err
	}
	if target.Embedded {
		if p.embedded, err = embedded.Start(); err != nil {
			return nil, err
		}
		p.log.Warn("EMBEDDED STORE: everything is kept in this process's memory and is gone when it ends; " +
			"set upstream.url to a real Redis for anything but trying out")
		target.Network, target.Address = "tcp", p.embedded.Addr()
	}
	own := ownOptions(p.cfg, target, p.log)
	if p.way, err = OpenWay(ctx, p.cfg.Upstream, target, p.log); err != nil {
		return nil, err
	}
	own.Dialer = p.way.Dial
	return own, nil
}

// ownOptions are how the proxy's own connections reach a target.
func ownOptions(cfg *config.Config, target config.Target, log *slog.Logger) *redis.Options {
	return &redis.Options{
		Network: target.Network, Addr: target.Address, Username: target.Username, DB: target.DB,
		CredentialsProvider: cfg.Upstream.Login(target, unread(log, "upstream.password_file")),
		DialTimeout:         cfg.Upstream.DialTimeout, ClientName: "fence-proxy", Protocol: 2, MaxRetries: -1,
		ContextTimeoutEnabled: true, // a renewal has to fail while there is lease left
		ReadBufferSize:        ownBuffer, WriteBufferSize: ownBuffer,
	}
}

// accounts are the users of a configuration, nil if there are none.
func (p *Proxy) accounts(cfg *config.Config) (*account.List, error) {
	return account.New(cfg.Users, func(name string, err error) {
		p.log.Error("a user's password_file can't be read: what was in it goes on to count", "user", name, "error", err)
	})
}

// unread tells that a file with a password can't be read any more.
func unread(log *slog.Logger, key string) func(error) {
	return func(err error) {
		log.Error("a file with a password can't be read: what was in it goes on to count", "key", key, "error", err)
	}
}

// subscribe begins to hear of hand-overs.
func (p *Proxy) subscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	p.listening, p.heard = cancel, make(chan struct{})
	go func() {
		defer close(p.heard)
		p.store.Listen(ctx, p.id, p.locks)
	}()
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Serve serves until ctx ends; then it drains, releases what is held and closes everything.
func (p *Proxy) Serve(ctx context.Context) error {
	p.log.Info("serving", "listen", p.cfg.Listen, "tls", p.cfg.TLS.Listen, "address", p.Addr().String(), "admin", p.cfg.Admin, "upstream", p.cfg.Upstream.Redacted(),
		"name", p.cfg.Name, "rules", len(p.cfg.Rules), "provider", p.cfg.Lock.Provider)
	served := make(chan error, 1)
	go func() { served <- p.server.Serve(p.listener) }()
	following, unfollow := context.WithCancel(ctx)
	neglect := p.tendAgent()
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		p.follow(following)
	}()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	unfollow()
	<-followed
	neglect()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Drain)
	p.server.Shutdown(drain)
	cancel()
	if err == nil {
		err = <-served
	}
	p.close(context.WithoutCancel(ctx))
	p.log.Info("stopped")
	return err
}

// close takes down what Start has built, in reverse.
func (p *Proxy) close(ctx context.Context) {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.disconnect(ctx)
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	if p.admin != nil {
		p.admin.Close(ctx) // last, so that /readyz and /metrics tell of the end
	}
	if p.metrics != nil {
		_ = p.metrics.Close(ctx)
	}
}

// removeStale takes away a socket that no process listens on any more.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("listen: %s is there and is no socket: remove it or choose another path", path)
	}
	if nc, err := net.Dial("unix", path); err == nil {
		_ = nc.Close()
		return fmt.Errorf("listen: another process serves %s: stop it or choose another path", path)
	}
	return os.Remove(path)
}
