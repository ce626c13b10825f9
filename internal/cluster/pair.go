package cluster

import (
	"net"
	"os"
	"syscall"
)

// pair returns the two ends of a connection within this process.
func pair() (near, far net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	near, err = connOver(fds[0])
	far, other := connOver(fds[1])
	if err == nil {
		err = other
	}
	if err != nil {
		for _, end := range []net.Conn{near, far} {
			if end != nil {
				_ = end.Close()
			}
		}
		return nil, nil, err
	}
	return near, far, nil
}

func connOver(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "pair")
	defer file.Close() // the connection has a descriptor of its own
	return net.FileConn(file)
}
