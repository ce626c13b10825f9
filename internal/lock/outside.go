package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A lock provider elsewhere grants a session before the store hears of it:
//
//	Ask ─▶ the provider's line ─▶ Give ─▶ registered at the store, with the read ─▶ Granted: Held
//	                                │                                                  │
//	                                └▶ Drop: it was not registered                     └▶ the hold ends: given back
//
// The store stays the judge: a hold that is over at the provider and does not know it is refused there as soon as its
// successor is registered. So nobody waits for a hold to be given back, and whatever ends a sequence's hold gives
// it back (setState).

// Outside is a lock provider elsewhere, as the manager uses it.
type Outside struct {
	Name   string // as records have it
	Locker provider.Locker
	// Pass: guarded commands go through unguarded while the provider can't be asked.
	Pass bool
	// Observer hears of what is asked of the provider; it may be nil.
	Observer CallObserver
}

// CallObserver hears of a lock provider. Its methods may be called by several goroutines and must not block.
type CallObserver interface {
	// ProviderCalled is told of each call, by the name of the method, and how long it took; an acquire's time is that
	// in line as well. err is nil for one that was broken off by who asked.
	ProviderCalled(call string, took time.Duration, err error)
	// ProviderUp is told whether the provider can be asked.
	ProviderUp(up bool)
}

// registrar is what the store does for grants from elsewhere; tokenstore.Store has the meaning of each.
type registrar interface {
	Register(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, expected tokenstore.Basis) (tokenstore.Begin, error)
	RenewGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (tokenstore.Holder, error)
	ReleaseGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (tokenstore.Holder, bool, error)
	Break(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim) (tokenstore.Holder, bool, error)
	Inspect(ctx context.Context, r *tokenstore.Record, first int) (tokenstore.Inspection, error)
	Tell(ctx context.Context, h tokenstore.Holder) error
}

// outside is the lock provider of a manager.
type outside struct {
	Outside
	availability
	log *slog.Logger

	mu     sync.Mutex
	asking map[recordKey]int // how many ask for a session
	grants map[grantKey]*granted
}

// recordKey names a session's record.
type recordKey struct {
	db    int
	token string
}

func recordKeyOf(r *tokenstore.Record) recordKey { return recordKey{r.DB, r.Keys()[0]} }

// Use has a lock provider elsewhere grant, before the manager has any owners. The caller closes it, after the manager.
func (m *Manager) Use(o Outside) { m.outside = m.watched(o) }

// UseForSpans is Use for the sessions whose keys are in several slots; the store itself grants the others.
func (m *Manager) UseForSpans(o Outside) { m.spans.outside = m.watched(o) }

func (m *Manager) watched(of Outside) *outside {
	o := &outside{Outside: of, log: m.log, asking: map[recordKey]int{}, grants: map[grantKey]*granted{}}
	o.open()
	m.work.Go(func() { m.watchProvider(o) })
	return o
}

// elsewhere returns the lock provider of a record's session if it is not the store itself, else nil.
func (m *Manager) elsewhere(r *tokenstore.Record) *outside {
	if m.outside == nil && r.Spans {
		return m.spans.outside
	}
	return m.outside
}

// Elsewhere reports whether a lock provider elsewhere grants the session.
func (s *Sequence) Elsewhere() bool { return s.manager.elsewhere(s.Record) != nil }

// Passes reports whether an error says that the provider can't be asked, where commands go through unguarded then.
func (m *Manager) Passes(err error) bool {
	var down *DownError
	return m.outside != nil && m.outside.Pass && errors.As(err, &down)
}

// call makes a call to the provider and tells the observer.
func (o *outside) call(name string, call func() error) error {
	start := time.Now()
	err := call()
	o.called(name, start, err)
	return err
}

func (o *outside) called(name string, start time.Time, err error) {
	if err == nil && (name == "acquire" || name == "check") { // others may be carried out without an answer
		o.alive()
	}
	if o.Observer != nil {
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		o.Observer.ProviderCalled(name, time.Since(start), err)
	}
}

// Asking is a session that is asked for.
type Asking struct {
	// Done is closed when the provider has answered.
	Done   <-chan struct{}
	m      *Manager
	from   *outside
	end    context.CancelFunc
	number int

	mu      sync.Mutex
	dropped bool
	hold    provider.Hold
	err     error
}

// Ask asks the provider for a session; the caller takes the hold when it is there (Take), or drops it. The error is a
// *DownError or *UnfitError.
func (m *Manager) Ask(s *Sequence) (*Asking, error) {
	o := m.elsewhere(s.Record)
	if err := m.Fit(); err != nil {
		return nil, err
	}
	if err := o.Up(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	a := &Asking{m: m, from: o, end: cancel, Done: done}
	key := recordKeyOf(s.Record)
	a.number = o.asks(key, 1)
	request := s.request()
	if !m.detach(func(context.Context) {
		defer cancel()
		start := time.Now()
		h, err := o.Locker.Acquire(ctx, request)
		o.called("acquire", start, err)
		o.asks(key, -1)
		a.answer(h, err)
		close(done)
	}) {
		cancel()
		o.asks(key, -1)
		return nil, &DownError{o.Name, errClosed}
	}
	return a, nil
}

// request is what the sequence asks the provider for.
func (s *Sequence) request() provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder := s.Claim.Client + " of " + s.Claim.Proxy
	if s.Claim.Name != "" {
		holder = s.Claim.Name + ", " + holder
	}
	lease := min(s.Claim.Lease, longestLease)
	if s.outlasts > 0 {
		lease = min(lease, s.outlasts)
	}
	return provider.Request{
		Session: sessionName(s.Record),
		Holder:  oneLine(holder), Lease: lease, Above: s.above,
	}
}

// sessionName names a session for a lock provider elsewhere.
func sessionName(r *tokenstore.Record) string {
	return strconv.Itoa(r.DB) + ":" + r.Rule + ":" + r.Session
}

// longestLease bounds how long a hold outlives its proxy at the provider, however long its owner wants to have it.
const longestLease = 30 * time.Second

func (o *outside) asks(key recordKey, n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asking[key] += n
	if o.asking[key] == 0 {
		delete(o.asking, key)
	}
	return o.asking[key]
}

// Asking returns how many of this proxy's clients ask the provider for a session.
func (m *Manager) Asking(r *tokenstore.Record) int {
	o := m.elsewhere(r)
	if o == nil {
		return 0
	}
	return o.asks(recordKeyOf(r), 0)
}

func (a *Asking) answer(h provider.Hold, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hold, a.err = h, err
	if a.dropped && h != nil {
		a.m.giveBack(a.from, h)
		a.hold = nil
	}
}

// Number is how many asked for the session when this one came, itself included.
func (a *Asking) Number() int { return a.number }

// Take returns the hold, once Done is closed. The error is a *DownError.
func (a *Asking) Take() (provider.Hold, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.hold, a.err
	a.hold = nil
	if err == nil && h.Grant()-1 >= tokenstore.LargestGrant {
		a.m.giveBack(a.from, h)
		err = fmt.Errorf("grant %d is out of range", h.Grant())
	}
	if err != nil {
		a.from.suspect()
		return nil, &DownError{a.from.Name, err}
	}
	return h, nil
}

// Drop asks no more, and gives back what was granted meanwhile.
func (a *Asking) Drop() {
	a.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped = true
	if a.hold != nil {
		a.m.giveBack(a.from, a.hold)
		a.hold = nil
	}
}

// giveBack ends a hold at the provider without the caller waiting for it, and tries that until its lease has ended. Once
// the manager is closed that is left to the provider's own end.
func (m *Manager) giveBack(from *outside, h provider.Hold) {
	m.Detach(func(ctx context.Context) {
		for {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err := from.call("release", func() error { return h.Release(call) })
			cancel()
			if err == nil || !time.Now().Before(h.Until()) {
				return
			}
			m.log.Warn("hold not given back to the lock provider, trying again until its lease ends", "provider", from.Name, "grant", h.Grant(), "error", err)
			if !rest(ctx, giveBackEvery) {
				return
			}
		}
	})
}

// giveBackEvery is the pause before a hold is given back again.
const giveBackEvery = 200 * time.Millisecond

func oneLine(text string) string {
	clean := []byte(text)
	for i, c := range clean {
		if c < ' ' {
			clean[i] = ' '
		}
	}
	return string(clean)
}
