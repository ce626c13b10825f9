package socket

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// Conn is a connection with one reader and one writer at a time, each of them any goroutine.
// Deadlines and Close work as with any net.Conn.
type Conn struct {
	net.Conn
	raw syscall.RawConn // nil: not a plain socket
	// under is the socket that is looked at only: raw, or the one that TLS runs over.
	under syscall.RawConn

	read  attempt
	write attempt
	loop  loop

	writeOnce func(fd uintptr) bool

	traffic *place // nil: nobody counts
}

// attempt is a read or a write in progress. It is part of the connection since a function that is
// made anew for each call would be garbage.
type attempt struct {
	buf   []byte
	n     int
	errno syscall.Errno
	run   func(fd uintptr) bool
}

// New returns nc as a Conn, which takes it over.
func New(nc net.Conn) *Conn {
	c := &Conn{Conn: nc}
	if plain, ok := nc.(syscall.Conn); ok {
		if raw, err := plain.SyscallConn(); err == nil {
			c.raw, c.under = raw, raw
		}
	} else if covered, ok := nc.(interface{ NetConn() net.Conn }); ok {
		if plain, ok := covered.NetConn().(syscall.Conn); ok {
			c.under, _ = plain.SyscallConn()
		}
	}
	c.read.run = c.tryRead
	c.write.run = c.tryWrite
	c.writeOnce = func(fd uintptr) bool { c.tryWrite(fd); return true }
	c.loop.run = c.tryLoop
	return c
}

// SyscallConn implements syscall.Conn. The error is errors.ErrUnsupported if the connection is not
// a plain socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if c.raw == nil {
		return nil, syscall.ENOTSUP
	}
	return c.raw, nil
}

// CloseWrite closes the half that is written to. The error is errors.ErrUnsupported where there are no halves.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		n, err := c.Conn.Read(p)
		c.received(n)
		return n, err
	}
	c.read.buf = p
	err := c.raw.Read(c.read.run)
	n, err := c.read.end(err)
	c.received(n)
	return n, err
}

// tryRead reports false when there is nothing to read yet.
func (c *Conn) tryRead(fd uintptr) bool {
	r := &c.read
	r.n, r.errno = read(fd, r.buf)
	return r.errno != syscall.EAGAIN
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		n, err := c.Conn.Write(p)
		c.sent(n)
		return n, err
	}
	w := &c.write
	w.buf, w.n = p, 0
	err := c.raw.Write(w.run)
	n := w.n
	w.buf = nil
	c.sent(n)
	if err == nil && w.errno != 0 {
		err = w.errno
	}
	return n, err
}

// tryWrite reports false when the socket takes no more for now.
func (c *Conn) tryWrite(fd uintptr) bool {
	w := &c.write
	for w.n < len(w.buf) {
		var n int
		n, w.errno = write(fd, w.buf[w.n:])
		if w.errno != 0 {
			return w.errno != syscall.EAGAIN
		}
		w.n += n
	}
	return true
}

// end returns what a read has come to.
func (r *attempt) end(err error) (int, error) {
	n, errno := r.n, r.errno
	r.buf = nil
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// TryWrite writes what the socket takes at once, and returns how much that was. It is nothing where
// there is no plain socket.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if c.raw == nil || len(p) == 0 {
		return 0, nil
	}
	w := &c.write
	w.buf, w.n = p, 0
	err := c.raw.Write(c.writeOnce)
	n := w.n
	w.buf = nil
	c.sent(n)
	if err == nil && w.errno != 0 && w.errno != syscall.EAGAIN {
		err = w.errno
	}
	return n, err
}
