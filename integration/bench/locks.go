package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// lockLease is redsync's default, and goes for the others too: how long they hold at most, and try to.
const lockLease = 8 * time.Second

// lockRetry is the pause of those that have no default; the example of redislock's documentation has it.
const lockRetry = 100 * time.Millisecond

func redsyncLocked(_ testing.TB, _ place, client *redis.Client, key string) guard {
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

func redislockLocked(_ testing.TB, _ place, client *redis.Client, key string) guard {
	locker := redislock.New(client)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(lockRetry)}
	return func(ctx context.Context, cycle func(context.Context) error) error {
		held, err := locker.Obtain(ctx, "lock:"+key, lockLease, options)
		if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		if err != nil {
			return err
		}
		return errors.Join(cycle(ctx), held.Release(ctx))
	}
}

// rueidisLocked has a locker for each client, with connections of its own.
func rueidisLocked(tb testing.TB, to place, _ *redis.Client, key string) guard {
	tb.Helper()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{to.redis}, ForceSingleClient: true},
		KeyMajority:  1, // there is one Redis
	})
	if err != nil {
		tb.Fatalf("rueidislock: %v", err)
	}
	tb.Cleanup(locker.Close)
	return func(ctx context.Context, cycle func(context.Context) error) error {
		patience, enough := context.WithTimeout(ctx, lockLease)
		defer enough()
		_, release, err := locker.WithContext(patience, "lock:"+key)
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		if err != nil {
			return err
		}
		defer release()
		return cycle(ctx)
	}
}

// etcdLocked has a session, and a connection to etcd, for each client.
func etcdLocked(tb testing.TB, to place, _ *redis.Client, key string) guard {
	tb.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{to.etcd}, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatalf("etcd: %v", err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	session, err := concurrency.NewSession(client)
	if err != nil {
		tb.Fatalf("etcd: open a session: %v", err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	return func(ctx context.Context, cycle func(context.Context) error) error {
		mutex := concurrency.NewMutex(session, "lock/"+key)
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		return errors.Join(cycle(ctx), mutex.Unlock(ctx))
	}
}
