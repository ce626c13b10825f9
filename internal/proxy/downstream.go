package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/socket"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

const (
	// downstreamBuffer is how many bytes of replies are collected before they are sent.
	downstreamBuffer = 16 << 10
	// direct is from which length on what is written is not collected, in bytes: a call costs less than a copy.
	direct = 8 << 10
	// piece is the most that is written to a client at a time, so that its progress shows.
	piece = 1 << 20
)

// downstream collects replies to a client and sends them. The receiver of the upstream and the
// client's own goroutine both write to it, whole replies at a time or in turn (upstream.Conn orders them).
//
// The client's own goroutine never waits for the client to take its replies: a client may well send
// all it has to say before it listens, and would never begin if it were not read. What the socket does
// not take at once is kept, and a goroutine sends it (drain). The receiver waits for that, so that
// replies pile up in Redis and not here, unless the client's own goroutine waits for the receiver.
type downstream struct {
	nc   *socket.Conn
	most int // bytes that are kept; 0 is no limit

	mu      sync.Mutex
	changed sync.Cond // writing has ended, or hurried begun
	buf     []byte    // to be sent
	writing bool      // drain is at work
	hurried bool      // the receiver is waited for
	err     error     // of a write: nothing is sent any more

	draining sync.WaitGroup
	progress atomic.Uint64 // grows at the start and the end of each write of drain: odd within one
}

// open makes d ready to write to nc.
func (d *downstream) open(nc *socket.Conn, most int) {
	d.nc, d.most = nc, most
	d.changed.L = &d.mu
}

// Write implements upstream.Downstream. It does not wait for the client. The error is
// upstream.ErrTooMuch when too much would have to be kept.
func (d *downstream) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.err != nil:
		return 0, d.err
	case !d.writing && (len(p) >= direct || len(d.buf)+len(p) > 2*downstreamBuffer):
		return len(p), d.push(p)
	case d.writing && d.most > 0 && len(d.buf)+len(p) > d.most:
		return 0, upstream.ErrTooMuch
	}
	d.buf = append(d.buf, p...)
	return len(p), nil
}

// Flush implements upstream.Downstream. It waits until the client has taken everything, unless
// somebody waits for the caller.
func (d *downstream) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.push(nil); err != nil {
		return err
	}
	for d.writing && !d.hurried {
		d.changed.Wait()
	}
	return d.err
}

// Push sends what was collected, and does not wait for the client.
func (d *downstream) Push() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.push(nil)
}

// hurry says whether somebody waits for the receiver.
func (d *downstream) hurry(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hurried = on; on && d.writing {
		d.changed.Broadcast()
	}
}

// push sends what was collected and then p, as far as the socket takes it at once, and leaves the
// rest to drain. Called with mu held.
func (d *downstream) push(p []byte) error {
	if d.writing || d.err != nil || len(d.buf)+len(p) == 0 {
		return d.err
	}
	n, err := d.nc.TryWrite(d.buf)
	rest := d.buf[n:]
	if err == nil && len(rest) == 0 && len(p) > 0 {
		n, err = d.nc.TryWrite(p)
		p = p[n:]
	}
	if err != nil {
		d.fail(err)
		return err
	}
	if len(rest)+len(p) == 0 {
		d.buf = d.buf[:0]
		return nil
	}
	d.buf = append(d.buf[:copy(d.buf, rest)], p...)
	d.writing = true
	d.draining.Go(d.drain)
	return nil
}

// drain sends what is kept until nothing is left.
func (d *downstream) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var sent []byte
	for len(d.buf) > 0 && d.err == nil {
		sent, d.buf = d.buf, sent[:0]
		d.mu.Unlock()
		err := d.send(sent)
		d.mu.Lock()
		if cap(sent) > 4*downstreamBuffer {
			sent = nil
		}
		if err != nil {
			d.fail(err)
		}
	}
	d.writing = false
	d.changed.Broadcast()
}

func (d *downstream) send(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), piece)
		d.progress.Add(1)
		_, err := d.nc.Write(p[:n])
		d.progress.Add(1)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// failed reports whether nothing is sent any more.
func (d *downstream) failed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err != nil
}

// kept is how much waits for the client, in bytes.
func (d *downstream) kept() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.buf)
}

// fail ends the sending. Called with mu held.
func (d *downstream) fail(err error) { d.err, d.buf = err, nil }

// close sends what is left, and waits until that has come to an end: nc must have a deadline for writes, or
// be closed.
func (d *downstream) close() {
	_ = d.Flush()
	d.draining.Wait()
}

// behind reports whether the client is being waited for.
func (d *downstream) behind() bool { return d.progress.Load()%2 == 1 }
