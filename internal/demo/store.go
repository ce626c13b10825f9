package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/embedded"
)

// cleanTime bounds the work at the end, which goes on when the demo was interrupted.
const cleanTime = 5 * time.Second

// store is the Redis that the agents race on.
type store struct {
	url    string        // as the proxies' upstream
	name   string        // for people, without a password
	way    redis.Options // how an agent reaches it
	client *redis.Client // the demo's own

	embedded *embedded.Store // nil if the Redis is somebody else's
	opened   *app.Way
}

// openStore starts the embedded store, or connects to the Redis that the options name. The caller
// closes it.
func openStore(ctx context.Context, o *Options) (*store, error) {
	target, err := o.target()
	if err != nil {
		return nil, err
	}
	s := &store{url: o.Upstream, name: config.Upstream{URL: o.Upstream}.Redacted()}
	if target.Embedded {
		if s.embedded, err = embedded.Start(); err != nil {
			return nil, err
		}
		s.url, s.name = "redis://"+s.embedded.Addr(), "an embedded store, in memory only"
		target.Network, target.Address = "tcp", s.embedded.Addr()
	}
	s.way = redis.Options{
		Network: target.Network, Addr: target.Address, Username: target.Username, Password: target.Password, DB: target.DB,
	}
	if s.opened, err = app.OpenWay(ctx, config.Upstream{URL: o.Upstream, DialTimeout: cleanTime}, target, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	s.way.Dialer = s.opened.Dial
	options := s.way
	options.ClientName, options.Protocol, options.MaxRetries = "fence-proxy-demo", 2, -1
	s.client = redis.NewClient(&options)
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.close()
		return nil, fmt.Errorf("upstream %s: %w", s.name, err)
	}
	return s, nil
}

// ways returns the way to the store, once for each of n agents.
func (s *store) ways(n int) []redis.Options {
	ways := make([]redis.Options, n)
	for i := range ways {
		ways[i] = s.way
	}
	return ways
}

// session reads a race's final value.
func (s *store) session(ctx context.Context, key string) ([]string, error) {
	text, err := s.client.Get(ctx, key).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the final value: %w", err)
	}
	return parseSession(text)
}

// remove deletes the demo's keys, also after ctx has ended.
func (s *store) remove(ctx context.Context, keys ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if err := s.client.Del(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("delete the demo's keys, which expire after %v: %w", valueTTL, err)
	}
	return nil
}

func (s *store) close() {
	_ = s.client.Close()
	s.opened.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}
