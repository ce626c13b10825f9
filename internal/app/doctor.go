package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/doctor"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Patient is a configuration's deployment, for the doctor. operator is the URL of the same Redis with a user who may ask more
// than the proxy's, or "". It connects to nothing by itself. The caller calls discharge at the end. Errors: ErrEmbedded.
func Patient(cfg *config.Config, operator string) (p *doctor.Patient, discharge func(), err error) {
	target, err := cfg.Upstream.Target()
	if err != nil {
		return nil, nil, err
	}
	if target.Embedded {
		return nil, nil, ErrEmbedded
	}
	own := ownOptions(cfg, target, slog.New(slog.DiscardHandler))
	var way *Way
	if target.Cluster == nil { // which would be connected to
		if way, err = OpenWay(context.Background(), cfg.Upstream, target, slog.New(slog.DiscardHandler)); err != nil {
			return nil, nil, err
		}
		own.Dialer = way.Dial
	}
	node := redis.NewClient(own)
	discharge = func() { _ = node.Close(); way.Close() }
	seen := doctor.Node{Addr: target.Address, Redis: node}
	if operator != "" {
		as, err := config.Upstream{URL: operator}.Target()
		if err != nil {
			discharge()
			return nil, nil, fmt.Errorf("operator: %w", err)
		}
		theirs := ownOptions(&config.Config{Upstream: config.Upstream{DialTimeout: cfg.Upstream.DialTimeout}}, as, slog.New(slog.DiscardHandler))
		theirs.Network, theirs.Addr, theirs.Dialer = own.Network, own.Addr, own.Dialer // to the same node
		seen.Operator = redis.NewClient(theirs)
		discharge = func() { _, _ = node.Close(), seen.Operator.Close(); way.Close() }
	}
	p = &doctor.Patient{
		Config: cfg, Nodes: []doctor.Node{seen}, Area: tokenstore.Area{DB: target.DB},
		Open: func(ctx context.Context) (*tokenstore.Store, error) {
			return tokenstore.Open(ctx, own, cfg.Lock.Provider)
		},
	}
	if cfg.Lock.Outside() {
		p.Locker = func() (provider.Locker, error) {
			outside, err := OpenLocker(cfg, "doctor-"+strings.ToLower(rand.Text()), slog.New(slog.DiscardHandler))
			if err != nil {
				return nil, err
			}
			return outside.Locker, nil
		}
	}
	return p, discharge, nil
}
