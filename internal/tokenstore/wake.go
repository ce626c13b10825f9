package tokenstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Listener hears of sessions that were handed to a proxy's waiters. Its methods are called one
// after the other, from Listen's goroutine, and must not block for long.
type Listener interface {
	// Subscribed is called whenever the subscription (again) stands. While it did not, the store
	// took this proxy's waiters for gone and may have dropped them from its queues.
	Subscribed()
	// Woken is called for each hand-over.
	Woken(waiter string, grant uint64)
}

// Listen subscribes to the proxy's wake-up channel and reports to l until ctx ends. It
// reconnects by itself.
func (s *Store) Listen(ctx context.Context, proxyID string, l Listener) {
	sub := s.Client(0).Subscribe(ctx, WakeChannel(proxyID))
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		stop()
		_ = sub.Close()
	}()
	for ctx.Err() == nil {
		m, err := sub.ReceiveTimeout(ctx, time.Minute)
		if err != nil {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		switch m := m.(type) {
		case *redis.Subscription:
			l.Subscribed()
		case *redis.Message:
			waiter, grant, _ := strings.Cut(m.Payload, " ")
			if n, err := strconv.ParseUint(grant, 10, 64); err == nil {
				l.Woken(waiter, n)
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
