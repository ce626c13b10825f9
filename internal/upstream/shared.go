package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

// ErrSpent says that a shared connection is not made anew: nothing was sent.
var ErrSpent = errors.New("the shared connection has ended")

// Shared is one upstream connection that carries the commands of many clients, those which leave
// no state behind. There is no goroutine of its own: of the clients that come at the same time one
// leads. It lets the others join, sends everything in one write, takes the replies to whom they
// belong, and hands the lead to one that has come meanwhile. A client that is alone writes and
// reads by itself, without waking anybody.
type Shared struct {
	dial func(context.Context) (net.Conn, error)
	kept int // bytes of a call's replies that are kept; 0 is no limit
	// clients is the number of clients that may come: a lone one need not wait for others.
	clients *atomic.Int64
	// Once, if set before the first call, says that the connection is made once: when it has ended, or could not be
	// made, calls get ErrSpent.
	Once bool

	meter *Meter // nil: nobody counts

	mu    sync.Mutex
	calls []*Call // that wait, in order
	led   bool    // somebody leads
	ready []*Call

	// Of the leader, who changes nc with mu held so that Close can break it:
	nc     *socket.Conn
	closed bool
	made   bool // once, or tried to
	out    outbox
	in     inbox
	framer resp.Framer
	batch  batch
}

// NewShared returns a shared connection that dials when it is first used.
func NewShared(dial func(context.Context) (net.Conn, error), clients *atomic.Int64) *Shared {
	return &Shared{dial: dial, clients: clients}
}

// Do carries out a call. The error says that the connection broke: the call may or may not have
// been carried out, in part too. After ErrTooMuch it was carried out.
func (s *Shared) Do(c *Call) error {
	c.Release()
	c.over, c.err = false, nil
	s.mu.Lock()
	s.calls = append(s.calls, c)
	led := s.led
	s.led = true
	s.mu.Unlock()
	if led && !<-c.wake {
		return c.err
	}
	s.lead(c)
	return c.err
}

// lead carries out all calls that wait, the leader's own among them.
func (s *Shared) lead(own *Call) {
	if s.clients.Load() > 1 {
		runtime.Gosched()
	}
	s.mu.Lock()
	calls := s.calls
	s.calls = s.ready[:0]
	s.mu.Unlock()

	if err := s.exchange(calls, own); err != nil {
		s.drop()
	}

	s.mu.Lock()
	s.ready = calls
	var next *Call
	if len(s.calls) > 0 {
		next = s.calls[0]
	} else {
		s.led = false
	}
	s.mu.Unlock()
	if next != nil {
		next.wake <- true
	}
}

// exchange sends the requests and takes the replies to their calls. On an error, the calls that
// are not complete get it.
func (s *Shared) exchange(calls []*Call, own *Call) error {
	s.batch = batch{calls: calls, own: own, kept: s.kept, frames: calls[0].Frames}
	err := s.carry(s.out.gather(calls))
	s.out.empty()
	s.batch.end(err)
	s.in.rest()
	return err
}

// carry makes the exchange, over another connection if the one that there is has ended meanwhile.
func (s *Shared) carry(requests [][]byte) error {
	if s.nc != nil {
		err := s.send(requests)
		if !errors.Is(err, socket.ErrStale) {
			return err
		}
		s.drop()
	}
	if err := s.connect(); err != nil {
		return err
	}
	return s.send(requests)
}

// send sends requests and takes their replies.
func (s *Shared) send(requests [][]byte) error {
	s.batch.send()
	if err := s.nc.Exchange(requests, (*sharedTaker)(s)); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// sharedTaker is the leader as a socket.Taker.
type sharedTaker Shared

// Room implements socket.Taker.
func (s *sharedTaker) Room() []byte { return s.in.room() }

// Rest implements socket.Taker.
func (*sharedTaker) Rest() {}

// Take takes what has come from the upstream to its calls.
func (s *sharedTaker) Take(data []byte) (more bool, err error) {
	for len(data) > 0 {
		if !s.framer.Partial() && data[0] == '-' {
			s.meter.refused(data)
		}
		used, done, err := s.framer.Scan(data)
		if err != nil {
			return false, fmt.Errorf("it does not speak RESP: %w", err)
		}
		if s.batch.complete(s.in.take(used), done) {
			if used < len(data) {
				return false, errors.New("it spoke unasked")
			}
			return false, nil
		}
		data = data[used:]
	}
	return true, nil
}

// connect makes the connection.
func (s *Shared) connect() error {
	if s.Once && s.made {
		return ErrSpent
	}
	s.made = true
	nc, err := s.dial(context.Background())
	switch {
	case err != nil && s.Once:
		return fmt.Errorf("%w: %w", ErrSpent, err)
	case err != nil:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return net.ErrClosed
	}
	s.nc = socket.New(nc)
	if s.meter != nil {
		s.nc.Count(&s.meter.Bytes)
		s.meter.Shared.made()
	}
	return nil
}

// drop takes the connection down; the next call makes another.
func (s *Shared) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nc != nil {
		s.ended(true)
		_ = s.nc.Close()
		s.nc = nil
	}
	s.framer.Reset()
}

// Close breaks the connection for good: calls under way, and all that come, fail.
func (s *Shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nc != nil {
		s.ended(false)
		_ = s.nc.Close()
	}
	s.closed = true
}

// ended counts the end of the connection, once. Called with mu held.
func (s *Shared) ended(lost bool) {
	if s.meter != nil && !s.closed {
		s.meter.Shared.ended(lost)
	}
}
