package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// locker is a lock provider in memory: first come first served, with grants that grow.
type locker struct {
	mu       sync.Mutex
	last     uint64 // grant of any session
	sessions map[string]*lockedSession
	asked    []provider.Request
	down     bool // it says that it can't be asked
	silent   bool // it answers nothing
	given    []*lockerHold
}

type lockedSession struct {
	hold *lockerHold
	line []*place
}

type place struct {
	request provider.Request
	granted chan *lockerHold
}

// lockerHold is a hold of a locker.
type lockerHold struct {
	l       *locker
	session string
	grant   uint64
	who     string
	lease   time.Duration
	lost    chan struct{}

	// Under the locker's mu:
	until    time.Time
	timer    *time.Timer
	over     bool // at the locker
	told     bool // lost is closed
	released int
	renewed  int
}

func newLocker() *locker { return &locker{sessions: map[string]*lockedSession{}} }

// fails says what is asked from now on: nothing (silent), or what it says that it can't do (down).
func (l *locker) fails(down, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down, l.silent = down, silent
}

// reach is a question's way to the locker. It is called without mu.
func (l *locker) reach(ctx context.Context) error {
	l.mu.Lock()
	down, silent := l.down, l.silent
	l.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return errDown
	}
	return ctx.Err()
}

func (l *locker) Check(ctx context.Context) error { return l.reach(ctx) }

func (l *locker) Close(context.Context) error { return nil }

func (l *locker) Acquire(ctx context.Context, r provider.Request) (provider.Hold, error) {
	if err := l.reach(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.asked = append(l.asked, r)
	s := l.at(r.Session)
	if s.hold == nil && len(s.line) == 0 {
		defer l.mu.Unlock()
		return l.grant(s, r), nil
	}
	p := &place{r, make(chan *lockerHold, 1)}
	s.line = append(s.line, p)
	l.mu.Unlock()
	select {
	case h := <-p.granted:
		return h, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.line = slices.DeleteFunc(s.line, func(other *place) bool { return other == p })
	select {
	case h := <-p.granted:
		l.end(h)
	default:
	}
	return nil, ctx.Err()
}

func (l *locker) at(session string) *lockedSession {
	if l.sessions[session] == nil {
		l.sessions[session] = &lockedSession{}
	}
	return l.sessions[session]
}

// grant gives a session to who asks. Called with mu held.
func (l *locker) grant(s *lockedSession, r provider.Request) *lockerHold {
	l.last++
	h := &lockerHold{l: l, session: r.Session, grant: l.last, who: r.Holder, lease: r.Lease, lost: make(chan struct{}), until: time.Now().Add(r.Lease)}
	h.timer = time.AfterFunc(r.Lease, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !h.over && !time.Now().Before(h.until) {
			l.end(h)
			h.tell()
		}
	})
	s.hold = h
	l.given = append(l.given, h)
	return h
}

// end ends a hold and gives the session to the next. Called with mu held.
func (l *locker) end(h *lockerHold) {
	if h.over {
		return
	}
	h.over = true
	h.timer.Stop()
	s := l.at(h.session)
	s.hold = nil
	if len(s.line) > 0 {
		next := s.line[0]
		s.line = s.line[1:]
		next.granted <- l.grant(s, next.request)
	}
}

func (h *lockerHold) tell() {
	if !h.told {
		h.told = true
		close(h.lost)
	}
}

func (h *lockerHold) Grant() uint64         { return h.grant }
func (h *lockerHold) Lost() <-chan struct{} { return h.lost }

func (h *lockerHold) Until() time.Time {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	return h.until
}

func (h *lockerHold) Renew(ctx context.Context) error {
	sent := time.Now()
	if err := h.l.reach(ctx); err != nil {
		return err
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.renewed++
	if h.over {
		h.tell()
		return provider.ErrLost
	}
	h.until = sent.Add(h.lease)
	h.timer.Reset(h.lease)
	return nil
}

func (h *lockerHold) Release(ctx context.Context) error {
	if err := h.l.reach(ctx); err != nil {
		return err
	}
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	h.released++
	h.l.end(h)
	return nil
}

// holds reports whether somebody holds a session at the locker.
func (l *locker) holds(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(session).hold != nil
}

// lapse ends a session's hold at the locker; quiet: its holder does not hear of it.
func (l *locker) lapse(session string, quiet bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.at(session).hold; h != nil {
		l.end(h)
		if !quiet {
			h.tell()
		}
	}
}

// holder is whom the locker shows as a session's holder.
func (l *locker) holder(session string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.at(session).hold; h != nil {
		return h.who
	}
	return ""
}

// reset loses all that the locker knows: it counts anew.
func (l *locker) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		if h := s.hold; h != nil {
			l.end(h)
		}
	}
	l.last = 0
}

// stop ends the locker's timers.
func (l *locker) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.given {
		h.timer.Stop()
	}
}
