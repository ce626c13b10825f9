package socket

import (
	"io"
	"syscall"
)

// loop is a Receive or an Exchange in progress.
type loop struct {
	request []byte // to be sent first
	buf     []byte
	take    func(data []byte) (more bool, err error)
	err     error
	run     func(fd uintptr) bool
}

// Receive hands what arrives to take, until take wants no more, or the error that it returns. The
// data are in buf and are take's until it returns.
func (c *Conn) Receive(buf []byte, take func(data []byte) (more bool, err error)) error {
	return c.Exchange(nil, buf, take)
}

// Exchange sends a request and receives the answer as Receive does. Nothing may be on its way here
// before the request is sent: what comes without one is only seen with what comes later.
func (c *Conn) Exchange(request, buf []byte, take func(data []byte) (more bool, err error)) error {
	if c.raw == nil {
		return c.exchange(request, buf, take)
	}
	l := &c.loop
	l.request, l.buf, l.take, l.err = request, buf, take, nil
	err := c.raw.Read(l.run)
	l.request, l.buf, l.take = nil, nil, nil
	if err == nil {
		err = l.err
	}
	return err
}

// tryLoop reports false when it waits for data. From the start of the loop on the poller keeps in
// mind that data have come: behind a request there is no need to try whether some are there.
func (c *Conn) tryLoop(fd uintptr) bool {
	l := &c.loop
	if l.request != nil {
		sent, err := c.send(fd, l.request)
		l.request = nil
		if err != nil {
			l.err = err
			return true
		}
		if sent {
			return false
		}
	}
	for {
		n, errno := read(fd, l.buf)
		switch {
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			l.err = errno
			return true
		case n == 0:
			l.err = io.EOF
			return true
		}
		more, err := l.take(l.buf[:n])
		if err != nil || !more {
			l.err = err
			return true
		}
		// Read on, even after less than a buffer: the end may have come with the data.
	}
}

// send writes a request, and reports whether the socket took it at once.
func (c *Conn) send(fd uintptr, request []byte) (atOnce bool, err error) {
	n, errno := write(fd, request)
	switch {
	case errno == syscall.EAGAIN:
	case errno != 0:
		return false, errno
	case n == len(request):
		return true, nil
	}
	_, err = c.Write(request[n:])
	return false, err
}

// exchange is Exchange where there is no plain socket.
func (c *Conn) exchange(request, buf []byte, take func(data []byte) (more bool, err error)) error {
	if len(request) > 0 {
		if _, err := c.Conn.Write(request); err != nil {
			return err
		}
	}
	for {
		n, err := c.Conn.Read(buf)
		if n > 0 {
			more, err := take(buf[:n])
			if err != nil || !more {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
