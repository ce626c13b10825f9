package harness

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// StartServer starts a program that is to serve a "host:port" or the path of a unix socket, and
// waits until it accepts connections. What it prints is shown when the test fails.
func StartServer(tb testing.TB, addr string, cmd *exec.Cmd) *Process {
	tb.Helper()
	name, log := filepath.Base(cmd.Path), &Transcript{}
	cmd.Stdout, cmd.Stderr = log, log
	logIfFailed(tb, name+" "+addr, log)
	p := launch(tb, name, cmd)
	if !poll(patience, func() bool { return p.exited() || accepts(addr) }) || p.exited() {
		tb.Fatalf("%s does not accept connections at %s and %s", name, addr, p.fate())
	}
	return p
}

// StartProgram starts a program and does not wait for anything. Its standard error is shown when the test fails.
func StartProgram(tb testing.TB, name string, cmd *exec.Cmd) *Process {
	tb.Helper()
	log := &Transcript{}
	cmd.Stderr = log
	logIfFailed(tb, name, log)
	return launch(tb, name, cmd)
}
