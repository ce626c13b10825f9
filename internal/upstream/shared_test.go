package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// echo answers each line with itself, over as many connections as come, until the test ends.
// "die" ends a connection without an answer, "half" after the start of one.
type echo struct {
	net.Listener
	dialled atomic.Int64
	mu      sync.Mutex
	conns   []net.Conn
	serving sync.WaitGroup
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l}
	e.serving.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, nc)
			e.mu.Unlock()
			e.serving.Go(func() { e.serve(nc) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		e.closeAll()
		e.serving.Wait()
	})
	return e
}

func (e *echo) serve(nc net.Conn) {
	defer nc.Close()
	for in := bufio.NewScanner(nc); in.Scan(); {
		switch in.Text() {
		case "die":
			return
		case "half":
			_, _ = nc.Write([]byte("$10\r\nhal"))
			return
		}
		if _, err := fmt.Fprintf(nc, "+%s\r\n", in.Text()); err != nil {
			return
		}
	}
}

// closeAll ends all connections.
func (e *echo) closeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, nc := range e.conns {
		_ = nc.Close()
	}
	e.conns = nil
}

func (e *echo) shared(t *testing.T, clients int64) *Shared {
	t.Helper()
	n := new(atomic.Int64)
	n.Store(clients)
	s := NewShared(func(ctx context.Context) (net.Conn, error) {
		e.dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "tcp", e.Addr().String())
	}, n)
	t.Cleanup(s.Close)
	return s
}

// say is a call of some lines.
func say(s *Shared, lines ...string) (string, error) {
	c := NewCall()
	for _, line := range lines {
		c.Requests = append(c.Requests, line+"\n"...)
		c.Frames++
	}
	err := s.Do(c)
	return string(c.Replies), err
}

func TestClientsOfASharedConnectionGetTheirOwnRepliesInOrder(t *testing.T) {
	e := newEcho(t)
	s := e.shared(t, 50)
	var clients sync.WaitGroup
	for client := range 50 {
		clients.Go(func() {
			for i := range 200 {
				a, b := fmt.Sprintf("%d.%d.a", client, i), fmt.Sprintf("%d.%d.b", client, i)
				got, err := say(s, a, b)
				if want := "+" + a + "\r\n+" + b + "\r\n"; got != want || err != nil {
					t.Errorf("got %q (%v), want %q", got, err, want)
					return
				}
			}
		})
	}
	clients.Wait()
	if n := e.dialled.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

func TestALossIsToldToThoseWhoWaitedAndToNobodyElse(t *testing.T) {
	for _, last := range []string{"die", "half"} {
		t.Run(last, func(t *testing.T) {
			s := newEcho(t).shared(t, 1)
			if got, err := say(s, "before"); got != "+before\r\n" || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
			if got, err := say(s, "one", last, "two"); got != "+one\r\n" || !errors.Is(err, ErrLost) {
				t.Errorf("the connection broke, and the client got %q, %v, want the one reply that is whole", got, err)
			}
			if got, err := say(s, "after"); got != "+after\r\n" || err != nil {
				t.Errorf("over the next connection came %q, %v", got, err)
			}
		})
	}
}

func TestAConnectionThatEndedWhileIdleIsReplacedBeforeAnythingIsSent(t *testing.T) {
	e := newEcho(t)
	s := e.shared(t, 1)
	for i := range 5 {
		if got, err := say(s, "x"); got != "+x\r\n" || err != nil {
			t.Fatalf("call %d: %q, %v", i, got, err)
		}
		e.closeAll()
		for !s.nc.HungUp() { // until the end has arrived
		}
	}
	if n := e.dialled.Load(); n != 5 {
		t.Errorf("%d connections were made, want 5", n)
	}
}

func TestWhenNoConnectionCanBeMadeEveryCallIsTold(t *testing.T) {
	refused := errors.New("refused")
	clients := new(atomic.Int64)
	clients.Store(2)
	s := NewShared(func(context.Context) (net.Conn, error) { return nil, refused }, clients)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if _, err := say(s, "x"); !errors.Is(err, refused) {
				t.Errorf("got %v", err)
			}
		})
	}
	calls.Wait()
}

func TestACallThatIsUsedAgainAllocatesNothing(t *testing.T) {
	s := newEcho(t).shared(t, 1)
	c := NewCall()
	request := []byte("x\n")
	call := func() {
		c.Requests, c.Frames = append(c.Requests[:0], request...), 1
		if err := s.Do(c); err != nil {
			t.Fatal(err)
		}
	}
	call()
	// The other side runs in this process and allocates, so this is a bound, not a count.
	if n := testing.AllocsPerRun(1000, call); n > 4 {
		t.Errorf("%v allocations", n)
	}
}
