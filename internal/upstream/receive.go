package upstream

import (
	"errors"
	"fmt"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// The receiver's side of a connection: each reply goes to where it belongs.

// Serve receives replies until the connection ends, and returns why.
func (c *Conn) Serve() error {
	err := c.receive()
	c.links.ended(!c.closed.Load())
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
	came := c.timedSince()
	for len(data) > 0 {
		used, err := c.reply(data)
		if err != nil {
			return false, err
		}
		data = data[used:]
	}
	err = c.down.Flush()
	c.timedUntil(came)
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
	if x == nil && w.ear == nil && w.confirms == "" {
		return c.pass(data, w)
	}
	if !c.framer.Partial() {
		c.framer.Interposed = x == nil || !x.Subscribes
		switch {
		case x == nil:
			if data[0] == '-' {
				c.failed(data)
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

// failed counts an error reply to a request that was passed.
func (c *Conn) failed(data []byte) {
	c.errors.Add(1)
	c.meter.refused(data)
}

// pass takes the replies to pass on that data begins with downstream, in one piece.
func (c *Conn) pass(data []byte, w awaited) (n int, err error) {
	c.framer.Interposed = true
	whole := 0
	for {
		if !c.framer.Partial() && data[n] == '-' {
			c.failed(data[n:])
		}
		used, done, err := c.framer.Scan(data[n:])
		if err != nil && whole > 0 {
			break // it is said again of the rest
		} else if err != nil {
			return used, fmt.Errorf("the upstream does not speak RESP: %w", err)
		}
		n += used
		if done {
			whole++
		}
		if n == len(data) || whole == max(w.frames, 1) || c.suspect(data[n]) {
			break
		}
	}
	if !w.quiet {
		if _, err := c.down.Write(data[:n]); err != nil {
			return n, err
		}
	}
	if whole == 0 {
		return n, nil
	}
	return n, c.passedOn(whole)
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

// passedOn counts replies that were passed on as arrived does one.
func (c *Conn) passedOn(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.waiting) {
		return nil
	}
	w := &c.waiting[c.head]
	c.answered(n)
	if w.frames -= n; w.frames > 0 {
		return nil
	}
	c.pop()
	return c.locals()
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
		if x.end(c.framer.Type()); c.framer.Type() == '-' {
			c.meter.refused(x.Frame(len(x.ends) - 1))
		}
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
