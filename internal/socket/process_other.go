//go:build !linux

package socket

// Process returns the process at the other end of a unix socket, 0 where it can't be told.
func (c *Conn) Process() int { return 0 }
