package run

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes makes the kernel end the command when fence-proxy is killed: nobody renews its hold then.
func attributes() *syscall.SysProcAttr {
	a := grouped()
	a.Pdeathsig = syscall.SIGTERM
	return a
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
