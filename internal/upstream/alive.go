package upstream

import (
	"net"
	"syscall"
)

// alive reports whether an idle connection still stands, as far as the kernel knows: nothing has
// come on it, not even its end.
func alive(nc net.Conn) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	idle := false
	var buf [1]byte
	err = raw.Read(func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), buf[:])
		idle = err == syscall.EAGAIN
		return true
	})
	return err == nil && idle
}
