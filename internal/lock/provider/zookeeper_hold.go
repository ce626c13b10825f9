package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// zookeeperHold is a node at the head of its line.
type zookeeperHold struct {
	place *zookeeperPlace
	node  *zookeeperNode

	mu       sync.Mutex
	lostAt   time.Time     // zero until then
	lost     chan struct{} // closed by lose
	release  sync.Once
	released chan struct{} // closed when Release was called
	gone     chan struct{} // closed when the node was deleted, or will be without us
}

func newZooKeeperHold(s *zookeeperSession, p *zookeeperPlace, node *zookeeperNode) *zookeeperHold {
	h := &zookeeperHold{
		place: p, node: node, lost: make(chan struct{}), released: make(chan struct{}), gone: make(chan struct{}),
	}
	if !s.spawn(h.watch) {
		h.lose()
	}
	return h
}

func (h *zookeeperHold) Grant() uint64         { return h.node.grant }
func (h *zookeeperHold) Lost() <-chan struct{} { return h.lost }

// Until is that of the ZooKeeper session, unless the hold has ended before.
func (h *zookeeperHold) Until() time.Time {
	until := h.place.session.until()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lostAt.IsZero() && h.lostAt.Before(until) {
		return h.lostAt
	}
	return until
}

// watch waits for the hold's end.
func (h *zookeeperHold) watch() {
	over := h.place.session.over
	for {
		if h.node.events == nil && !h.watchAgain() {
			h.lose()
			return
		}
		select {
		case <-h.released:
			return
		case <-over:
			h.lose()
			return
		case e := <-h.node.events:
			if e.Type == zk.EventNodeDeleted {
				h.lose()
				return
			}
			h.node.events = nil // somebody has written to it, and a watch tells but one thing
		}
	}
}

// watchAgain watches the node on, unless it is gone.
func (h *zookeeperHold) watchAgain() bool {
	s := h.place.session
	for {
		_, _, events, err := s.conn.GetW(h.node.path)
		switch {
		case err == nil:
			h.node.events = events
			return true
		case !zookeeperBroke(err) || s.reconnected() != nil:
			return false
		}
	}
}

// lose tells the owner that its hold is over, if it has not given it up itself.
func (h *zookeeperHold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.released:
		return
	default:
	}
	if h.lostAt.IsZero() {
		h.lostAt = time.Now()
		close(h.lost)
	}
}

// Renew extends all holds of the proxy, and asks whether this one's node is still there.
func (h *zookeeperHold) Renew(ctx context.Context) error {
	s := h.place.session
	there, err := zookeeperAsk(ctx, s, func() (bool, error) {
		if err := s.touch(); err != nil {
			return false, err
		}
		there, _, err := s.conn.Exists(h.node.path)
		return there, err
	})
	select {
	case <-h.released:
		return ErrLost
	case <-h.lost:
		return ErrLost
	case <-s.over:
		h.lose()
		return ErrLost
	default:
	}
	switch {
	case err != nil:
		return fmt.Errorf("zookeeper: renew: %w", err)
	case !there:
		h.lose()
		return ErrLost
	default:
		return nil
	}
}

// Release deletes the node. If ctx ends first, that goes on without it.
func (h *zookeeperHold) Release(ctx context.Context) error {
	s := h.place.session
	h.release.Do(func() {
		close(h.released)
		if !s.spawn(func() {
			defer close(h.gone)
			h.place.remove(h.node.path)
		}) {
			close(h.gone)
		}
	})
	select {
	case <-h.gone:
		return nil
	case <-s.over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("zookeeper: release: %w", ctx.Err())
	}
}
