package app

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/health"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// OpenLocker opens a configuration's lock provider; it does not wait for it. nil: the store itself grants. id is
// the proxy's, unique among all of the provider. The caller closes its Locker.
func OpenLocker(cfg *config.Config, id string, log *slog.Logger) (*lock.Outside, error) {
	if !cfg.Lock.Outside() {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	kind, settings, ok := cfg.Lock.Kind()
	if !ok {
		return nil, fmt.Errorf("lock provider %s: there is no such", cfg.Lock.Provider)
	}
	locker, err := kind.Open(settings, provider.Environment{Proxy: id, Log: log})
	if err != nil {
		return nil, fmt.Errorf("lock provider %s: %w", kind.Name, err)
	}
	return &lock.Outside{Name: kind.Name, Locker: locker, Pass: cfg.Lock.Pass()}, nil
}

// OpenHome opens the lock provider of sessions whose keys are in several slots of a cluster. id is unique among all of
// the store, and no manager's. The caller closes its Locker.
func OpenHome(store *tokenstore.Store, id string, log *slog.Logger) *lock.Outside {
	return &lock.Outside{Name: tokenstore.Cluster, Locker: lock.NewHome(id, store, log)}
}

// grants is the store as a provider of locks, whose calls are counted unless it is another that grants.
func (p *Proxy) grants() lock.Provider {
	if p.observer != nil || p.cfg.Lock.Outside() {
		return p.store
	}
	p.metrics.Provider("acquire", "renew", "release")
	return &timedStore{p.store, p.metrics}
}

// lockElsewhere has the configuration's lock provider grant, if it is not the store itself.
func (p *Proxy) lockElsewhere() error {
	outside, err := OpenLocker(p.cfg, p.id, p.log)
	if err == nil && outside == nil && p.cfg.Upstream.Clustered() {
		home := OpenHome(p.store, p.id+"h", p.log)
		p.locker = home.Locker
		p.locks.UseForSpans(*home)
	}
	if err != nil || outside == nil {
		return err
	}
	outside.Observer = p.metrics
	p.metrics.Provider("acquire", "renew", "release", "check")
	p.locker = outside.Locker
	p.locks.Use(*outside)
	return nil
}

// tendAgent ties holds to the health of the agent beside the proxy, until the function that it returns is called.
func (p *Proxy) tendAgent() (stop func()) {
	a := p.cfg.Lock.AgentHealth
	if !a.Set() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	probe := health.Probe{HTTP: a.HTTP, TCP: a.TCP, Interval: a.Interval, Timeout: a.Timeout, Failures: a.Failures}
	go func() {
		defer close(done)
		probe.Watch(ctx, p.agentIs)
	}()
	return func() {
		cancel()
		<-done
	}
}

// agentIs takes in that the agent is healthy (nil), or why it is not.
func (p *Proxy) agentIs(why error) {
	if why == nil {
		p.locks.Resume()
		p.log.Info("the agent is healthy: sessions can be acquired")
	} else {
		p.locks.Suspend(why)
		p.log.Error("the agent is not healthy: its holds are released, and nothing is acquired until it is", "error", why)
	}
	p.metrics.AgentHealthy(why == nil)
}
