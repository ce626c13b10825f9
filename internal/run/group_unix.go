//go:build unix

package run

import (
	"os"
	"syscall"
)

// Passed are the signals that are passed to the command.
func Passed() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// signal signals the child and what it has started: the group, which may outlive its leader.
func (c *child) signal(signal os.Signal) {
	if n, ok := signal.(syscall.Signal); ok {
		_ = syscall.Kill(-c.cmd.Process.Pid, n)
	}
}

func killedBy(state *os.ProcessState) (os.Signal, bool) {
	status, ok := state.Sys().(syscall.WaitStatus)
	return status.Signal(), ok && status.Signaled()
}

// grouped are the attributes of a process group of its own; at a terminal, the one in the foreground, so that
// the command may read from it and hears of Ctrl-C once.
func grouped() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if isTerminal(os.Stdin) {
		a.Foreground, a.Ctty = true, int(os.Stdin.Fd())
	}
	return a
}
