package lock

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// callTimeout bounds one call to the provider that no client waits for.
const callTimeout = 2 * time.Second

// Manager is one proxy's part in the locking: its owners, their sequences and its waiters. It is
// a tokenstore.Listener.
type Manager struct {
	id       string
	provider Provider
	log      *slog.Logger

	holds   atomic.Int64  // sequences that are Held
	changed chan struct{} // holds went down to zero, or may have
	ids     atomic.Uint64

	subscribed chan struct{} // closed when the wake-up subscription first stands
	once       sync.Once

	waits   waits
	places  places
	learner learner
	sink    event.Sink // nil: nobody listens
	events  sync.Pool  // of those that it is shown
	recent  recent
	spans   spans
	lately  lately
	owed    owed
	outside *outside                   // nil: the store itself grants
	unfit   atomic.Pointer[UnfitError] // why nothing may be acquired

	mu     sync.Mutex
	owners map[*Owner]struct{}
	closed bool

	ctx     context.Context // ends when Close gives up
	cancel  context.CancelFunc
	closes  context.Context // ends when Close begins
	close   context.CancelFunc
	closing <-chan struct{} // its Done
	work    sync.WaitGroup
}

// NewManager returns a manager. id is unique among all proxies of one store and names the proxy's
// wake-up channel; it has no dots or line breaks.
func NewManager(id string, p Provider, log *slog.Logger) *Manager {
	m := &Manager{
		id: id, provider: p, log: log,
		changed: make(chan struct{}, 1), subscribed: make(chan struct{}),
		owners: map[*Owner]struct{}{},
	}
	m.events.New = func() any { return new(event.Event) }
	m.waits.init()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.closes, m.close = context.WithCancel(m.ctx)
	m.closing = m.closes.Done()
	return m
}

// Owner returns a new owner with a name of its own.
func (m *Manager) Owner(id tokenstore.Identity) *Owner {
	o := &Owner{
		ID: m.id + ":" + strconv.FormatUint(m.ids.Add(1), 36), manager: m, identity: id,
		claims: map[*rule.Rule]*tokenstore.Claim{}, sequences: map[sequenceKey]*Sequence{},
	}
	m.mu.Lock()
	m.owners[o] = struct{}{}
	m.mu.Unlock()
	return o
}

func (m *Manager) forget(o *Owner) {
	m.mu.Lock()
	delete(m.owners, o)
	m.mu.Unlock()
}

// everybody returns the owners that there are.
func (m *Manager) everybody() []*Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.owners))
}

// Holds returns the number of open holds.
func (m *Manager) Holds() int { return int(m.holds.Load()) }

// open counts a hold that opens (1) or ends (-1).
func (m *Manager) open(n int64) {
	if m.holds.Add(n) == 0 {
		select {
		case m.changed <- struct{}{}:
		default:
		}
	}
}

// Drained waits until no hold is open, or ctx ends.
func (m *Manager) Drained(ctx context.Context) error {
	for m.Holds() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.changed:
		}
	}
	return nil
}

// Ready waits until wake-ups can be received, or ctx ends.
func (m *Manager) Ready(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-m.subscribed:
		return nil
	}
}

// Detach runs f for a client that is no longer there to wait for it.
func (m *Manager) Detach(f func(context.Context)) { m.detach(f) }

// detach is Detach, and reports false if the manager is closed.
func (m *Manager) detach(f func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Go(func() { f(m.ctx) })
	return true
}

// Close releases every hold and waits until that is done, or until ctx ends.
func (m *Manager) Close(ctx context.Context) {
	for _, o := range m.everybody() {
		o.Close()
	}
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.close()
	stop := context.AfterFunc(ctx, m.cancel)
	m.work.Wait()
	stop()
	m.cancel()
}
