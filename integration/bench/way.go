package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// guard runs a cycle while nobody else does, or so it hopes. errGaveUp says that it
// did not come to it, or that it was refused: nothing was written.
type guard func(ctx context.Context, cycle func(context.Context) error) error

var errGaveUp = errors.New("gave up")

// way is one way to do a read-modify-write cycle.
type way struct {
	name     string
	proxied  bool // its clients connect to the proxy
	lossless bool // it must not lose an update
	guard    func(client *redis.Client, key string) guard
}

const (
	bareName      = "bare"
	redsyncName   = "redsync"
	redislockName = "redislock"
)

var ways = []way{
	{name: bareName, guard: unguarded},
	{name: fenceName, proxied: true, lossless: true, guard: fenced},
	{name: redsyncName, lossless: true, guard: redsyncLocked},
	{name: redislockName, lossless: true, guard: redislockLocked},
}

func unguarded(*redis.Client, string) guard {
	return func(ctx context.Context, cycle func(context.Context) error) error { return cycle(ctx) }
}

// fenced leaves it to the proxy.
func fenced(*redis.Client, string) guard {
	return func(ctx context.Context, cycle func(context.Context) error) error {
		err := cycle(ctx)
		if err != nil && (strings.HasPrefix(err.Error(), "LOCKED ") || strings.HasPrefix(err.Error(), "FENCED ")) {
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		return err
	}
}

func redsyncLocked(client *redis.Client, key string) guard {
	mutex := redsync.New(goredis.NewPool(client)).NewMutex("lock:" + key)
	return func(ctx context.Context, cycle func(context.Context) error) error {
		if err := mutex.LockContext(ctx); err != nil {
			var taken *redsync.ErrTaken
			if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
				return fmt.Errorf("%w: %w", errGaveUp, err)
			}
			return err
		}
		err := cycle(ctx)
		_, unlockErr := mutex.UnlockContext(ctx)
		return errors.Join(err, unlockErr)
	}
}

const (
	redislockLease = 8 * time.Second
	redislockRetry = 100 * time.Millisecond
)

func redislockLocked(client *redis.Client, key string) guard {
	locker := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)}
	return func(ctx context.Context, cycle func(context.Context) error) error {
		held, err := locker.Obtain(ctx, "lock:"+key, redislockLease, options)
		if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		if err != nil {
			return err
		}
		return errors.Join(cycle(ctx), held.Release(ctx))
	}
}
