package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// StartError says that a command could not be started.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string { return fmt.Sprintf("run %s: %v", e.Command, e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// NotFound reports whether there is no such command.
func (e *StartError) NotFound() bool {
	return errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, os.ErrNotExist)
}

// child is the command under way, in a process group of its own.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// Find returns a *StartError for a command that is not there.
func Find(command string) error {
	if _, err := exec.LookPath(command); err != nil {
		return &StartError{command, err}
	}
	return nil
}

func start(command []string, variable string) (*child, error) {
	c := &child{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})} //nolint:gosec // the user's own command
	c.cmd.Env = append(os.Environ(), variable)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, &StartError{command[0], err}
	}
	return c, nil
}

// run is the child's goroutine. That the child hears of its parent's death is, to the kernel, about the thread
// which has started it; so that one stays.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // what it says is in ProcessState
	close(c.ended)
}

// end asks the child and what it has started to end, and after the grace makes them.
func (c *child) end(grace time.Duration) {
	c.signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.ended:
	case <-t.C:
	}
	c.signal(os.Kill)
	<-c.ended
}

// status is the child's exit status, once it has ended.
func (c *child) status() int {
	if signal, ok := killedBy(c.cmd.ProcessState); ok {
		return signalStatus(signal)
	}
	return c.cmd.ProcessState.ExitCode()
}

// signalStatus is how a shell reports an end by a signal.
func signalStatus(signal os.Signal) int {
	if n, ok := signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 128
}
