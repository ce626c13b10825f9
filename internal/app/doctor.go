package app

import (
	"context"
	"log/slog"
	"strings"

	"crypto/rand"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/doctor"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Patient is a configuration's deployment, for the doctor. It connects to nothing by itself. The caller calls discharge at the
// end. Errors: ErrEmbedded.
func Patient(cfg *config.Config) (p *doctor.Patient, discharge func(), err error) {
	target, err := cfg.Upstream.Target()
	if err != nil {
		return nil, nil, err
	}
	if target.Embedded {
		return nil, nil, ErrEmbedded
	}
	own := ownOptions(cfg, target)
	var way *Way
	if target.Cluster == nil { // which would be connected to
		if way, err = OpenWay(context.Background(), cfg.Upstream, target, slog.New(slog.DiscardHandler)); err != nil {
			return nil, nil, err
		}
		own.Dialer = way.Dial
	}
	node := redis.NewClient(own)
	p = &doctor.Patient{
		Config: cfg, Nodes: []doctor.Node{{Addr: target.Address, Redis: node}}, Area: tokenstore.Area{DB: target.DB},
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
	return p, func() { _ = node.Close(); way.Close() }, nil
}
