package app

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/fence-proxy/fence-proxy/internal/admin"
)

// Why a proxy takes no new clients.
var (
	errStarting = errors.New("starting")
	errDraining = errors.New("draining")
)

// serveAdmin begins to serve the status page, health and metrics, where that is wanted.
func (p *Proxy) serveAdmin(ctx context.Context) (err error) {
	network, address := p.cfg.AdminAddress()
	if address == "" {
		return nil
	}
	if network == "unix" {
		if err := removeStale(address); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	options := admin.Options{
		Network: network, Address: address, Metrics: p.metrics.Handler(), Status: p.status,
		Ready: p.ready, About: p.about, Config: p.shownConfig, Token: p.cfg.Token, Hosts: p.cfg.AdminHosts, Pprof: p.cfg.AdminPprof,
	}
	if p.observer == nil {
		options.Guard = overseer{p}
	}
	p.admin, err = admin.Start(ctx, options)
	return err
}

// ready says why clients can't be served, or nil.
func (p *Proxy) ready(ctx context.Context) error {
	if !p.open.Load() { // agents start as soon as this is nil, and must not find the port closed
		return errStarting
	}
	if p.server.Draining() {
		return errDraining
	}
	if err := p.locks.ProviderReady(); err != nil {
		return err
	}
	return p.endpoint.Ping(ctx)
}

// countRules begins the counts of the rules that guard.
func (p *Proxy) countRules() {
	for _, r := range p.cfg.Rules {
		if r.Guards() {
			p.metrics.Rule(r.Name, string(r.Mode))
		}
	}
}

// spareFiles are descriptors that a proxy needs besides those of its clients.
const spareFiles = 64

// warnOfFiles says at start, rather than under load, that the process may not open as many files as
// its clients may need: two for each. The Go runtime has raised the soft limit to the hard one.
func (p *Proxy) warnOfFiles() {
	var files unix.Rlimit
	need := 2*p.cfg.Limits.Connections + spareFiles
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur < uint64(need) {
		p.log.Warn("the process may open fewer files than its clients may need: raise the hard limit (ulimit -Hn), or lower limits.connections",
			"files", files.Cur, "connections", p.cfg.Limits.Connections, "needed", need)
	}
}
