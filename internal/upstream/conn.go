package upstream

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/resp"
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
func (c *Conn) Close() error { return c.nc.Close() }

// CloseWrite tells the upstream that no more requests come. What was sent is answered.
func (c *Conn) CloseWrite() error { return c.nc.CloseWrite() }

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
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	if cap(c.out) > outKept {
		c.out = nil // a large value passed by
	}
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil
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

// Serve receives replies until the connection ends, and returns why.
func (c *Conn) Serve() error {
	err := c.receive()
	c.signal()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = ErrLost
	if errors.Is(err, ErrTooMuch) {
		c.err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	c.lose(c.waiting[c.head:])
	c.waiting, c.head = nil, 0
	c.answered(c.open)
	return err
}

// lose ends what is still awaited. A reply of the proxy's own still goes downstream as long as the
// client has got every reply before it, in full or not at all.
func (c *Conn) lose(open []awaited) {
	c.owing = c.midst
	for _, w := range open {
		if w.ear != nil {
			w.ear.Lost()
		}
		switch {
		case w.exchange != nil:
			c.owing = c.owing || w.exchange.owes()
			w.exchange.fail(c.err)
		case w.local == nil:
			c.owing = true
		case !c.owing:
			_, _ = c.down.Write(w.local)
		}
	}
}

func (x *Exchange) fail(err error) {
	x.Err = err
	x.Done <- struct{}{}
}

func (c *Conn) receive() error {
	if c.Buffers == nil {
		c.Buffers = new(Buffers)
	}
	return c.nc.Receive((*receiver)(c))
}

// receiver is a connection as a socket.Taker.
type receiver Conn

// Room implements socket.Taker.
func (r *receiver) Room() []byte {
	if r.in == nil {
		r.in = r.Buffers.get()
	}
	return r.in[:]
}

// Rest implements socket.Taker.
func (r *receiver) Rest() {
	if r.in != nil {
		r.Buffers.put(r.in)
		r.in = nil
	}
}

// Take implements socket.Taker.
func (r *receiver) Take(data []byte) (more bool, err error) {
	c := (*Conn)(r)
	for len(data) > 0 {
		used, err := c.reply(data)
		if err != nil {
			return false, err
		}
		data = data[used:]
	}
	err = c.down.Flush()
	c.signal()
	return true, err
}

// reply takes the start of data to where it belongs and returns how much that was: at most one
// frame.
func (c *Conn) reply(data []byte) (n int, err error) {
	if !c.raw {
		c.raw = c.awaited().raw
	}
	if c.raw {
		return c.down.Write(data)
	}
	if c.fate == aReply && !c.framer.Partial() {
		switch w := c.awaited(); {
		case w.exchange != nil && w.exchange.inHeader():
		case c.suspect(data[0]):
			c.fate, c.stray = undecided, w.nobody()
		case w.nobody():
			c.fate = passed
		}
	}
	if c.fate != aReply {
		return c.unasked(data)
	}
	return c.take(data)
}

// take takes the start of data, a part of a reply, to where it belongs and returns how much that
// was.
func (c *Conn) take(data []byte) (n int, err error) {
	w := c.awaited()
	x := w.exchange
	if !c.framer.Partial() {
		c.framer.Interposed = x == nil || !x.Subscribes
		switch {
		case x == nil:
			if data[0] == '-' {
				c.errors.Add(1)
			}
		case x.atExec():
			return c.exec(x, data)
		default:
			if header := x.begin(data[0]); header != nil && !x.quiet {
				if _, err := c.down.Write(header); err != nil {
					return 0, err
				}
			}
		}
	}
	n, done, err := c.framer.Scan(data)
	if err != nil {
		return n, fmt.Errorf("the upstream does not speak RESP: %w", err)
	}
	switch {
	case w.quiet, x != nil && x.streaming() && x.quiet:
	case x == nil || x.streaming():
		if _, err := c.down.Write(data[:n]); err != nil {
			return n, err
		}
	default:
		x.keep(data[:n])
		if c.limits.Kept > 0 && len(x.kept) > c.limits.Kept {
			return n, ErrTooMuch
		}
	}
	if w.ear != nil {
		w.ear.Hear(data[:n], done)
	}
	if done {
		return n, c.arrived(x)
	}
	return n, nil
}

// exec takes an EXEC's array apart. Anything else in its place is a reply to keep.
func (c *Conn) exec(x *Exchange, data []byte) (n int, err error) {
	n, complete := x.opens(data)
	if !complete || x.Opened {
		return n, nil
	}
	_, done, err := c.framer.Scan(x.header)
	if err != nil {
		return n, fmt.Errorf("the upstream does not speak RESP: %w", err)
	}
	x.keep(x.header)
	x.header = x.header[:0]
	x.Open = false
	if done {
		return n, c.arrived(x)
	}
	return n, nil
}

// awaited returns what comes next; nothing when the upstream speaks unasked, as when it closes.
func (c *Conn) awaited() awaited {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.waiting) {
		return awaited{}
	}
	return c.waiting[c.head]
}

// nobody reports whether nothing is awaited.
func (w *awaited) nobody() bool {
	return w.frames == 0 && w.confirms == "" && w.exchange == nil && w.local == nil && !w.raw
}

// arrived counts a reply, and takes those of the proxy's own that stood behind it downstream.
func (c *Conn) arrived(x *Exchange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.waiting) {
		return nil
	}
	w := &c.waiting[c.head]
	if x == nil {
		if w.confirms == "" {
			c.answered(1)
		}
		if w.frames--; w.frames > 0 && w.confirms == "" { // an error stands for all confirmations
			return nil
		}
	} else {
		if other := x.other(); other != nil {
			return c.other(other, x.quiet)
		}
		x.end(c.framer.Type())
		if !x.complete() {
			return nil
		}
		if x.After != nil {
			x.After(&c.mode)
		}
		c.answered(1)
	}
	c.pop()
	if err := c.locals(); err != nil {
		return err
	}
	if x != nil {
		c.complete = append(c.complete, x)
	}
	return nil
}

// other takes downstream what came before a nonce; who is quiet hears of messages and subscriptions only.
func (c *Conn) other(frame []byte, quiet bool) error {
	if v, _, err := resp.ParseValue(frame); err == nil {
		c.mode.confirmation(v)
	}
	if quiet && !IsMessage(frame) {
		return nil
	}
	_, err := c.down.Write(frame)
	return err
}

// signal tells the sender of exchanges that are complete: only now, since the client should not
// wait while the sender wakes up.
func (c *Conn) signal() {
	for i, x := range c.complete {
		c.complete[i] = nil
		x.Done <- struct{}{}
	}
	c.complete = c.complete[:0]
}

// locals takes the replies of the proxy's own whose place has come downstream, and ends the
// exchanges that only waited for their turn.
func (c *Conn) locals() error {
	for c.head < len(c.waiting) {
		switch w := &c.waiting[c.head]; {
		case w.local != nil:
			if _, err := c.down.Write(w.local); err != nil {
				return err
			}
			c.kept -= len(w.local) + placeCost
		case w.exchange != nil && w.exchange.Frames == 0:
			c.complete = append(c.complete, w.exchange)
		default:
			return nil
		}
		c.answered(1)
		c.pop()
	}
	return nil
}

// pop takes the first of the replies awaited out of the queue.
func (c *Conn) pop() {
	c.waiting[c.head] = awaited{}
	if c.head++; c.head == len(c.waiting) {
		c.waiting, c.head = modest(c.waiting), 0
	} else if c.head >= 64 && c.head*2 > len(c.waiting) {
		n := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[n:])
		c.waiting, c.head = c.waiting[:n], 0
	}
}
