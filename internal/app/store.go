package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// ErrEmbedded says that a configuration names no Redis that others could see.
var ErrEmbedded = errors.New("the configuration names no Redis: set upstream.url (--config, --upstream or FENCE_UPSTREAM_URL)")

// AreaOf is where a key lives that a rule guards, and its fence record beside it.
func AreaOf(cfg *config.Config, r *rule.Rule, db int, key []byte) tokenstore.Area {
	if !cfg.Upstream.Clustered() {
		return tokenstore.Area{DB: db}
	}
	return tokenstore.AreaInCluster(key, r.Spans())
}

// span has a store speak to records of sessions that span slots, where there may be such.
func span(ctx context.Context, cfg *config.Config, store *tokenstore.Store) error {
	if !cfg.Upstream.Clustered() || cfg.Lock.Outside() {
		return nil
	}
	return store.Span(ctx)
}

// OpenStore connects to the fence records of a configuration's upstream, for who needs no proxy. db is the database
// that its URL names. The caller closes the Store. Errors: ErrEmbedded.
func OpenStore(ctx context.Context, cfg *config.Config) (store *tokenstore.Store, db int, err error) {
	target, err := cfg.Upstream.Target()
	if err != nil {
		return nil, 0, err
	}
	if target.Embedded {
		return nil, 0, ErrEmbedded
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Upstream.DialTimeout)
	defer cancel()
	own := ownOptions(cfg, target, slog.New(slog.DiscardHandler))
	w, err := OpenWay(ctx, cfg.Upstream, target, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, 0, err
	}
	own.Dialer = w.Dial
	if err = w.try(ctx, own); err == nil {
		store, err = tokenstore.Open(ctx, own, cfg.Lock.Provider)
	}
	if err != nil {
		w.Close()
	} else {
		store.OnClose(w.Close)
		if err = span(ctx, cfg, store); err != nil {
			store.Close()
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("upstream %s: %w", cfg.Upstream.Redacted(), err)
	}
	store.LimitWaiters(cfg.Limits.Waiters)
	return store, target.DB, nil
}
