package tokenstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Place is a waiter's place in a session's line, or the session that is reserved for it.
type Place struct {
	Waiter string
	Owner  string // that it waits for
	Identity
}

// Line returns the places in a session's line, the first one first: that for which the session is reserved, if it is.
func (s *Store) Line(ctx context.Context, r *Record) ([]Place, error) {
	var hold *redis.StringCmd
	var queue *redis.StringSliceCmd
	_, err := s.Client(r.DB).TxPipelined(ctx, func(p redis.Pipeliner) error {
		hold, queue = p.Get(ctx, r.hold), p.ZRange(ctx, r.queue, 0, -1)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	var line []Place
	if h := parseHolder(hold.Val()); h.Held() {
		if waiter := strings.SplitN(hold.Val(), "\n", 5)[3]; waiter != "" {
			line = append(line, Place{waiter, h.Owner, h.Identity})
		}
	}
	for _, entry := range queue.Val() {
		if part := strings.SplitN(entry, "\n", 5); len(part) == 5 {
			line = append(line, Place{part[0], part[1], Identity{Proxy: part[2], Client: part[3], Name: part[4]}})
		}
	}
	return line, nil
}
