package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// read reads from a non-blocking socket.
func read(fd uintptr, p []byte) (int, syscall.Errno) {
	return call(syscall.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// write writes to a non-blocking socket.
func write(fd uintptr, p []byte) (int, syscall.Errno) {
	return call(syscall.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// vectorMost is how many pieces go into one system call.
const vectorMost = 64

// vector writes several pieces in one system call.
type vector struct{ pieces []unix.Iovec }

// write writes to a non-blocking socket at most vectorMost pieces, and returns how many bytes it took.
func (v *vector) write(fd uintptr, pieces [][]byte) (int, syscall.Errno) {
	if len(pieces) == 1 {
		return write(fd, pieces[0])
	}
	v.pieces = v.pieces[:0]
	for _, p := range pieces {
		iov := unix.Iovec{Base: unsafe.SliceData(p)}
		iov.SetLen(len(p))
		v.pieces = append(v.pieces, iov)
	}
	defer clear(v.pieces)
	return call(syscall.SYS_WRITEV, fd, unsafe.Pointer(unsafe.SliceData(v.pieces)), len(v.pieces))
}

// call makes a system call that doesn't block without a word to the scheduler.
func call(trap, fd uintptr, p unsafe.Pointer, n int) (int, syscall.Errno) {
	for {
		done, _, errno := syscall.RawSyscall(trap, fd, uintptr(p), uintptr(n))
		switch errno {
		case 0:
			return int(done), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// unread returns how many bytes have come on a socket. Like a read, it does without a word to the scheduler, whose thread for
// watching blocked calls would be woken each time.
func unread(fd uintptr) int {
	var n int32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, unix.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// hungUp reports whether the peer has closed its side.
func hungUp(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
