package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/sentinel"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Way is how an upstream is reached, which may be more than one server.
type Way struct {
	// Dial makes a connection. It is a go-redis Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	tls      bool             // connections are made under it
	cluster  *cluster.Cluster // nil unless the upstream is one
	sentinel *sentinel.Dialer // nil unless Sentinels name the primary
	moved    atomic.Pointer[func()]
}

// OpenWay makes the way to a target. The caller closes it, behind all that goes that way.
func OpenWay(ctx context.Context, u config.Upstream, target config.Target, log *slog.Logger) (*Way, error) {
	w := &Way{Dial: new(net.Dialer).DialContext}
	if target.TLS {
		dial, err := u.TLS.Client().Dialer(log)
		if err != nil {
			return nil, fmt.Errorf("upstream.tls: %w", err)
		}
		w.Dial, w.tls = dial, true
	}
	switch {
	case target.Cluster != nil:
		if err := w.openCluster(ctx, u, target, log); err != nil {
			return nil, err
		}
	case target.Sentinels != nil:
		w.openSentinels(u, target, log)
	}
	return w, nil
}

func (w *Way) openCluster(ctx context.Context, u config.Upstream, target config.Target, log *slog.Logger) (err error) {
	w.cluster, err = cluster.Open(ctx, cluster.Options{
		Seeds: target.Cluster, Login: u.Login(target, unread(log, "upstream.password_file")),
		Dial: w.Dial, DialTimeout: u.DialTimeout,
		Everywhere: func(channel []byte) bool { return bytes.HasPrefix(channel, []byte(tokenstore.Prefix)) },
		Changed:    w.changed,
		Log:        log,
	})
	if err != nil {
		return fmt.Errorf("upstream %s: %w", u.Redacted(), err)
	}
	w.Dial = w.cluster.Dial
	return nil
}

func (w *Way) openSentinels(u config.Upstream, target config.Target, log *slog.Logger) {
	w.sentinel = sentinel.Open(sentinel.Options{
		Name: target.Address, Sentinels: target.Sentinels, Connect: w.Dial, DialTimeout: u.DialTimeout, Log: log,
		Credentials: u.Sentinel.Login(unread(log, "upstream.sentinel.password_file")),
		Login:       u.Login(target, unread(log, "upstream.password_file")),
		Switched:    w.changed,
	})
	w.Dial = w.sentinel.Dial
}

// changed tells that another node may be the primary now, which may lack what was written last.
func (w *Way) changed() {
	if tell := w.moved.Load(); tell != nil {
		(*tell)()
	}
}

// try connects, logs in and says PING, for an error that says what is wrong; those of the library tell of its own attempts.
func (w *Way) try(ctx context.Context, own *redis.Options) error {
	e := upstream.Endpoint{Options: own, DialTimeout: own.DialTimeout}
	err := e.Ping(ctx)
	var protocol *resp.ProtocolError
	if w.tls && err != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "certificate required")) {
		return fmt.Errorf("it ends the connection, as a Redis does that asks for a certificate: name one in upstream.tls.cert, and its upstream.tls.key: %w", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &protocol) {
		return fmt.Errorf("it does not speak Redis's protocol here; if it speaks TLS, write rediss:// in upstream.url: %w", err)
	}
	return err
}

// follow has locks follow what Redis loses when another node becomes the primary.
func (w *Way) follow(locks *lock.Manager) {
	if w.sentinel != nil || w.cluster != nil {
		locks.Follows()
		moved := locks.Moved
		w.moved.Store(&moved)
	}
}

// silencer is for a cluster, where a connection goes to several nodes.
func (w *Way) silencer() upstream.Silencer {
	if w.cluster == nil {
		return nil
	}
	return w.cluster.Silence
}

// suspect takes in that the upstream may have become a replica; nil if there is nobody to tell.
func (w *Way) suspect() func() {
	if w.sentinel == nil {
		return nil
	}
	return w.sentinel.Suspect
}

// failovers is how often another node has become the primary.
func (w *Way) failovers() int64 {
	if w.sentinel == nil {
		return 0
	}
	return w.sentinel.Switches()
}

// Close ends what the way needs. A nil way needs nothing.
func (w *Way) Close() {
	if w == nil {
		return
	}
	if w.sentinel != nil {
		w.sentinel.Close()
	}
	if w.cluster != nil {
		w.cluster.Close()
	}
}
