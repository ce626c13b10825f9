package socket

import "syscall"

// Idle reports whether an idle connection still stands, as far as the kernel knows: nothing has
// come on it, not even its end. A byte that has come is lost.
func (c *Conn) Idle() bool {
	if c.raw == nil {
		return true
	}
	idle := false
	var buf [1]byte
	err := c.raw.Control(func(fd uintptr) {
		_, errno := read(fd, buf[:])
		idle = errno == syscall.EAGAIN
	})
	return err == nil && idle
}

// HungUp reports whether the peer has closed its side, though data may be left to read.
func (c *Conn) HungUp() bool {
	if c.raw == nil {
		return false
	}
	hup := false
	err := c.raw.Control(func(fd uintptr) { hup = hungUp(fd) })
	return err != nil || hup
}
