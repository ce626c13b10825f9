package cluster

import (
	"net"
	"os"
	"syscall"
)

// pair returns the two ends of a connection within this process.
func pair() (near *net.UnixConn, far net.Conn, err error) {
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
	if err != nil {
		_ = syscall.Close(fds[1])
		return nil, nil, err
	}
	other, err := connOver(fds[1])
	if err != nil {
		_ = near.Close()
		return nil, nil, err
	}
	return near, other, nil
}

func connOver(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "pair")
	defer file.Close() // the connection has a descriptor of its own
	nc, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return nc.(*net.UnixConn), nil
}
