package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulHold is a key that is locked. Its owner stays the first of its proxy's line.
type consulHold struct {
	session *consulSession
	place   *consulPlace
	grant   uint64        // the index that the key was locked with
	lost    chan struct{} // closed by lose
	unwatch func() bool   // stops lose from being called when the session ends

	mu       sync.Mutex
	lostAt   time.Time // zero until then
	released bool
}

func newConsulHold(s *consulSession, p *consulPlace, grant uint64) (*consulHold, error) {
	h := &consulHold{session: s, place: p, grant: grant, lost: make(chan struct{})}
	l := s.locker
	err := l.keep(h)
	switch {
	case err != nil:
	case grant >= 1<<53:
		err = fmt.Errorf("index %d is not below 2^53, as grants have to be: use another cluster", grant)
	case grant <= p.above:
		err = fmt.Errorf("index %d is not above %d, which was granted before: has this cluster been made anew, or from an old snapshot?",
			grant, p.above)
	}
	if err != nil {
		l.drop(h)
		l.spawn(func() { p.giveUp(s, grant) }) // a Locker that closes ends its session
		return nil, err
	}
	h.unwatch = context.AfterFunc(s.ctx, h.lose)
	return h, nil
}

// keep notes a hold for Close to release.
func (l *consul) keep(h *consulHold) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errConsulClosed
	}
	l.holds[h] = struct{}{}
	return nil
}

func (l *consul) drop(h *consulHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holds, h)
}

func (h *consulHold) Grant() uint64         { return h.grant }
func (h *consulHold) Lost() <-chan struct{} { return h.lost }

// Until is that of the Consul session, unless the hold has ended before.
func (h *consulHold) Until() time.Time {
	until := h.session.until()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.lostAt.IsZero() && h.lostAt.Before(until) {
		return h.lostAt
	}
	return until
}

// lose tells the owner that its hold is over, if it has not given it up itself, and lets the next of its proxy's line have its turn.
func (h *consulHold) lose() {
	h.mu.Lock()
	if h.released || !h.lostAt.IsZero() {
		h.mu.Unlock()
		return
	}
	h.lostAt = time.Now()
	close(h.lost)
	h.mu.Unlock()
	h.session.locker.drop(h)
	h.place.leave()
}

// over reports whether the hold has ended, whether or not that was seen.
func (h *consulHold) over() bool {
	if !h.session.stands() {
		h.lose()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.released || !h.lostAt.IsZero()
}

// Renew extends all holds of the proxy, and asks whether this one's key is still locked as it was.
func (h *consulHold) Renew(ctx context.Context) error {
	if h.over() {
		return ErrLost
	}
	var pair *api.KVPair
	err := h.session.renew(ctx)
	if err == nil {
		err = h.session.locker.ask(ctx, func(ctx context.Context) (err error) {
			pair, _, err = h.place.get(ctx, &api.QueryOptions{RequireConsistent: true})
			return err
		})
	}
	switch {
	case h.over():
		return ErrLost
	case errors.Is(err, errConsulSessionOver):
		h.lose()
		return ErrLost
	case err != nil:
		return fmt.Errorf("consul: %w", err)
	case pair == nil || pair.Session != h.session.id || pair.ModifyIndex != h.grant:
		h.lose()
		return ErrLost
	default:
		return nil
	}
}

// Release deletes the key. If that can't be done now, it goes on without the caller, and the next of the proxy's line is not kept waiting.
func (h *consulHold) Release(ctx context.Context) error {
	if h.over() {
		return nil
	}
	h.mu.Lock()
	h.released = true
	h.mu.Unlock()
	h.unwatch()
	l := h.session.locker
	err := h.place.delete(ctx, h.grant)
	if err != nil {
		l.spawn(func() { h.place.giveUp(h.session, h.grant) }) // a Locker that closes ends its session
	}
	l.drop(h)
	h.place.leave()
	if err != nil {
		return fmt.Errorf("consul: release: %w", err)
	}
	return nil
}
