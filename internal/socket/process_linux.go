package socket

import "golang.org/x/sys/unix"

// Process returns the process at the other end of a unix socket, 0 where it can't be told.
func (c *Conn) Process() int {
	if c.raw == nil {
		return 0
	}
	pid := 0
	_ = c.raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
