package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// patience is how long something may take that has to come.
const patience = 30 * time.Second

// ample is the lease of holds that must not end by themselves: a hold that a provider forgets to give back stands for longer than anybody waits.
const ample = 30 * time.Minute

// stage is what one sub-test plays on. Its methods fail the test when they can't do their work, and belong to the test's
// goroutine, but for acquire.
type stage struct {
	testing.TB
	h      Harness
	ledger *ledger

	goroutines *family // of its proxies; nil where nobody asks for them
}

func newStage(tb testing.TB, h Harness) *stage {
	tb.Helper()
	s := &stage{TB: tb, h: h, ledger: &ledger{}}
	tb.Cleanup(func() {
		for _, fault := range s.ledger.faults() {
			tb.Error(fault)
		}
	})
	return s
}

// session is a name of the test's own.
func (s *stage) session(parts ...string) string {
	return s.Name() + "/" + strings.Join(parts, "/")
}

// open opens a new proxy, closed when the test ends.
func (s *stage) open() Proxy {
	s.Helper()
	opened := make(chan Proxy, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		opened <- s.h.Open(s)
	}()
	s.await(finished, "a Locker opens, without waiting for its servers")
	select {
	case p := <-opened:
		s.Cleanup(func() {
			p.Network.Restore()
			p.Network.Blackhole(false)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = p.Close(ctx)
		})
		return p
	default: // it has failed the test
		s.FailNow()
		return Proxy{}
	}
}

// restoreServers makes sure that the servers run again when the test ends. Call it after all proxies were opened
// that are to see them run before they close.
func (s *stage) restoreServers() {
	s.Cleanup(func() {
		s.h.Servers.Resume()
		s.h.Servers.Start()
	})
}

// waiting is how many stand in line for a session, where that can be seen.
func (s *stage) waiting(session string) (n int) {
	s.Helper()
	s.goroutines.outside(func() { n = s.h.Waiting(s, session) })
	return n
}

// acquire is Locker.Acquire, with an entry in the ledger. Any goroutine may call it.
func (s *stage) acquire(ctx context.Context, p Proxy, r provider.Request) (*held, error) {
	called := time.Now()
	if r.Holder == "" {
		r.Holder = "a test of the suite"
	}
	hold, err := p.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	if hold == nil {
		return nil, errors.New("neither a hold nor an error came back")
	}
	return &held{Hold: hold, s: s, entry: s.ledger.enter(r.Session, hold, called)}, nil
}

// take takes a session that is free, or will be soon.
func (s *stage) take(p Proxy, session string) *held {
	s.Helper()
	return s.begin(p, session).granted()
}

// takeAtLast takes a session although the provider may not be there yet.
func (s *stage) takeAtLast(p Proxy, r provider.Request) *held {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.h.Gone+patience)
	defer cancel()
	for {
		h, err := s.acquire(ctx, p, r)
		if err == nil {
			return h
		}
		if ctx.Err() != nil {
			s.Fatalf("session %.40q is not granted within %v: %v", r.Session, s.h.Gone+patience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// lease is a request whose hold is to end soon if its proxy is gone.
func (s *stage) lease(session string) provider.Request {
	return provider.Request{Session: session, Lease: s.h.Lease}
}

// kept is a request whose hold is to stand.
func kept(session string) provider.Request {
	return provider.Request{Session: session, Lease: ample}
}

// await waits for a channel to close.
func (s *stage) await(done <-chan struct{}, what string) {
	s.Helper()
	select {
	case <-done:
	case <-time.After(s.h.Gone + patience):
		s.Fatalf("not within %v: %s", s.h.Gone+patience, what)
	}
}

// eventually polls until the condition holds.
func (s *stage) eventually(what string, condition func() bool) {
	s.Helper()
	for end := time.Now().Add(s.h.Gone + patience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not within %v: %s", s.h.Gone+patience, what)
		}
	}
}

// all runs n players at once, and fails the test with what they return.
func (s *stage) all(n int, play func(i int) error) {
	s.Helper()
	results := make(chan error, n)
	for i := range n {
		go func() { results <- play(i) }()
	}
	deadline := time.After(s.h.Gone + 2*patience)
	for i := range n {
		select {
		case err := <-results:
			if err != nil {
				s.Error(err)
			}
		case <-deadline:
			s.Fatalf("%d of %d have not come to an end within %v", n-i, n, s.h.Gone+2*patience)
		}
	}
}

// brief is a context for one question to the provider.
func brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// held is a hold that the ledger knows.
type held struct {
	provider.Hold
	s     *stage
	entry *entry
}

// giveBack releases the hold. Any goroutine may call it.
func (h *held) giveBack() error {
	h.entry.end()
	ctx, cancel := brief()
	defer cancel()
	if err := h.Release(ctx); err != nil {
		return fmt.Errorf("release grant %d: %w", h.Grant(), err)
	}
	return nil
}

// release releases the hold.
func (h *held) release() {
	h.s.Helper()
	if err := h.giveBack(); err != nil {
		h.s.Fatal(err)
	}
}

// renew is Hold.Renew, in time.
func (h *held) renew() error {
	ctx, cancel := brief()
	defer cancel()
	return h.Renew(ctx)
}

// stands fails the test unless the provider says that the hold stands.
func (h *held) stands(when string) {
	h.s.Helper()
	if err := h.renew(); err != nil {
		h.s.Fatalf("grant %d does not stand %s: %v", h.Grant(), when, err)
	}
	if h.lost() {
		h.s.Fatalf("grant %d counts as lost %s", h.Grant(), when)
	}
}

// isLost waits for the news that the hold is over, and fails the test if it does not come.
func (h *held) isLost(when string) {
	h.s.Helper()
	h.s.await(h.Lost(), "the loss of a hold is seen "+when)
	h.entry.end()
	h.isOver(when)
}

// isOver fails the test unless the hold is over.
func (h *held) isOver(when string) {
	h.s.Helper()
	if err := h.renew(); !errors.Is(err, provider.ErrLost) {
		h.s.Fatalf("Renew of a hold that is over %s: %v; want ErrLost", when, err)
	}
}

// isEndedAtTheServers ends the hold as an operator would, and fails the test unless its owner is told when it renews.
func (h *held) isEndedAtTheServers() {
	h.s.Helper()
	h.entry.end() // an operator may do that
	h.s.goroutines.outside(func() { h.s.h.End(h.s, h.entry.session) })
	h.s.eventually("Renew says that the hold was ended at the servers", func() bool {
		return errors.Is(h.renew(), provider.ErrLost)
	})
	if !h.lost() {
		h.s.Fatal("Renew says that the hold is over, and Lost is open")
	}
}

// isKnown fails the test unless the provider says at last whether the hold stands.
func (h *held) isKnown() {
	h.s.Helper()
	h.s.eventually("a hold stands or is over", func() bool {
		err := h.renew()
		return err == nil || errors.Is(err, provider.ErrLost)
	})
}

func (h *held) lost() bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}
