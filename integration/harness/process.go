package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Process is one child of the test binary, in a process group of its own. It ends with
// the test that started it.
type Process struct {
	tb   testing.TB
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed by run when the child has been reaped
}

// launch starts the command and arranges its end.
func launch(tb testing.TB, name string, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{tb: tb, name: name, cmd: cmd, gone: make(chan struct{})}
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the output open
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	tb.Cleanup(p.Kill)
	return p
}

// run is the process's goroutine. "Kill the child when its parent dies" means the
// parent *thread* to the kernel, so the goroutine keeps its thread until the
// child has gone.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // its news is in ProcessState
	close(p.gone)
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Pause freezes the process and returns once it has stopped.
func (p *Process) Pause() {
	p.tb.Helper()
	p.signal(syscall.SIGSTOP)
	Eventually(p.tb, 0, func() bool { return p.exited() || stopped(p.Pid()) }, p.name+" has stopped")
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.tb.Helper()
	p.signal(syscall.SIGCONT)
}

// Terminate asks the process to end (SIGTERM) and does not wait for it.
func (p *Process) Terminate() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
}

// Hangup asks the process to read its configuration again (SIGHUP) and does not wait for it.
func (p *Process) Hangup() {
	p.tb.Helper()
	p.signal(syscall.SIGHUP)
}

// Kill ends the process and whatever it started (SIGKILL), frozen or not, and
// returns once it is gone. Killing a process that has ended is fine.
func (p *Process) Kill() {
	p.tb.Helper()
	// The group, too, when its leader has ended: it may have left children. Nobody
	// else has its number while it has members, and without any this does nothing.
	_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	p.await()
}

// Wait waits for the process to end and returns its exit code, or -1 when a
// signal ended it.
func (p *Process) Wait() int {
	p.tb.Helper()
	p.await()
	return p.cmd.ProcessState.ExitCode()
}

func (p *Process) await() {
	p.tb.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.tb.Fatalf("%s (pid %d) has not ended after %v", p.name, p.Pid(), patience)
	}
}

func (p *Process) exited() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *Process) signal(sig syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Fatalf("send %v to %s: %v", sig, p.name, err)
	}
}

// fate says how the process is, for failure messages.
func (p *Process) fate() string {
	if !p.exited() {
		return "is running"
	}
	return fmt.Sprintf("has ended (%v)", p.cmd.ProcessState)
}
