package upstream

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/silence"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

// ErrLost says that the upstream connection broke before a reply came: what was sent may or may
// not have been carried out.
var ErrLost = errors.New("the connection to the upstream Redis broke")

// Downstream takes the bytes that belong to the client. Write may keep them until Flush and does not
// wait for the client; the receiver calls Flush, which may. Sender and receiver may call it at the same
// time.
type Downstream interface {
	Write(p []byte) (int, error)
	Flush() error
}

// outKept is the largest buffer for requests that is kept, in bytes.
const outKept = 64 << 10

// Conn is one connection to the upstream, serving one downstream. Its sender's methods belong to
// one goroutine, Serve to another.
type Conn struct {
	nc   *socket.Conn
	down Downstream

	// Hidden, if set before Serve, says which channels and keys do not show in messages. It may get
	// the first 64 bytes of one only.
	Hidden func(name []byte) bool
	// Quiet is the sender's: replies to what is sent now are not for the downstream. What comes
	// unasked is.
	Quiet bool
	// Buffers, if set before Serve, lends the receiver its buffers.
	Buffers *Buffers
	// Ear, if set, hears the reply to the request that is appended next: one reply to Pass, or the only one of an
	// exchange. Whoever appends it takes it from here; what is left in it was not appended.
	Ear Ear

	in  *[receiveBuffer]byte // nil while there is nothing to receive
	out []byte               // requests not yet sent
	put [][]byte             // those before the last few: parts of out, and what stays where it is until Flush
	at  int                  // the start of those in out that put has not

	mu      sync.Mutex
	waiting []awaited // replies to come, in order; waiting[head:] are open
	head    int
	err     error
	mode    Mode // changed by the receiver alone
	midst   bool // the client has got a part of what was sent unasked
	owing   bool // the connection broke, and the client will not get all of a reply that it waits for

	limits Limits
	open   int           // requests that wait for a reply
	kept   int           // bytes of the proxy's own replies that wait for their place
	room   chan struct{} // closed when open is down to roomAt; nil if nobody waits for that
	roomAt int

	errors atomic.Int64 // see Errors

	identity silence.Identity // as the server has said

	meter  *Meter                 // nil: nobody counts
	links  *Links                 // of it
	closed atomic.Bool            // by the proxy, or its end was asked for
	timed  atomic.Pointer[timing] // nil: nothing is

	complete []*Exchange // whose senders are to be told
	framer   resp.Framer
	raw      bool
	fate     fate   // of the frame being read
	held     []byte // its start, or all of it
	stray    bool   // nothing was awaited when it began
}

// awaited are replies to come: frames to pass, confirmations, one exchange, one of the proxy's own,
// or all that follows raw.
type awaited struct {
	frames   int
	quiet    bool   // they are not for the downstream
	confirms string // the word of the confirmations; frames is 0 when their number is not known
	exchange *Exchange
	local    []byte
	raw      bool
	ear      Ear // nil if nobody listens
}

// Ear hears a reply as it passes, in parts; done is true for the last one. Lost says that there will be no more.
// The receiver calls it, and must not be held up.
type Ear interface {
	Hear(part []byte, done bool)
	Lost()
}

// ear takes what was set in Ear.
func (c *Conn) ear() Ear {
	ear := c.Ear
	c.Ear = nil
	return ear
}

// NewConn returns a connection over nc, which it closes.
func NewConn(nc net.Conn, down Downstream) *Conn {
	return &Conn{nc: socket.New(nc), down: down}
}

// Close breaks the connection; Serve returns.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return c.nc.Close()
}

// Break ends the connection as the upstream might; Serve returns.
func (c *Conn) Break() { _ = c.nc.Close() }

// CloseWrite tells the upstream that no more requests come. What was sent is answered.
func (c *Conn) CloseWrite() error {
	c.closed.Store(true)
	return c.nc.CloseWrite()
}

// Pass appends a request whose n replies go straight to the downstream.
func (c *Conn) Pass(request []byte, n int) {
	c.out = append(c.out, request...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		c.owing = c.owing || n > 0
		return
	}
	c.open += n
	if c.Ear != nil && n == 1 {
		c.waiting = append(c.waiting, awaited{frames: 1, quiet: c.Quiet, ear: c.ear()})
		return
	}
	if last := len(c.waiting) - 1; last >= c.head && c.waiting[last].mergeable(c.Quiet) {
		c.waiting[last].frames += n
		return
	}
	if n > 0 {
		c.waiting = append(c.waiting, awaited{frames: n, quiet: c.Quiet})
	}
}

// PassInPlace is Pass for requests that stay as they are until Flush: they are not copied.
func (c *Conn) PassInPlace(requests []byte, n int) {
	c.put = append(c.put, c.out[c.at:len(c.out):len(c.out)], requests)
	c.at = len(c.out)
	c.Pass(nil, n)
}

// mergeable reports whether more replies to pass may be counted with these.
func (w *awaited) mergeable(quiet bool) bool {
	return w.frames > 0 && w.confirms == "" && w.quiet == quiet && w.ear == nil
}

// PassConfirmed appends a request that changes subscriptions: n confirmations with this word answer
// it, or one error. n is 0 for UNSUBSCRIBE and its kind without arguments: as many as there are.
func (c *Conn) PassConfirmed(request []byte, word string, n int) {
	c.out = append(c.out, request...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, awaited{frames: n, quiet: c.Quiet, confirms: word})
}

// Mode returns what Redis may send unasked, as of the replies that have come.
func (c *Conn) Mode() Mode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mode
}

// SetMode is for the start, before Serve.
func (c *Conn) SetMode(m Mode) { c.mode = m }

// Drop appends a request of the proxy's own whose n replies nobody wants.
func (c *Conn) Drop(request []byte, n int) {
	x := NewExchange()
	x.Reset(n, -1, false, nil)
	c.Send(x, request)
}

// Local puts a reply of the proxy's own in its place behind those awaited so far. If one of them was
// lost it has no place: the client would take it for that one.
func (c *Conn) Local(reply []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owing {
		return ErrLost
	}
	if c.Quiet {
		return nil
	}
	if c.head == len(c.waiting) && !c.midst {
		_, err := c.down.Write(reply)
		return err
	}
	if err := c.keepLocal(reply); err != nil {
		return err
	}
	c.open++
	c.waiting = append(c.waiting, awaited{local: append([]byte(nil), reply...)})
	return nil
}

// Raw makes everything that comes after the replies awaited so far go downstream unframed.
func (c *Conn) Raw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, awaited{raw: true})
}

// Send appends an exchange's requests; x.Done receives when its replies are in, and all that are
// awaited before them.
func (c *Conn) Send(x *Exchange, requests []byte) {
	c.out = append(c.out, requests...)
	x.quiet = c.Quiet
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		x.fail(c.err)
		return
	}
	if x.Frames == 0 && c.head == len(c.waiting) {
		x.Done <- struct{}{}
		return
	}
	c.open++
	w := awaited{exchange: x}
	if c.Ear != nil && x.Frames == 1 && !x.Open {
		w.ear = c.ear()
	}
	c.waiting = append(c.waiting, w)
}

// Flush sends what was appended in one write.
func (c *Conn) Flush() error {
	if len(c.out) == 0 && len(c.put) == 0 {
		return nil
	}
	err := c.send()
	if cap(c.out) > outKept {
		c.out = nil // a large value passed by
	}
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
}

// send writes what was appended.
func (c *Conn) send() error {
	var err error
	for _, piece := range c.put {
		if err == nil && len(piece) > 0 {
			_, err = c.nc.Write(piece)
		}
	}
	if last := c.out[c.at:]; err == nil && len(last) > 0 {
		_, err = c.nc.Write(last)
	}
	clear(c.put)
	c.put, c.at = c.put[:0], 0
	return err
}

// Outstanding reports whether replies are still to come.
func (c *Conn) Outstanding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > c.head && !c.waiting[c.head].raw
}

// Errors counts the error replies to requests that were passed. While nothing is outstanding, it
// stands still.
func (c *Conn) Errors() int64 { return c.errors.Load() }

// Owes reports, after Serve, whether the client has not got all of a reply that it waits for.
func (c *Conn) Owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owing
}
