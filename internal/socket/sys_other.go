//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

// read reads from a non-blocking socket.
func read(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.Read, fd, p) }

// write writes to a non-blocking socket.
func write(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.Write, fd, p) }

// vectorMost is how many pieces are written together.
const vectorMost = 64

// vector writes several pieces.
type vector struct{}

// write writes to a non-blocking socket, and returns how many bytes it took.
func (*vector) write(fd uintptr, pieces [][]byte) (n int, errno syscall.Errno) {
	for _, p := range pieces {
		took, errno := write(fd, p)
		if n += took; errno != 0 || took < len(p) {
			return n, errno
		}
	}
	return n, 0
}

// hungUp reports whether the peer has closed its side, as far as can be seen: not behind data.
func hungUp(fd uintptr) bool {
	var buf [1]byte
	n, _, err := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK)
	return err == nil && n == 0
}

func call(f func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := f(int(fd), p)
		var errno syscall.Errno
		if errors.As(err, &errno); errno != syscall.EINTR {
			return max(n, 0), errno
		}
	}
}

// unread is not known here.
func unread(uintptr) int { return 0 }
