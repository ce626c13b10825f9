package provider

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// etcdHold is a place that was granted. It stands as long as the proxy's lease, which is renewed by itself.
type etcdHold struct {
	place *etcdPlace
	lost  chan struct{}
	deaf  func() bool // stops hearing of the lease's end

	mu       sync.Mutex
	over     bool
	released bool      // at etcd
	ended    time.Time // when it was over
}

func newEtcdHold(p *etcdPlace) *etcdHold {
	h := &etcdHold{place: p, lost: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = context.AfterFunc(p.lease.life, h.lose)
	return h
}

// Grant implements Hold.
func (h *etcdHold) Grant() uint64 { return uint64(h.place.revision) }

// Until implements Hold.
func (h *etcdHold) Until() time.Time {
	until := h.place.lease.Until()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over && h.ended.Before(until) {
		return h.ended
	}
	return until
}

// Lost implements Hold.
func (h *etcdHold) Lost() <-chan struct{} { return h.lost }

// Renew implements Hold. The lease is renewed anyway, so it asks whether the place is still there.
func (h *etcdHold) Renew(ctx context.Context) error {
	if h.isOver() {
		return ErrLost
	}
	exists, err := h.place.exists(ctx)
	switch {
	case err == nil && !exists:
		h.lose()
		return ErrLost
	case h.isOver():
		return ErrLost
	case err != nil:
		return fmt.Errorf("renew at etcd: %w", err)
	}
	return nil
}

// Release implements Hold.
func (h *etcdHold) Release(ctx context.Context) error {
	h.mu.Lock()
	h.deaf()
	h.finish()
	done := h.released
	h.mu.Unlock()
	if done || h.place.lease.locker.life.Err() != nil {
		return nil
	}
	if err := h.place.remove(ctx); err != nil {
		h.place.leave() // or it would stand as long as the proxy lives
		return fmt.Errorf("release at etcd: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	return nil
}

// isOver says whether the hold was lost or released.
func (h *etcdHold) isOver() bool {
	if !h.place.lease.stands() {
		h.lose()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// lose ends the hold here, with a notice, unless it is over already.
func (h *etcdHold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.deaf()
		h.finish()
		close(h.lost)
	}
}

func (h *etcdHold) finish() {
	if !h.over {
		h.over, h.ended = true, time.Now()
	}
}
