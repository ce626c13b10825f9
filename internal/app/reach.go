package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/proxy"
	"github.com/fence-proxy/fence-proxy/internal/sentinel"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Between two attempts to reach the upstream at the start.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
)

// reach connects to the upstream, and tries again for as long as it may be that it is only not there yet: a sidecar often
// starts before its Redis, or while that restarts.
func (p *Proxy) reach(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := p.connect(ctx)
		if err == nil {
			return nil
		}
		p.disconnect(ctx)
		p.forget()
		left := p.cfg.Upstream.StartTimeout - time.Since(p.started)
		if ctx.Err() != nil || !mayPass(err) || left < pause {
			return err
		}
		p.log.Warn("the upstream can't be reached yet; trying again", "error", err, "left", left.Round(time.Second))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// mayPass reports whether what has kept the proxy from connecting may be over soon: nobody listens, a name is not known yet, a
// connection broke, or the server is not ready. What is the configuration's fault does not pass.
func mayPass(err error) bool {
	var network net.Error
	var op *net.OpError
	switch {
	case err == nil:
		return false
	case errors.As(err, &op) && op.Op == "remote error": // TLS: the server does not want this proxy
		return false
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, sentinel.ErrUnsettled), errors.Is(err, cluster.ErrNoSlots):
		return true
	}
	var said redis.Error
	if !errors.As(err, &said) {
		return false
	}
	word, _, _ := strings.Cut(said.Error(), " ")
	switch word {
	case "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY":
		return true
	}
	return strings.HasPrefix(said.Error(), "ERR max number of clients")
}

// connect makes all that speaks to the upstream.
func (p *Proxy) connect(ctx context.Context) error {
	cfg := p.cfg
	ctx, cancel := context.WithTimeout(ctx, cfg.Upstream.DialTimeout)
	defer cancel()
	own, err := p.options(ctx)
	if err != nil {
		return err
	}
	p.endpoint = &upstream.Endpoint{Options: own, DialTimeout: cfg.Upstream.DialTimeout, Silencer: p.way.silencer()}
	p.endpoint.Meter.ReadOnly = p.way.suspect()
	if err := p.way.try(ctx, own); err != nil {
		return p.ofUpstream(err)
	}
	if p.observer != nil {
		p.store = tokenstore.Unused(own)
	} else if p.store, err = tokenstore.Open(ctx, own, cfg.Lock.Provider); err != nil {
		return p.ofUpstream(err)
	}
	p.store.LimitWaiters(cfg.Limits.Waiters)
	if p.observer == nil {
		if err := span(ctx, cfg, p.store); err != nil {
			return p.ofUpstream(err)
		}
	}
	if err := p.lock(ctx); err != nil {
		return err
	}
	accounts, err := p.accounts(cfg)
	if err != nil {
		return err
	}
	p.server, err = proxy.NewServer(ctx, proxy.Options{
		Accounts: accounts,
		Name:     cfg.Name, Rules: cfg.Set, Upstream: p.endpoint, Store: p.store, Locks: p.locks,
		Limits: proxy.Limits(cfg.Limits), Metrics: p.metrics, Log: p.log, Observer: p.observer, Spans: p.spans(), Hear: p.hear,
		Clustered: cfg.Upstream.Clustered(), Node: cfg.Upstream.Cluster == config.ClusterPassthrough,
	})
	return p.ofUpstream(err)
}

// ofUpstream says of an error that it is the upstream's; nil is none.
func (p *Proxy) ofUpstream(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("upstream %s: %w", p.cfg.Upstream.Redacted(), err)
}

// lock makes all that grants sessions, and tells of it.
func (p *Proxy) lock(ctx context.Context) error {
	p.locks = lock.NewManager(p.id, p.grants(), p.log)
	p.way.follow(p.locks)
	if err := p.trace(ctx); err != nil {
		return err
	}
	p.locks.Observe(p.sinks())
	if p.observer == nil {
		if err := p.lockElsewhere(); err != nil {
			return err
		}
	}
	if p.cfg.Guards() {
		return p.ofUpstream(p.hear(ctx))
	}
	return nil
}

// disconnect takes down what connect has made, in reverse. What is held is given back.
func (p *Proxy) disconnect(ctx context.Context) {
	if p.locks != nil {
		ctx, cancel := context.WithTimeout(ctx, releaseTime)
		p.locks.Close(ctx)
		if p.locker != nil {
			if err := p.locker.Close(ctx); err != nil {
				p.log.Warn("the lock provider was not told of the end; leases end what is held", "error", err)
			}
		}
		cancel()
	}
	if p.listening != nil {
		p.listening()
		<-p.heard
	}
	if p.store != nil {
		p.store.Close()
	}
	p.way.Close()
	if p.embedded != nil {
		p.embedded.Close()
	}
}

// forget is for the next attempt. A proxy that ends forgets nothing: its metrics are read to the last.
func (p *Proxy) forget() {
	p.locks, p.locker, p.listening, p.store, p.way, p.embedded, p.server = nil, nil, nil, nil, nil, nil, nil
	p.hearing = sync.Once{}
}
