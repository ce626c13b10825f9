package provider

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeHold is a Lease while its holder is this one.
//
//	standing ──▶ over: the Lease has another holder, is gone, or was not renewed in time; lost is closed
//	    └──────▶ released
type kubeHold struct {
	k        *kubeLocker
	session  *kubeSession
	identity string
	grant    uint64
	lease    time.Duration
	lost     chan struct{}
	turn     chan struct{} // has room for the one call that may change the Lease

	// These are guarded by k.mu.
	until  time.Time
	expiry *time.Timer // calls lapse at until
	over   bool        // lost or released
}

// grant makes the waiter's hold, once the Lease has its identity.
func (k *kubeLocker) grant(w *kubeWaiter) *kubeHold {
	h := &kubeHold{
		k: k, session: w.session, identity: w.identity, grant: w.session.sight.version, lease: w.Lease,
		lost: make(chan struct{}), turn: make(chan struct{}, 1), until: w.asked.Add(w.Lease),
	}
	h.expiry = time.AfterFunc(time.Until(h.until), h.lapse)
	w.identity = "" // it is the hold's now
	w.session.hold = h
	return h
}

func (h *kubeHold) Grant() uint64         { return h.grant }
func (h *kubeHold) Lost() <-chan struct{} { return h.lost }

func (h *kubeHold) Until() time.Time {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	return h.until
}

// Renew implements Hold.
func (h *kubeHold) Renew(ctx context.Context) error {
	if err := h.begin(ctx); err != nil {
		return fmt.Errorf("renew a Lease: %w", err)
	}
	defer func() { <-h.turn }()
	for {
		asked := time.Now()
		lease, version, ok := h.renewed()
		if !ok {
			return ErrLost
		}
		updated, err := h.k.put(ctx, lease, version, h.lease)
		if err != nil {
			return fmt.Errorf("renew a Lease: %w", err)
		}
		if updated {
			return h.extend(asked.Add(h.lease))
		}
	}
}

// renewed is the Lease to be stored, unless the hold is over.
func (h *kubeHold) renewed() (*coordination.Lease, uint64, bool) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.over || h.session.sight.holder() != h.identity {
		return nil, 0, false
	}
	lease, now := h.session.sight.lease.DeepCopy(), metav1.NowMicro()
	lease.Spec.RenewTime = &now
	return lease, h.session.sight.version, true
}

// extend notes that the Lease was renewed. It may have been too late for whoever waits for lost.
func (h *kubeHold) extend(until time.Time) error {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.over {
		return ErrLost
	}
	h.until = until
	h.expiry.Reset(time.Until(until))
	return nil
}

// Release implements Hold.
func (h *kubeHold) Release(ctx context.Context) error {
	h.k.mu.Lock()
	h.conclude()
	h.k.mu.Unlock()
	defer h.finish()
	if err := h.begin(ctx); err != nil {
		return fmt.Errorf("release a Lease: %w", err)
	}
	defer func() { <-h.turn }()
	for {
		lease, version, ok := h.released()
		if !ok {
			return nil
		}
		if _, err := h.k.put(ctx, lease, version, h.lease); err != nil {
			return fmt.Errorf("release a Lease: %w", err)
		}
	}
}

// begin waits for the call before this one.
func (h *kubeHold) begin(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// released is the Lease to be stored, unless it is another's: it goes to the next one here if no other proxy waits, else to
// the first of these.
func (h *kubeHold) released() (*coordination.Lease, uint64, bool) {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	s := h.session
	if s.sight.holder() != h.identity {
		return nil, 0, false
	}
	line := s.sight.line()
	if len(s.waiters) == 0 {
		return s.sight.freed(line), s.sight.version, true
	}
	next := s.waiters[0]
	if len(line) > 0 {
		return s.sight.freed(append(line, h.k.me)), s.sight.version, true
	}
	h.k.name(next, time.Now())
	return h.k.taken(next, nil), next.version, true
}

// finish forgets the identity, so that what may still stand at the API server is tidied up.
func (h *kubeHold) finish() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	h.k.forsake(h.session, h.identity)
	if h.session.hold == h {
		h.session.hold = nil
	}
	h.k.trim(h.session)
}

// lapse ends a hold that was not renewed.
func (h *kubeHold) lapse() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if !time.Now().Before(h.until) { // else it was renewed in this moment
		h.lose()
	}
}

// lose says that the hold is over. Called with k.mu held, as conclude.
func (h *kubeHold) lose() {
	if h.conclude() {
		close(h.lost)
	}
}

// conclude ends the hold for its owner. False: it was over before.
func (h *kubeHold) conclude() bool {
	if h.over {
		return false
	}
	h.over = true
	h.expiry.Stop()
	return true
}
