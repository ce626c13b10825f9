package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/proxy"
)

// Reloading says how a proxy that serves comes to a new configuration.
type Reloading struct {
	Source *config.Source
	Now    <-chan os.Signal // asks for it at once
	Level  *slog.LevelVar   // of the log
}

// Follow has the proxy, once it serves, take over what its source says. It is called before Serve.
func (p *Proxy) Follow(r Reloading) {
	p.reloading = r
	p.use(inUse{cfg: p.cfg, file: r.Source.Path(), since: p.started})
	p.metrics.ConfigLoaded()
}

// follow takes over new configurations until ctx ends. A bad one changes nothing.
func (p *Proxy) follow(ctx context.Context) {
	for p.reloading.Source != nil {
		news, err := p.reloading.Source.Next(ctx, p.reloading.Now)
		if err != nil {
			return
		}
		if errors.Is(news.Err, config.ErrNoFile) {
			p.log.Warn(news.Err.Error())
			continue
		}
		if news.Err == nil {
			news.Err = p.reload(ctx, news.Config)
		}
		p.metrics.ConfigReloaded(news.Err == nil)
		if news.Err != nil {
			failed := *p.used.Load()
			failed.failed = news.Err.Error()
			p.use(failed)
			p.log.Error("configuration not reloaded, the one before stays", "asked", news.Asked,
				"error", strings.ReplaceAll(news.Err.Error(), "\n", "; "))
		}
	}
}

// reload takes over of a configuration what a running proxy can.
func (p *Proxy) reload(ctx context.Context, next *config.Config) error {
	cfg, changed, restart := p.cfg.Revised(next)
	if cfg.Guards() {
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	accounts, err := p.accounts(cfg)
	if err != nil {
		return err
	}
	p.cfg = cfg
	p.use(inUse{cfg: cfg, file: p.reloading.Source.Path(), since: time.Now(), restart: restart})
	p.countRules()
	p.store.LimitWaiters(cfg.Limits.Waiters)
	p.server.Revise(cfg.Set, proxy.Limits(cfg.Limits))
	p.server.ReviseAccounts(accounts)
	_ = p.reloading.Level.UnmarshalText([]byte(cfg.Log.Level)) // checked when it was loaded
	for _, note := range cfg.Notes() {
		p.log.Info("note", "config", note)
	}
	for _, key := range restart {
		p.log.Warn("configuration changed where a running proxy can't follow: restart it", "key", key)
	}
	p.log.Info("configuration reloaded", "file", p.reloading.Source.Path(), "changed", changed, "restart", restart, "rules", len(cfg.Rules))
	return nil
}

// prepare does for the first rule that guards what Start does where there is one.
func (p *Proxy) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Upstream.DialTimeout)
	defer cancel()
	if err := p.store.Allowed(ctx); err != nil {
		return fmt.Errorf("the upstream does not let the proxy's user guard: %w", err)
	}
	if err := p.hear(ctx); err != nil {
		return fmt.Errorf("upstream %s: %w", p.cfg.Upstream.Redacted(), err)
	}
	return nil
}
