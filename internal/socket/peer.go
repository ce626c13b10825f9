package socket

import "syscall"

// Idle reports whether an idle connection still stands, as far as the kernel knows: nothing has
// come on it, not even its end. A byte that has come is lost.
func (c *Conn) Idle() bool {
	if c.raw == nil { // what comes under TLS may be TLS's own
		return !c.HungUp()
	}
	c.peer.idle = false
	err := c.raw.Control(c.peer.run)
	return err == nil && c.peer.idle
}

// peer is a look at the other side. It is part of the connection as an attempt is.
type peer struct {
	idle bool
	buf  [1]byte
	run  func(fd uintptr)
}

func (p *peer) look(fd uintptr) {
	_, errno := read(fd, p.buf[:])
	p.idle = errno == syscall.EAGAIN
}

// Unread returns how many bytes have come that were not read yet, as far as that can be told.
func (c *Conn) Unread() int {
	if c.under == nil {
		return 0
	}
	n := 0
	_ = c.under.Control(func(fd uintptr) { n = unread(fd) })
	return n
}

// HungUp reports whether the peer has closed its side, though data may be left to read.
func (c *Conn) HungUp() bool {
	if c.under == nil {
		return false
	}
	hup := false
	err := c.under.Control(func(fd uintptr) { hup = hungUp(fd) })
	return err != nil || hup
}
