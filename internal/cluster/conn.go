package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

const (
	// copyMost is up to which length what is sent together is copied into one piece, in bytes.
	copyMost = 4 << 10
	// bufferKept is the largest buffer that is kept, in bytes.
	bufferKept = 64 << 10
	// stashMost is how much a connection reads of replies whose turn has not come, in bytes.
	stashMost = 256 << 10
	// readSize is how much is read at a time, in bytes.
	readSize = 64 << 10
)

// conn is a front's connection to a node. Its router's fields belong to the front's router; those under front.out to who
// holds that.
type conn struct {
	f *front
	n *node
	*socket.Conn
	side bool // for commands that are sent again: see front.recover

	box     outbox // router's
	touched bool   // it has something to be sent
	asked   bool   // who it is, at the node

	// under front.mu
	pending int           // replies to come
	since   time.Time     // of the last sign of life while some are
	subs    subscriptions // that stand there
	left    bool          // its end is no surprise
	stale   bool          // it has state that nobody wants
	told    []byte        // what the node has said of the connection: an upstream.Identity

	// under front.out
	view    []byte // what is read and not yet taken
	stash   []byte // view is its end, if it is not in the reader's buffer
	framer  resp.Framer
	unasked bool // what the framer is in was sent unasked
	buf     *[readSize]byte

	lost atomic.Bool
	done chan struct{}
}

// connect makes a connection to a node, and tells it what the client has said of itself.
func (f *front) connect(n *node) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.c.options.DialTimeout)
	defer cancel()
	nc, err := f.c.options.Dial(ctx, "tcp", n.addr)
	if err != nil {
		return nil, &undialed{n, err}
	}
	c := &conn{f: f, n: n, Conn: socket.New(nc), done: make(chan struct{})}
	if err := f.session.introduce(ctx, c); err != nil {
		_ = nc.Close()
		return nil, err
	}
	n.down.over()
	f.mu.Lock()
	if f.err != nil {
		f.mu.Unlock()
		_ = nc.Close()
		return nil, f.err
	}
	f.conns = append(f.conns, c)
	f.mu.Unlock()
	go c.serve()
	return c, nil
}

// undialed says that a node can't be reached.
type undialed struct {
	n   *node
	err error
}

func (u *undialed) Error() string { return fmt.Sprintf("%s can't be reached: %v", u.n.addr, u.err) }
func (u *undialed) Unwrap() error { return u.err }

// serve takes replies until the connection ends.
func (c *conn) serve() {
	defer close(c.done)
	err := c.Receive((*replies)(c))
	c.lost.Store(true)
	_ = c.Close()
	f := c.f
	f.mu.Lock()
	stands := !c.left && (c.pending > 0 || f.stands(c) || c.n == f.home && f.c.killedLately())
	finishing := f.finishing
	f.mu.Unlock()
	c.n.known.forget() // it may have been restarted
	switch {
	case finishing:
		f.changed()
	case stands:
		f.end(fmt.Errorf("the connection to %s broke: %w", c.n.addr, err))
	}
}

// replies is a connection as a socket.Taker.
type replies conn

// Room implements socket.Taker.
func (r *replies) Room() []byte {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[readSize]byte)
	}
	return r.buf[:]
}

// Rest implements socket.Taker.
func (r *replies) Rest() {
	if r.buf != nil {
		readBuffers.Put(r.buf)
		r.buf = nil
	}
}

// Take implements socket.Taker.
func (r *replies) Take(data []byte) (more bool, err error) {
	c := (*conn)(r)
	f := c.f
	f.out.Lock()
	defer f.unlock()
	stashed := len(c.view) > 0
	if stashed {
		c.restash(data)
	} else {
		c.view = data
	}
	if err := f.deliver(c); err != nil {
		return false, err
	}
	if !stashed {
		c.restash(nil)
	}
	for len(c.view) > stashMost && !f.over() {
		f.crowded++
		f.room.Wait()
		f.crowded--
	}
	return true, nil
}

// restash makes the stash hold what is not taken yet, and more.
func (c *conn) restash(more []byte) {
	if len(c.view) == 0 && len(more) == 0 {
		if c.view = nil; cap(c.stash) > bufferKept {
			c.stash = nil
		}
		return
	}
	// The view is the stash's end, or in another buffer.
	c.stash = append(append(c.stash[:0], c.view...), more...)
	c.view = c.stash
}

// send sends what was put into the outbox. Nobody's end is missed while the node takes nothing.
func (c *conn) send() error {
	c.touched = false
	for _, piece := range c.box.pieces() {
		if err := c.f.write(c.Conn, piece); err != nil {
			return err
		}
	}
	c.box.empty()
	return nil
}

// write writes to a node, and ends when the client does.
func (f *front) write(to *socket.Conn, p []byte) error {
	n, err := to.TryWrite(p)
	if p = p[n:]; err != nil || len(p) == 0 {
		return err
	}
	if n == 0 {
		if _, plain := to.SyscallConn(); plain != nil {
			_, err := to.Write(p) // it can't be tried
			return err
		}
	}
	written := make(chan error, 1)
	go func() {
		_, err := to.Write(p)
		written <- err
	}()
	watch := time.NewTicker(glance)
	defer watch.Stop()
	for {
		select {
		case err := <-written:
			return err
		case <-watch.C:
			if f.pair.HungUp() {
				f.end(errGone)
			}
		}
	}
}

// outbox collects what is sent in one go. What lies one behind the other stays where it is as long as nothing else comes.
type outbox struct {
	list   [][]byte
	copies []byte
	at     int // copies[at:] is the last piece
}

// add adds bytes that stay as they are until empty.
func (o *outbox) add(p []byte) {
	if len(p) == 0 {
		return
	}
	if last := len(o.list) - 1; last >= 0 && o.at == len(o.copies) && adjoin(o.list[last], p) {
		o.list[last] = o.list[last][:len(o.list[last])+len(p)]
		return
	}
	if len(o.list) == 0 && o.at == len(o.copies) || len(p) > copyMost {
		o.close()
		o.list = append(o.list, p)
		return
	}
	if len(o.list) == 1 && o.at == len(o.copies) && len(o.copies) == 0 && len(o.list[0]) <= copyMost {
		o.copies = append(o.copies, o.list[0]...)
		o.list = o.list[:0]
	}
	o.copies = append(o.copies, p...)
}

// adjoin reports whether b lies right behind a, in the same array.
func adjoin(a, b []byte) bool {
	return cap(a) > len(a) && cap(a)-len(a) >= len(b) && &a[:len(a)+1][len(a)] == &b[0]
}

func (o *outbox) close() {
	if o.at < len(o.copies) {
		o.list = append(o.list, o.copies[o.at:len(o.copies):len(o.copies)])
		o.at = len(o.copies)
	}
}

// pieces are what was added.
func (o *outbox) pieces() [][]byte {
	o.close()
	return o.list
}

func (o *outbox) empty() {
	clear(o.list)
	o.list = o.list[:0]
	if cap(o.copies) > bufferKept {
		o.copies = nil
	}
	o.copies, o.at = o.copies[:0], 0
}

var errGone = errors.New("the client has gone")
