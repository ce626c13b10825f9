package upstream

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Shared is one upstream connection that carries the commands of many clients, those which leave
// no state behind. There is no goroutine of its own: of the clients that come at the same time one
// leads. It lets the others join, sends everything in one write, takes the replies to whom they
// belong, and hands the lead to one that has come meanwhile. A client that is alone writes and
// reads by itself, without waking anybody.
type Shared struct {
	dial func(context.Context) (net.Conn, error)
	// clients is the number of clients that may come: a lone one need not wait for others.
	clients *atomic.Int64

	mu    sync.Mutex
	out   []byte  // requests of the calls that wait
	calls []*Call // in order
	led   bool    // somebody leads
	spare []byte
	ready []*Call

	// Of the leader, who changes nc with mu held so that Close can break it:
	nc     net.Conn
	closed bool
	in     []byte
	framer resp.Framer
}

// Call is a client's commands on a shared connection. It may be used again once Do has returned.
type Call struct {
	Requests []byte
	Frames   int    // how many replies they get
	Replies  []byte // the replies as they came; after an error those that are whole

	err  error
	wake chan bool // true: lead
}

// NewCall returns a call.
func NewCall() *Call { return &Call{wake: make(chan bool, 1)} }

// NewShared returns a shared connection that dials when it is first used.
func NewShared(dial func(context.Context) (net.Conn, error), clients *atomic.Int64) *Shared {
	return &Shared{dial: dial, clients: clients, in: make([]byte, 4*receiveBuffer)}
}

// Do carries out a call. The error says that the connection broke: the call may or may not have
// been carried out, in part too.
func (s *Shared) Do(c *Call) error {
	c.Replies, c.err = c.Replies[:0], nil
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
	if cap(out) > 16*receiveBuffer {
		out = nil
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

// exchange sends the requests and takes the replies to their calls, each as it is complete. On an
// error, the calls that are not complete get it.
func (s *Shared) exchange(out []byte, calls []*Call, own *Call) (err error) {
	i, whole := 0, 0 // the call whose replies come, and how many bytes of whole ones it has
	defer func() {
		if err != nil && i < len(calls) {
			calls[i].Replies = calls[i].Replies[:whole]
		}
		for _, c := range calls[i:] {
			c.err = err
			if c != own {
				c.wake <- false
			}
		}
		clear(calls)
	}()
	if s.nc != nil && !alive(s.nc) {
		s.drop()
	}
	if s.nc == nil {
		if err = s.connect(); err != nil {
			return err
		}
	}
	if _, err = s.nc.Write(out); err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	frames := calls[0].Frames
	for {
		n, err := s.nc.Read(s.in)
		for data := s.in[:n]; len(data) > 0; {
			used, done, err := s.framer.Scan(data)
			if err != nil {
				return fmt.Errorf("%w: it does not speak RESP: %w", ErrLost, err)
			}
			c := calls[i]
			c.Replies = append(c.Replies, data[:used]...)
			data = data[used:]
			if !done {
				continue
			}
			whole = len(c.Replies)
			if frames--; frames > 0 {
				continue
			}
			whole = 0
			if c != own {
				c.wake <- false
			}
			if i++; i == len(calls) {
				if len(data) > 0 {
					return fmt.Errorf("%w: it spoke unasked", ErrLost)
				}
				return nil
			}
			frames = calls[i].Frames
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
}

// connect makes the connection.
func (s *Shared) connect() error {
	nc, err := s.dial(context.Background())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return net.ErrClosed
	}
	s.nc = nc
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
