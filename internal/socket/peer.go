package socket

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
