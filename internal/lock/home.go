package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Home is the lock provider of sessions whose keys are in several slots of a cluster: each session has one record more, its
// home, which is locked as that of any other session is (Manager.Acquire). It guards no data; its grants are registered
// where the data is.
type Home struct {
	m     *Manager
	store HomeStore

	ctx    context.Context // ends when it closes
	close  context.CancelFunc
	silent context.CancelFunc // ends the wake-up subscription
	heard  chan struct{}

	mu    sync.Mutex
	holds map[*homeHold]struct{}
	late  map[*homeHold]struct{} // released, their lease not over when that was noted
}

// HomeStore is the store as Home needs it; tokenstore.Store has the meaning of each.
type HomeStore interface {
	Provider
	Listen(ctx context.Context, proxyID string, l tokenstore.Listener)
	Raise(grant uint64)
	Ping(ctx context.Context) error
}

// homeTTL is how long a home record outlives its last use: longer than any hold. Its grants grow without it.
const homeTTL = 10 * time.Minute

// homeWait is how long one wait in line lasts, before it is begun again.
const homeWait = time.Hour

// NewHome returns a Home. id is unique among all proxies of the store, and no manager has it. The caller closes it.
func NewHome(id string, store HomeStore, log *slog.Logger) *Home {
	h := &Home{m: NewManager(id, store, log), store: store, heard: make(chan struct{}), holds: map[*homeHold]struct{}{}, late: map[*homeHold]struct{}{}}
	h.ctx, h.close = context.WithCancel(context.Background())
	listening, silent := context.WithCancel(context.Background())
	h.silent = silent
	go func() {
		defer close(h.heard)
		store.Listen(listening, id, h)
	}()
	return h
}

// Subscribed implements tokenstore.Listener.
func (h *Home) Subscribed() { h.m.Subscribed() }

// Woken implements tokenstore.Listener: it is a waiter's turn, or something was done to a hold.
func (h *Home) Woken(waiter string, grant uint64) {
	if !strings.HasPrefix(waiter, tokenstore.ApartPrefix) {
		h.m.Woken(waiter, grant)
		return
	}
	for _, hold := range h.all() {
		if hold.grant == grant && hold.sequence.Claim.Owner == waiter {
			h.m.Detach(func(ctx context.Context) { _ = hold.Renew(ctx) }) // it sees what was done
		}
	}
}

// Acquire implements provider.Locker.
func (h *Home) Acquire(ctx context.Context, r provider.Request) (provider.Hold, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	if err := h.m.Ready(ctx); err != nil {
		return nil, fmt.Errorf("cluster: subscribe to wake-ups: %w", err)
	}
	home := HomeRecord(r.Session)
	terms := rule.Rule{Name: home.Rule, Wait: homeWait, Lease: r.Lease, MaxHold: homeTTL, RecordTTL: homeTTL}
	for {
		if r.Above > 0 {
			h.store.Raise(r.Above)
		}
		s := h.m.Apart(home.Area, &terms, []byte(home.Session), tokenstore.Identity{Client: r.Holder}, 0)
		b, err := h.m.Acquire(ctx, s)
		var locked *LockedError
		switch {
		case err == nil:
			return h.held(s, b.Grant), nil
		case !errors.As(err, &locked):
			return nil, fmt.Errorf("cluster: %w", err)
		case !rest(ctx, busyRetry): // the line is full, or the wait was over
			return nil, fmt.Errorf("cluster: %w", ctx.Err())
		}
	}
}

// HomeRecord returns the home of a session, by the name under which it is asked for: "database:rule:session".
func HomeRecord(name string) *tokenstore.Record {
	if part := strings.SplitN(name, ":", 3); len(part) == 3 && part[1] != "" {
		if db, err := strconv.Atoi(part[0]); err == nil && strconv.Itoa(db) == part[0] {
			return tokenstore.NewRecord(tokenstore.Area{DB: db}, part[1], part[2])
		}
	}
	return tokenstore.NewRecord(tokenstore.Area{}, "", name)
}

// Check implements provider.Locker.
func (h *Home) Check(ctx context.Context) error {
	if err := h.m.Ready(ctx); err != nil {
		return fmt.Errorf("cluster: subscribe to wake-ups: %w", err)
	}
	return h.store.Ping(ctx)
}

// Close implements provider.Locker.
func (h *Home) Close(ctx context.Context) error {
	h.close()
	var failed error
	for _, hold := range h.all() {
		failed = errors.Join(failed, hold.Release(ctx))
	}
	h.m.Close(ctx)
	h.silent()
	<-h.heard
	return failed
}

// Break ends whatever hold there is on a session, named as in a provider.Request, and returns whose it was.
func (h *Home) Break(ctx context.Context, session string) (tokenstore.Holder, bool, error) {
	holder, broken, err := h.m.grantStore().Break(ctx, HomeRecord(session), tokenstore.NewClaim(h.m.id, tokenstore.Identity{}, homeTTL, homeTTL))
	if broken {
		err = errors.Join(err, h.m.grantStore().Tell(ctx, holder))
	}
	return holder, broken, err
}

// HolderOf returns who holds a session, named as in a provider.Request; nobody, if the store can't be asked.
func (h *Home) HolderOf(session string) tokenstore.Holder {
	return h.m.HolderOf(HomeRecord(session))
}

func (h *Home) all() []*homeHold {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*homeHold, 0, len(h.holds))
	for hold := range h.holds {
		all = append(all, hold)
	}
	return all
}

// homeHold is a session held at its home. It implements provider.Hold.
type homeHold struct {
	home     *Home
	sequence *Sequence
	grant    uint64
	lost     chan struct{}

	mu    sync.Mutex
	until time.Time
	over  bool
	timer *time.Timer // to until
}

func (h *Home) held(s *Sequence, grant uint64) *homeHold {
	hold := &homeHold{home: h, sequence: s, grant: grant, lost: make(chan struct{}), until: s.Since().Add(s.Claim.Lease)}
	hold.mu.Lock()
	defer hold.mu.Unlock()
	hold.timer = time.AfterFunc(time.Until(hold.until), hold.lapse)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds[hold] = struct{}{}
	return hold
}

// Grant implements provider.Hold.
func (h *homeHold) Grant() uint64 { return h.grant }

// Lost implements provider.Hold.
func (h *homeHold) Lost() <-chan struct{} { return h.lost }

// Until implements provider.Hold.
func (h *homeHold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// Renew implements provider.Hold.
func (h *homeHold) Renew(ctx context.Context) error {
	if h.isOver() {
		return provider.ErrLost
	}
	sent := time.Now()
	s := h.sequence
	_, err := h.home.m.RenewGrant(ctx, s.Record, s.Claim, h.grant)
	switch {
	case errors.Is(err, tokenstore.ErrLost):
		h.end(true)
		return provider.ErrLost
	case err != nil:
		return fmt.Errorf("cluster: renew: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return provider.ErrLost
	}
	if until := sent.Add(s.Claim.Lease); until.After(h.until) {
		h.until = until
		h.timer.Reset(time.Until(until))
	}
	return nil
}

// Release implements provider.Hold.
func (h *homeHold) Release(ctx context.Context) error {
	h.end(false)
	s := h.sequence
	if _, err := h.home.m.ReleaseGrant(ctx, s.Record, s.Claim, h.grant); err != nil {
		return fmt.Errorf("cluster: release: %w", err)
	}
	h.home.released(h)
	return nil
}

// released remembers a hold that was given back: at a primary that lacks what was written last it stands again.
func (h *Home) released(hold *homeHold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late[hold] = struct{}{}
	if len(h.late) < maxLately {
		return
	}
	now := time.Now()
	for other := range h.late {
		if now.After(other.Until()) || len(h.late) >= maxLately {
			delete(h.late, other)
		}
	}
}

// moved gives back anew what may stand again, without waiting for that.
func (h *Home) moved() {
	h.m.requeueAll()
	h.m.clearPlaces()
	h.mu.Lock()
	late := h.late
	h.late = map[*homeHold]struct{}{}
	h.mu.Unlock()
	now, by := time.Now(), map[recordKey][]*homeHold{}
	for hold := range late {
		if now.Before(hold.Until()) {
			key := recordKeyOf(hold.sequence.Record)
			by[key] = append(by[key], hold)
		}
	}
	h.m.detach(func(ctx context.Context) {
		inParallel(ghostHunters, slices.Collect(maps.Values(by)), func(released []*homeHold) { h.lay(ctx, released) })
	})
}

// lay looks at a session of which these holds were given back, and gives back the one that stands again, if any does.
func (h *Home) lay(ctx context.Context, released []*homeHold) {
	again := func() error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		now, err := h.m.grantStore().Inspect(ctx, released[0].sequence.Record, 0)
		if err != nil {
			return err
		}
		for _, hold := range released {
			if hold.grant == now.Token.Grant {
				return hold.Release(ctx)
			}
		}
		return nil
	}
	for again() != nil && rest(ctx, ghostRetry) {
		released = slices.DeleteFunc(released, func(hold *homeHold) bool { return !time.Now().Before(hold.Until()) })
		if len(released) == 0 {
			return
		}
	}
}

func (h *homeHold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// lapse ends the hold that was not renewed in time.
func (h *homeHold) lapse() {
	if !time.Now().Before(h.Until()) {
		h.end(true)
	}
}

// end ends the hold, once.
func (h *homeHold) end(lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.over = true
	h.timer.Stop()
	if lost {
		close(h.lost)
	}
	h.home.mu.Lock()
	delete(h.home.holds, h)
	h.home.mu.Unlock()
}
