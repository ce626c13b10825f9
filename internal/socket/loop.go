package socket

import (
	"errors"
	"io"
	"syscall"
)

// ErrStale says that something has come on an idle connection, be it its end: nothing was sent. A byte that had come is lost.
var ErrStale = errors.New("something has come unasked")

// Taker takes what arrives. Its methods are called in turn, by one goroutine.
type Taker interface {
	// Room is where to read to next. It is not empty.
	Room() []byte
	// Take gets what was read: the start of the room. It says whether more is wanted.
	Take(data []byte) (more bool, err error)
	// Rest says that nothing is there to be read: the room is not used before the next Room.
	Rest()
}

// loop is a Receive or an Exchange in progress.
type loop struct {
	requests [][]byte // to be sent first
	to       Taker
	err      error
	unasked  [1]byte
	vector   vector
	run      func(fd uintptr) bool
}

// Receive hands what arrives to a taker, until that wants no more, or the error that it returns.
func (c *Conn) Receive(to Taker) error { return c.Exchange(nil, to) }

// Exchange sends requests and receives the answer as Receive does. Where something has come without a request the error is
// [ErrStale]: the connection is of no use.
func (c *Conn) Exchange(requests [][]byte, to Taker) error {
	if c.raw == nil {
		return c.exchange(requests, to)
	}
	l := &c.loop
	l.requests, l.to, l.err = requests, to, nil
	err := c.raw.Read(l.run)
	l.requests, l.to = nil, nil
	to.Rest()
	if err == nil {
		err = l.err
	}
	return err
}

// tryLoop reports false when it waits for data. From the start of the loop on the poller keeps in mind that something has come. What
// had come before it may have forgotten; so that is looked for first, and behind a request there is no need to try.
func (c *Conn) tryLoop(fd uintptr) bool {
	l := &c.loop
	if l.requests != nil {
		if _, errno := read(fd, l.unasked[:]); errno != syscall.EAGAIN {
			l.err = ErrStale
			return true
		}
		sent, err := c.send(fd, l.requests)
		l.requests = nil
		if err != nil {
			l.err = err
			return true
		}
		if sent {
			return false
		}
	}
	for {
		buf := l.to.Room()
		n, errno := read(fd, buf)
		switch {
		case errno == syscall.EAGAIN:
			l.to.Rest()
			return false
		case errno != 0:
			l.err = errno
			return true
		case n == 0:
			l.err = io.EOF
			return true
		}
		c.received(n)
		more, err := l.to.Take(buf[:n])
		if err != nil || !more {
			l.err = err
			return true
		}
		// Read on, even after less than a buffer: the end may have come with the data.
	}
}

// send writes requests, and reports whether the socket took them at once.
func (c *Conn) send(fd uintptr, requests [][]byte) (atOnce bool, err error) {
	sent := 0
	for done := 0; done < len(requests); {
		group := requests[done:min(done+vectorMost, len(requests))]
		var errno syscall.Errno
		if sent, errno = c.loop.vector.write(fd, group); errno != 0 && errno != syscall.EAGAIN {
			return false, errno
		}
		c.sent(sent)
		for len(group) > 0 && sent >= len(group[0]) {
			sent -= len(group[0])
			group = group[1:]
			done++
		}
		if len(group) > 0 {
			return false, c.writeAll(requests[done:], sent)
		}
	}
	return true, nil
}

// writeAll writes what the socket did not take at once: all but the first skip bytes.
func (c *Conn) writeAll(requests [][]byte, skip int) error {
	for _, r := range requests {
		if _, err := c.Write(r[skip:]); err != nil {
			return err
		}
		skip = 0
	}
	return nil
}

// exchange is Exchange where there is no plain socket. What comes under TLS may be TLS's own: the end alone is looked for. Should it
// come later, the read finds it.
func (c *Conn) exchange(requests [][]byte, to Taker) error {
	defer to.Rest()
	if requests != nil && c.HungUp() {
		return ErrStale
	}
	for _, r := range requests {
		if len(r) == 0 {
			continue
		}
		if _, err := c.Write(r); err != nil {
			return err
		}
	}
	for {
		buf := to.Room()
		n, err := c.Conn.Read(buf)
		c.received(n)
		if n > 0 {
			more, err := to.Take(buf[:n])
			if err != nil || !more {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
