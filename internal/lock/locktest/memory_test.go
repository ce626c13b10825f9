package locktest

import (
	"context"
	"errors"
	"maps"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

var errDown = errors.New("the memory can't be asked")

const memoryLease = 3 * time.Second

// memory is a provider without servers: a line for each session, in this process. Clients poll. It keeps every promise but
// those that its faults break.
type memory struct {
	faults faults
	over   chan struct{} // closed when the test ends: whatever is still on its way returns

	mu       sync.Mutex
	state    serverState
	step     time.Duration // of the server's clock
	lines    map[string]*line
	lastEver uint64
}

type serverState int

const (
	running serverState = iota
	paused
	stopped
)

type line struct {
	last   uint64
	places []*place // the first one holds, or may
}

// place is one Acquire's.
type place struct {
	proxy   *client
	grant   uint64 // 0 while it waits
	lease   time.Duration
	expires time.Time
}

func newMemory(f faults) *memory {
	m := &memory{faults: f, over: make(chan struct{}), lines: map[string]*line{}}
	return m
}

func (m *memory) harness() Harness {
	h := Harness{
		Open:      func(testing.TB) Proxy { return m.open() },
		Servers:   m,
		End:       func(_ testing.TB, session string) { m.end(session) },
		StepClock: func(_ testing.TB, by time.Duration) { m.stepClock(by) },
		Waiting:   func(_ testing.TB, session string) int { return m.waiting(session) },
		Lease:     memoryLease, Gone: memoryLease + time.Second, OwnLeases: true, GoesAbove: true,
	}
	h.KillOne = func(testing.TB) { m.failOver() }
	if m.faults.order != fifo {
		h.Waiting = nil
	}
	if m.faults.lifo {
		h.Waiting = func(_ testing.TB, session string) int { return m.waiting(session) }
	}
	return h
}

func (m *memory) Stop()   { m.enter(stopped) }
func (m *memory) Start()  { m.enter(running) }
func (m *memory) Pause()  { m.enter(paused) }
func (m *memory) Resume() { m.enter(running) }

func (m *memory) enter(s serverState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == stopped && s == running && m.faults.forgetsGrants {
		m.lines, m.lastEver = map[string]*line{}, 0
	}
	m.state = s
}

// failOver is what clients see when a leader dies: for a moment nobody is there.
func (m *memory) failOver() {
	m.Stop()
	time.Sleep(100 * time.Millisecond)
	m.mu.Lock()
	for _, l := range m.lines {
		if m.faults.forgetsLatest {
			l.places, l.last = nil, max(l.last, 2)-2
		}
	}
	m.mu.Unlock()
	if !m.faults.needsAll {
		m.Start()
	}
}

func (m *memory) stepClock(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults.trustsClock {
		m.step += by
	}
}

func (m *memory) now() time.Time { return time.Now().Add(m.step) }

// line is a session's, without those whose lease has ended.
func (m *memory) line(session string) *line {
	l := m.lines[session]
	if l == nil {
		l = &line{}
		m.lines[session] = l
	}
	var standing []*place
	for _, p := range l.places {
		if m.now().Before(p.expires) || m.faults.neverEnds {
			standing = append(standing, p)
		}
	}
	l.places = standing
	return l
}

// ask queues the place if it is not, and grants it if it is the first.
func (m *memory) ask(session string, p *place, above uint64) bool {
	l := m.line(session)
	queued := false
	for _, other := range l.places {
		queued = queued || other == p
	}
	p.expires = m.now().Add(p.lease)
	switch {
	case queued:
	case m.faults.lifo && len(l.places) > 0:
		l.places = append(l.places[:1:1], append([]*place{p}, l.places[1:]...)...)
	default:
		l.places = append(l.places, p)
	}
	first := l.places[0]
	if p != first && !(m.faults.reentrant && first.grant != 0 && first.proxy == p.proxy) && !m.faults.grantsToAll {
		return false
	}
	if p.grant == 0 {
		p.grant = m.next(l, above)
	}
	return true
}

func (m *memory) next(l *line, above uint64) uint64 {
	switch {
	case m.faults.sameGrant && l.last > 0 && l.last%3 == 0:
		return l.last
	case m.faults.grantsShrink:
		return 1<<40 - m.ever()
	case m.faults.grantsTooLarge:
		return 1<<53 + m.ever()
	case m.faults.forgetsSession && len(l.places) == 1:
		l.last = 0
	}
	if m.faults.ignoresAbove {
		above = 0
	}
	l.last = max(l.last, above) + 1
	return l.last
}

func (m *memory) ever() uint64 {
	m.lastEver++
	return m.lastEver
}

func (m *memory) renew(session string, p *place) error {
	l := m.line(session)
	for _, other := range l.places {
		if other == p {
			if !m.faults.renewsNothing {
				p.expires = m.now().Add(p.lease)
			}
			return nil
		}
	}
	return provider.ErrLost
}

func (m *memory) leave(session string, p *place) {
	l := m.line(session)
	if m.faults.releasesByName && p.grant != 0 && len(l.places) > 0 {
		l.places = l.places[1:]
		return
	}
	for i, other := range l.places {
		if other == p && !(i == 0 && p.grant == 0 && m.faults.forgetsCancelledGrant) {
			l.places = append(l.places[:i:i], l.places[i+1:]...)
			return
		}
	}
}

func (m *memory) end(session string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.line(session); len(l.places) > 0 {
		l.places = l.places[1:]
	}
}

func (m *memory) waiting(session string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, len(m.line(session).places)-1)
}

// client is one proxy's Locker, and its network.
type client struct {
	m *memory

	mu          sync.Mutex
	cut, hole   bool
	cuts        int
	connections int
	closed      chan struct{}
	isClosed    bool
	holds       map[*memoryHold]bool
	tasks       sync.WaitGroup
}

func (m *memory) open() Proxy {
	c := &client{m: m, closed: make(chan struct{}), holds: map[*memoryHold]bool{}, connections: 1}
	if m.faults.leaksGoroutine {
		go func() { <-m.over }()
	}
	for m.faults.opensWhenUp && c.call(context.Background(), func() {}) != nil {
		if c.pause(context.Background()) != nil {
			break
		}
	}
	return Proxy{Locker: c, Network: c}
}

func (c *client) Cut()     { c.network(func() { c.cut = true; c.cuts++ }) }
func (c *client) Restore() { c.network(func() { c.cut = false }) }
func (c *client) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connections
}

func (c *client) Blackhole(on bool) { c.network(func() { c.hole = on }) }

func (c *client) network(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// call lets the servers do something. Question and answer take a millisecond each, and either may get lost.
func (c *client) call(ctx context.Context, do func()) error {
	c.mu.Lock()
	cuts := c.cuts
	c.mu.Unlock()
	for done := false; ; {
		if err := c.pause(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		broken, hole := c.cut || c.cuts != cuts, c.hole
		c.mu.Unlock()
		switch {
		case broken:
			return errDown
		case hole:
		case done:
			return nil
		default:
			switch c.m.serve(do) {
			case stopped:
				return errDown
			case running:
				done = true
			}
		}
	}
}

// serve does it if the servers run.
func (m *memory) serve(do func()) serverState {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == running {
		do()
	}
	return m.state
}

func (c *client) pause(ctx context.Context) error { return c.pauseFor(ctx, time.Millisecond) }

func (c *client) pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.m.over:
		return errDown
	case <-time.After(d):
		return nil
	}
}

func (c *client) Check(ctx context.Context) error {
	if c.m.faults.checksNothing {
		return nil
	}
	return c.call(ctx, func() {})
}

func (c *client) Acquire(ctx context.Context, r provider.Request) (provider.Hold, error) {
	if !c.begin() {
		return nil, errors.New("closed")
	}
	defer c.tasks.Done()
	session := c.m.faults.name(r.Session)
	p := &place{proxy: c, lease: r.Lease}
	for wait := time.Millisecond; ; wait = min(2*wait, 5*time.Millisecond) {
		asked := time.Now()
		granted := false
		err := c.call(ctx, func() { granted = c.m.ask(session, p, r.Above) })
		switch {
		case c.closing() && !c.m.faults.waitsAfterClose:
			c.giveBack(session, p)
			return nil, errors.New("closed")
		case granted:
			return c.newHold(session, p, asked), nil
		case errors.Is(err, errDown) && c.m.faults.neverComesBack:
			<-c.m.over
			return nil, err
		}
		if c.m.faults.ignoresContext {
			ctx = context.Background()
		}
		if errors.Is(err, errDown) && c.m.faults.forgetsLostAnswers {
			p = &place{proxy: c, lease: r.Lease}
		}
		if err := c.pauseFor(ctx, wait); err != nil {
			if !c.m.faults.staysInLine {
				c.giveBack(session, p)
			}
			if c.m.faults.hidesContext {
				err = errDown
			}
			return nil, err
		}
	}
}

// begin enters an Acquire; false means that the Locker is closed.
func (c *client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return false
	}
	c.tasks.Add(1)
	return true
}

func (c *client) closing() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// giveBack leaves the line, now or as soon as the servers can be asked.
func (c *client) giveBack(session string, p *place) {
	c.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.lease)
		defer cancel()
		for c.call(ctx, func() { c.m.leave(session, p) }) != nil {
			if c.pause(ctx) != nil {
				return
			}
		}
	})
}

func (c *client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.isClosed
	c.isClosed = true
	holds := maps.Clone(c.holds)
	c.mu.Unlock()
	if again {
		return nil
	}
	close(c.closed)
	if c.m.faults.closeIgnoresContext {
		ctx = context.Background()
	}
	for h := range holds {
		if !c.m.faults.closeKeeps {
			_ = h.Release(ctx)
		}
		h.finish()
	}
	if !c.m.faults.leaksConnection {
		c.network(func() { c.connections = 0 })
	}
	left := make(chan struct{})
	go func() { c.tasks.Wait(); close(left) }()
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type memoryHold struct {
	c       *client
	session string
	place   *place
	grant   uint64
	lost    chan struct{}

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
	over  bool
}

func (c *client) newHold(session string, p *place, asked time.Time) *memoryHold {
	h := &memoryHold{c: c, session: session, place: p, grant: p.grant, lost: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = c.m.faults.count(asked, p.lease).Add(p.lease)
	h.timer = time.AfterFunc(time.Until(h.until), func() {
		if !c.m.faults.seesNoLoss {
			h.lose()
		}
	})
	c.network(func() { c.holds[h] = true })
	return h
}

func (h *memoryHold) Grant() uint64 { return h.grant }

func (h *memoryHold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *memoryHold) Lost() <-chan struct{} { return h.lost }

func (h *memoryHold) Renew(ctx context.Context) error {
	if h.c.m.faults.renewsAlways {
		return nil
	}
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over {
		return provider.ErrLost
	}
	asked := h.c.m.faults.count(time.Now(), h.place.lease)
	var answer error
	if err := h.c.call(ctx, func() { answer = h.c.m.renew(h.session, h.place) }); err != nil {
		return err
	}
	if answer != nil {
		if !h.c.m.faults.seesNoEnd {
			h.lose()
		}
		return answer
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.until = asked.Add(h.place.lease)
		h.timer.Reset(time.Until(h.until))
	}
	return nil
}

func (h *memoryHold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.over, h.until = true, earlier(h.until, time.Now())
		close(h.lost)
	}
}

// finish ends the hold without a loss.
func (h *memoryHold) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	if !h.c.m.faults.forgetsRelease {
		h.over = true
	}
}

func (h *memoryHold) Release(ctx context.Context) error {
	h.finish()
	h.c.network(func() { delete(h.c.holds, h) })
	if h.c.m.faults.keepsReleased {
		return nil
	}
	return h.c.call(ctx, func() { h.c.m.leave(h.session, h.place) })
}

// count is from when on a lease counts.
func (f faults) count(asked time.Time, lease time.Duration) time.Time {
	if f.untilTooLate {
		return asked.Add(2 * lease)
	}
	return asked
}

// name is how the servers call a session.
func (f faults) name(session string) string {
	switch f.names {
	case cutNames:
		return session[:min(len(session), 1<<10)]
	case foldedNames:
		return strings.ToLower(session)
	case cleanNames:
		return path.Clean(session)
	case cNames:
		name, _, _ := strings.Cut(session, "\x00")
		return name
	case validNames:
		return strings.ToValidUTF8(session, "?")
	}
	return session
}
