package lock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Waiting is woken by the hand-over of whoever releases the session (Manager.Woken). In case a
// wake-up is lost, or a holder is gone without a word, the first local waiter of each session asks
// again by and by: one question at a time per session and proxy, however many wait.
const (
	pollFirst = 250 * time.Millisecond
	pollMost  = 2 * time.Second
)

// Waiter is a client's place in line; a client waits for one session at a time.
type Waiter struct {
	id    string
	parks string // its name when it waits at the store
	asks  string // its name now
	m     *Manager
	// C receives the grant when the session was handed over. A stale one may be left from an
	// earlier wait: only the store's answer counts.
	C chan uint64
	// Stuck receives, while parked, when the owner waits for somebody who waits for it: the waiter must give up and leave the
	// line, and then Yield.
	Stuck <-chan tokenstore.Circle

	// While parked:
	sequence *Sequence
	expected tokenstore.Basis
	asking   sync.Mutex // held during a question, so that Unpark sees its answer
	granted  uint64     // by a question
	search   *search    // for circles: the wait's, or the last one's; nil before the first
	unsure   bool       // a question got no answer: it may have been granted all the same

	stood []stood // where it may have got a place, under its present name
}

// waits are the proxy's waiters.
type waits struct {
	mu    sync.Mutex
	byID  map[string]*Waiter
	lines map[string]*line // by record
}

// line is the waiters of one session, in the order in which they came.
type line struct {
	waiters []*Waiter
	timer   *time.Timer
	pause   time.Duration
}

func (w *waits) init() {
	w.byID = map[string]*Waiter{}
	w.lines = map[string]*line{}
}

// Waiter returns a new waiter; the caller closes it.
func (m *Manager) Waiter() *Waiter {
	w := &Waiter{m: m, C: make(chan uint64, 1)}
	w.name()
	return w
}

// name gives the waiter a name that none has had.
func (w *Waiter) name() {
	m := w.m
	w.id = m.id + "." + strconv.FormatUint(m.ids.Add(1), 10)
	w.parks, w.asks = tokenstore.Parks(w.id), w.id
	m.waits.mu.Lock()
	defer m.waits.mu.Unlock()
	m.waits.byID[w.id] = w
}

// ID is the waiter's name in the store's queues, until Rest.
func (w *Waiter) ID() string { return w.asks }

// AtStore says, before the store is asked, where the waiter will wait: at the store, by a command
// that blocks the client's connection there, or here, until C receives.
func (w *Waiter) AtStore(yes bool) {
	if w.asks = w.id; yes {
		w.asks = w.parks
	}
}

// Unsure reports, after Unpark, whether a question may have been granted without an answer.
func (w *Waiter) Unsure() bool { return w.unsure }

// Close ends the waiter.
func (w *Waiter) Close() { w.retire() }

// Clear drops a wake-up left from an earlier wait.
func (w *Waiter) Clear() {
	select {
	case <-w.C:
	default:
	}
}

// Park puts the waiter in line after the store queued it; left is what remains of the holder's
// lease.
func (w *Waiter) Park(s *Sequence, expected tokenstore.Basis, left time.Duration) {
	m := w.m
	w.sequence, w.expected, w.granted, w.unsure = s, expected, 0, false
	w.Stood(s)
	w.untangle(s)
	s.lineUp(true)
	m.waits.mu.Lock()
	defer m.waits.mu.Unlock()
	key := s.Record.Keys()[0] + strconv.Itoa(s.Record.DB)
	l := m.waits.lines[key]
	if l == nil {
		l = &line{pause: pollFirst}
		m.waits.lines[key] = l
	}
	l.waiters = append(l.waiters, w)
	if l.timer == nil {
		l.timer = time.AfterFunc(l.wait(left), func() { m.Detach(func(ctx context.Context) { m.ask(ctx, key) }) })
	}
}

// wait is the time until the next question: backed off with jitter, but no later than the end of
// the holder's lease.
func (l *line) wait(left time.Duration) time.Duration {
	d := l.pause/2 + rand.N(l.pause/2+1)
	l.pause = min(2*l.pause, pollMost)
	if left > 0 && left+time.Millisecond < d {
		d = left + time.Millisecond
	}
	return d
}

// Unpark takes the waiter out of line. A grant other than 0 says that a question found the
// session free and took it: it must be used or given back.
func (w *Waiter) Unpark() (grant uint64) {
	m := w.m
	if w.search != nil {
		w.search.end()
		w.Stuck = nil
	}
	key := w.sequence.Record.Keys()[0] + strconv.Itoa(w.sequence.Record.DB)
	m.waits.mu.Lock()
	if l := m.waits.lines[key]; l != nil {
		for i, x := range l.waiters {
			if x == w {
				l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
				break
			}
		}
		if len(l.waiters) == 0 {
			l.timer.Stop()
			delete(m.waits.lines, key)
		}
	}
	m.waits.mu.Unlock()
	w.sequence.lineUp(false)
	w.asking.Lock()
	defer w.asking.Unlock()
	return w.granted
}

// ask lets the first in line ask the store, and sets the timer for the next question.
func (m *Manager) ask(ctx context.Context, key string) {
	m.waits.mu.Lock()
	l := m.waits.lines[key]
	if l == nil {
		m.waits.mu.Unlock()
		return
	}
	w := l.waiters[0]
	free := w.asking.TryLock()
	m.waits.mu.Unlock()
	var left time.Duration
	if free {
		left = w.question(ctx)
		w.asking.Unlock()
	}

	m.waits.mu.Lock()
	defer m.waits.mu.Unlock()
	if m.waits.lines[key] == l {
		l.timer.Reset(l.wait(left))
	}
}

// question begins again in the waiter's name, which keeps its place in the queue, and returns the
// rest of the holder's lease.
func (w *Waiter) question(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s := w.sequence
	b, err := w.m.provider.Begin(ctx, s.Record, s.Claim, w.asks, w.expected)
	if w.unsure = err != nil; w.unsure {
		return 0
	}
	if b.Granted {
		w.granted = b.Grant
		w.wake(b.Grant)
	}
	return b.LeaseLeft
}

func (w *Waiter) wake(grant uint64) {
	select {
	case w.C <- grant:
	default:
	}
}

// Woken implements tokenstore.Listener.
func (m *Manager) Woken(waiter string, grant uint64) {
	m.waits.mu.Lock()
	w := m.waits.byID[waiter]
	m.waits.mu.Unlock()
	switch {
	case w != nil:
		w.wake(grant)
	case m.names(waiter):
		m.handOn(waiter)
	case (m.outside != nil || m.spans.outside != nil) && m.owns(waiter):
		m.told(waiter, grant)
	}
}

// Subscribed implements tokenstore.Listener: waiters that the store may have dropped while the
// subscription was down take their place again, and it may have started again without what was written last.
func (m *Manager) Subscribed() {
	m.once.Do(func() { close(m.subscribed) })
	m.requeueAll()
	m.clearPlaces()
}

// requeueAll has all waiters take their place in line again: a store that has become another one may not know them.
func (m *Manager) requeueAll() {
	m.waits.mu.Lock()
	var lines [][]*Waiter
	for _, l := range m.waits.lines {
		lines = append(lines, slices.Clone(l.waiters))
	}
	m.waits.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	m.Detach(func(ctx context.Context) {
		inParallel(sweepers, lines, func(line []*Waiter) {
			for _, w := range line { // in their order
				m.requeue(ctx, w)
			}
		})
	})
}

// requeue asks for one waiter if it is still parked.
func (m *Manager) requeue(ctx context.Context, w *Waiter) {
	m.waits.mu.Lock()
	parked := false
	for _, l := range m.waits.lines {
		for _, x := range l.waiters {
			parked = parked || x == w
		}
	}
	if !parked || !w.asking.TryLock() {
		m.waits.mu.Unlock()
		return
	}
	m.waits.mu.Unlock()
	w.question(ctx)
	w.asking.Unlock()
}
