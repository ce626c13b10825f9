package tokenstore

import (
	"context"
	"errors"
	"net"
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

// Parks returns the name under which a waiter blocks at the store (AppendPark) instead of being
// woken over its proxy's channel.
func Parks(waiter string) string { return waiter + "b" }

// silence is how long a subscription may be silent before the store is asked for a sign of life, and
// then how long it has for that. A connection whose other end is gone without a word looks just
// like an idle one.
const silence = 5 * time.Second

// Listen subscribes to the proxy's wake-up channel and reports to l until ctx ends. It
// reconnects by itself.
func (s *Store) Listen(ctx context.Context, proxyID string, l Listener) {
	for ctx.Err() == nil {
		s.hear(ctx, WakeChannel(proxyID), l)
	}
}

// hear is one subscription's life: until ctx ends, or the store no longer answers.
func (s *Store) hear(ctx context.Context, channel string, l Listener) {
	sub := s.Client(0).Subscribe(ctx, channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		stop()
		_ = sub.Close()
	}()
	for asked := false; ctx.Err() == nil; {
		m, err := sub.ReceiveTimeout(ctx, silence)
		var quiet net.Error
		switch {
		case errors.As(err, &quiet) && quiet.Timeout():
			if asked {
				return
			}
			asked = true
			_ = sub.Ping(ctx)
			continue
		case err != nil:
			pause(ctx, 50*time.Millisecond)
			continue
		}
		asked = false
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
