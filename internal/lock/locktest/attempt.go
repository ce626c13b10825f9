package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// attempt is an Acquire that is on its way.
type attempt struct {
	s       *stage
	session string
	cancel  context.CancelFunc
	done    chan struct{} // closed when hold and err are set
	hold    *held
	err     error
}

// begin starts to take a session, for as long as the test lasts.
func (s *stage) begin(p Proxy, session string) *attempt {
	return s.beginWith(p, kept(session))
}

func (s *stage) beginWith(p Proxy, r provider.Request) *attempt {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempt{s: s, session: r.Session, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = s.acquire(ctx, p, r)
	}()
	s.Cleanup(func() {
		cancel()
		select {
		case <-a.done:
		case <-time.After(patience):
			s.Errorf("Acquire of %.40q does not end with its context", r.Session)
		}
	})
	return a
}

// beginInLine starts to take a session that is held, and returns once the attempt is the n-th in line, where that can be seen.
func (s *stage) beginInLine(p Proxy, session string, n int) *attempt {
	s.Helper()
	a := s.begin(p, session)
	if s.h.Waiting == nil {
		time.Sleep(100 * time.Millisecond) // it may be in line by now; every verdict stands if it is not
		return a
	}
	s.eventually("a waiter is in line", func() bool { return a.over() || s.waiting(session) >= n })
	return a
}

func (a *attempt) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// granted waits for the hold.
func (a *attempt) granted() *held {
	a.s.Helper()
	a.s.await(a.done, "a session is granted")
	if a.err != nil {
		a.s.Fatalf("acquire %.40q: %v", a.session, a.err)
	}
	return a.hold
}

// givesUp cancels the attempt, and fails the test unless it then ends without a hold. It may have been granted before.
func (a *attempt) givesUp() {
	a.s.Helper()
	a.cancel()
	a.s.await(a.done, "a cancelled Acquire returns")
	switch {
	case a.err == nil:
		a.hold.release()
	case !errors.Is(a.err, context.Canceled):
		a.s.Fatalf("a cancelled Acquire returns %v, which is not its context's error", a.err)
	}
}

// fails waits for an error.
func (a *attempt) fails(why string) {
	a.s.Helper()
	a.s.await(a.done, "Acquire returns "+why)
	if a.err == nil {
		a.s.Fatalf("%.40q was granted %s", a.session, why)
	}
}
