package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// crowd is the clients of one way, each with a connection. They have done a cycle each, so that connections, scripts and
// values are there.
type crowd interface {
	// work lets all clients do cycles for a time, and until those that were begun in it have ended. It returns what each has done.
	work(ctx context.Context, length time.Duration) ([]spell, error)
}

// spell is what one client did in a turn.
type spell struct {
	took   []time.Duration // one for each cycle that was acknowledged, waiting and giving up before it included
	gaveUp int
	inTime int           // cycles that ended before the turn did,
	last   time.Duration // and when the last of them did, counted from the turn's start
}

// goroutines are a crowd in this process.
type goroutines []*client

// client is one party to the contest.
type client struct {
	redis *redis.Client
	key   string
	guard guard
}

// inProcess gathers clients with go-redis's defaults, which guard their cycles so.
func inProcess(guardWith func(tb testing.TB, to place, client *redis.Client, key string) guard) gather {
	return func(tb testing.TB, to place, keys []string, n int) crowd {
		tb.Helper()
		var all goroutines
		for i := range n {
			key := keys[i%len(keys)]
			r := redis.NewClient(&redis.Options{Addr: to.redis, PoolSize: 1})
			tb.Cleanup(func() { _ = r.Close() })
			c := &client{redis: r, key: key, guard: guardWith(tb, to, r, key)}
			if err := c.guard(tb.Context(), c.cycle); err != nil {
				tb.Fatalf("the first cycle: %v", err)
			}
			all = append(all, c)
		}
		return all
	}
}

func (all goroutines) work(ctx context.Context, length time.Duration) ([]spell, error) {
	spells, errs := make([]spell, len(all)), make([]error, len(all))
	var working sync.WaitGroup
	start := time.Now()
	for i, c := range all {
		working.Go(func() { spells[i], errs[i] = c.work(ctx, start, length) })
	}
	working.Wait()
	return spells, errors.Join(errs...)
}

// work does cycles until the end.
func (c *client) work(ctx context.Context, start time.Time, length time.Duration) (s spell, err error) {
	end := start.Add(length)
	for begun := time.Now(); begun.Before(end); {
		err := c.guard(ctx, c.cycle)
		now := time.Now()
		switch {
		case errors.Is(err, errGaveUp):
			s.gaveUp++
			continue // a later success has taken this long, too
		case err != nil:
			return s, err
		}
		s.took = append(s.took, now.Sub(begun))
		if !now.After(end) {
			s.inTime++
			s.last = now.Sub(start)
		}
		begun = now
	}
	return s, nil
}

// cycle reads the value, counts one up and writes it.
func (c *client) cycle(ctx context.Context) error {
	n, err := count(ctx, c.redis, c.key)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%0*d", countDigits, n+1)
	return c.redis.Set(ctx, c.key, text+filler, 0).Err()
}

// count reads the count in a value, 0 if there is none.
func count(ctx context.Context, r *redis.Client, key string) (n int, err error) {
	value, err := r.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(value) != valueSize {
		return 0, fmt.Errorf("%s has %d bytes, want %d", key, len(value), valueSize)
	}
	_, err = fmt.Sscanf(value[:countDigits], "%d", &n)
	return n, err
}
