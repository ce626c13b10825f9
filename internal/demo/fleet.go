package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// drainTime is for holds that are just being given back.
const drainTime = time.Second

// fleet is the proxies of a race, one for each agent. They know nothing of each other.
type fleet struct {
	ways []redis.Options // how an agent reaches its proxy

	stop    context.CancelFunc
	serving sync.WaitGroup
	mu      sync.Mutex
	errs    []error // of proxies that failed
}

// startFleet starts n proxies before upstream with these rules. They outlive ctx: the caller closes
// the fleet, also when there is an error.
func startFleet(ctx context.Context, n int, upstream string, guard []*rule.Rule, log *slog.Logger, options ...app.Option) (*fleet, error) {
	f := &fleet{}
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	for i := range n {
		cfg, err := fleetConfig(fmt.Sprintf("proxy-%d", i+1), upstream, guard)
		if err != nil {
			return f, err
		}
		p, err := app.Start(ctx, cfg, "demo", log.With("proxy", cfg.Name), options...)
		if err != nil {
			return f, fmt.Errorf("start %s: %w", cfg.Name, err)
		}
		f.ways = append(f.ways, redis.Options{Network: p.Addr().Network(), Addr: p.Addr().String()})
		f.serving.Go(func() {
			if err := p.Serve(serve); err != nil {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.errs = append(f.errs, fmt.Errorf("%s: %w", cfg.Name, err))
			}
		})
	}
	return f, nil
}

func fleetConfig(name, upstream string, guard []*rule.Rule) (*config.Config, error) {
	cfg, err := config.Default()
	if err != nil {
		return nil, err
	}
	cfg.Name, cfg.Listen, cfg.Admin, cfg.Drain, cfg.Upstream.URL = name, "127.0.0.1:0", "", drainTime, upstream
	cfg.Rules = guard
	cfg.Set, err = rule.NewSet(cfg.Rules)
	return cfg, err
}

// close stops the proxies and waits for them. The error says which of them failed.
func (f *fleet) close() error {
	f.stop()
	f.serving.Wait()
	return errors.Join(f.errs...)
}
