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

	mu    sync.Mutex
	out   []byte  // requests of the calls that wait
	calls []*Call // in order
	led   bool    // somebody leads
	spare []byte
	ready []*Call

	// Of the leader, who changes nc with mu held so that Close can break it:
	nc     *socket.Conn
	closed bool
	made   bool // once, or tried to
	in     []byte
	framer resp.Framer
	batch  batch
	take   func(data []byte) (more bool, err error) // receive
}

// Call is a client's commands on a shared connection. It may be used again once Do has returned.
type Call struct {
	Requests []byte
	Frames   int    // how many replies they get
	Replies  []byte // the replies as they came; after an error those that are whole

	over bool // its replies were too much, and the rest is not kept
	err  error
	wake chan bool // true: lead
}

// outMost bounds the buffer of requests that is kept for the next ones, in bytes.
const outMost = 16 << 20

// NewCall returns a call.
func NewCall() *Call { return &Call{wake: make(chan bool, 1)} }

// NewShared returns a shared connection that dials when it is first used.
func NewShared(dial func(context.Context) (net.Conn, error), clients *atomic.Int64) *Shared {
	s := &Shared{dial: dial, clients: clients, in: make([]byte, 16*receiveBuffer)}
	s.take = s.receive
	return s
}

// Do carries out a call. The error says that the connection broke: the call may or may not have
// been carried out, in part too. After ErrTooMuch it was carried out.
func (s *Shared) Do(c *Call) error {
	c.Replies, c.over, c.err = c.Replies[:0], false, nil
	s.mu.Lock()
	s.out = append(s.out, c.Requests...)
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
	out, calls := s.out, s.calls
	s.out, s.calls = s.spare[:0], s.ready[:0]
	s.mu.Unlock()

	err := s.exchange(out, calls, own)
	if err != nil {
		s.drop()
	}
	if cap(out) > outMost || cap(out) > 16*receiveBuffer && len(out) < cap(out)/32 {
		out = nil // a burst has passed
	}

	s.mu.Lock()
	s.spare, s.ready = out, calls
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
func (s *Shared) exchange(out []byte, calls []*Call, own *Call) error {
	s.batch = batch{calls: calls, own: own, kept: s.kept, frames: calls[0].Frames}
	err := s.carry(out)
	s.batch.end(err)
	return err
}

func (s *Shared) carry(out []byte) error {
	if s.nc != nil && !s.nc.Idle() {
		s.drop()
	}
	if s.nc == nil {
		if err := s.connect(); err != nil {
			return err
		}
	}
	if err := s.nc.Exchange(out, s.in, s.take); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// receive takes what has come from the upstream to its calls.
func (s *Shared) receive(data []byte) (more bool, err error) {
	for len(data) > 0 {
		used, done, err := s.framer.Scan(data)
		if err != nil {
			return false, fmt.Errorf("it does not speak RESP: %w", err)
		}
		if s.batch.complete(data[:used], done) {
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
	return nil
}

// drop takes the connection down; the next call makes another.
func (s *Shared) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nc != nil {
		_ = s.nc.Close()
		s.nc = nil
	}
	s.framer.Reset()
}

// Close breaks the connection for good: calls under way, and all that come, fail.
func (s *Shared) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.nc != nil {
		_ = s.nc.Close()
	}
}
