package tokenstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A client whose command waits for something to come into a guarded key stands by at the store: its connection
// blocks there, on a list of its own, so that Redis counts it as blocked and CLIENT UNBLOCK finds it.

func standbyList(waiter string) string { return Prefix + "w:" + waiter }

// AppendStandby appends a wait for [Store.AppendRouse], of at most left; 0 is for ever. It answers with one reply,
// an array unless the time is over or somebody has unblocked the client.
func (s *Store) AppendStandby(dst []byte, waiter string, left time.Duration) []byte {
	seconds := "0"
	if left > 0 {
		seconds = inSeconds(left)
	}
	return appendStrings(dst, "BLPOP", standbyList(waiter), seconds)
}

// leastBlock is the shortest time that a command may block: Redis 6 takes 0.001 for a little less, which it takes for ever.
const leastBlock = 2 * time.Millisecond

// inSeconds is a time as blocking commands take it.
func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(max(d, leastBlock).Seconds(), 'f', 3, 64)
}

// RouseFrames is the number of replies to a rouse.
const RouseFrames = 3

// AppendRouse appends what ends a standby. If nobody stands by, it is forgotten after a second.
func (s *Store) AppendRouse(dst []byte, waiter string) []byte {
	list := standbyList(waiter)
	dst = appendStrings(dst, "DEL", list)
	dst = appendStrings(dst, "RPUSH", list, "1")
	return appendStrings(dst, "PEXPIRE", list, "1000")
}

// Unpark ends a waiter's wait at the store (AppendPark): its begin then finds whether it was handed the session
// meanwhile.
func (s *Store) Unpark(ctx context.Context, r *Record, waiter string) error {
	list := r.WakeList(waiter)
	_, err := s.Client(r.DB).Pipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, list, "")
		p.PExpire(ctx, list, Reservation)
		return nil
	})
	return err
}
