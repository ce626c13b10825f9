// Package embedded is the store for trying fence-proxy out: an in-memory Redis (miniredis) in the
// proxy's own process. Nothing in it outlives the process, and it is no proof of anything: the
// tests run on real servers.
package embedded

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// tick is how often keys are expired, in real time: miniredis has no clock of its own.
const tick = 50 * time.Millisecond

// Store is a running in-memory store.
type Store struct {
	server *miniredis.Miniredis
	stop   context.CancelFunc
	done   chan struct{}
}

// Start starts a store on a free loopback port. The caller closes it.
func Start() (*Store, error) {
	redis := miniredis.NewMiniRedis()
	if err := redis.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded store: %w", err)
	}
	redis.Server().SetPreHook(commandDocs)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Store{server: redis, stop: cancel, done: make(chan struct{})}
	go s.expire(ctx)
	return s, nil
}

// commandDocs answers COMMAND DOCS, which redis-cli asks at its start: no docs. miniredis answers
// every COMMAND sub-command with its table, at which redis-cli 7 aborts.
func commandDocs(peer *server.Peer, cmd string, args ...string) bool {
	if !strings.EqualFold(cmd, "COMMAND") || len(args) == 0 || !strings.EqualFold(args[0], "DOCS") {
		return false
	}
	peer.WriteLen(0)
	return true
}

// Addr is the store's host:port.
func (s *Store) Addr() string { return s.server.Addr() }

// Close stops the store.
func (s *Store) Close() {
	s.stop()
	<-s.done
	s.server.Close()
}

// expire lets the store's time pass.
func (s *Store) expire(ctx context.Context) {
	defer close(s.done)
	t := time.NewTicker(tick)
	defer t.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			s.server.FastForward(now.Sub(last))
			last = now
		}
	}
}
