package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// runObserve runs the command line "fence-proxy observe …".
func runObserve(ctx context.Context, args ...string) (stdout string, err error) {
	return logObserve(ctx, io.Discard, args...)
}

// logObserve runs it, and has it log to logs.
func logObserve(ctx context.Context, logs io.Writer, args ...string) (stdout string, err error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"observe", "--listen", "127.0.0.1:0"}, args...))
	root.SetOut(&out)
	root.SetErr(logs)
	err = root.ExecuteContext(ctx)
	return out.String(), err
}

// onceServing is a log that calls a function when the proxy says that it serves.
type onceServing func()

func (f onceServing) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("serving")) {
		f()
	}
	return len(line), nil
}

// The time that it takes to start does not count.
func TestObserveEndsByItselfAndReports(t *testing.T) {
	defer goleak.VerifyNone(t)
	out, err := runObserve(t.Context(), "--upstream", "embedded:", "--for", "1ns")
	if err != nil || !strings.Contains(out, "no command with keys has passed") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestObserveReportsWhenItIsInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, err := logObserve(ctx, onceServing(cancel), "--upstream", "embedded:", "--json")
	var report map[string]any
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || report["updates_lost"] != 0.0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestObserveTakesMistakesOnTheCommandLineAsUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--upstream", "http://x"}, {"--upstream", "embedded:", "--for", "-1s"}, {"--upstream", "embedded:", "--turn", "-1s"}, {"extra"}, {"--nope"},
	} {
		out, err := runObserve(t.Context(), args...)
		if err == nil || exitCode(err) != usageExit || out != "" {
			t.Errorf("%v: %v, exit code %d, output %q", args, err, exitCode(err), out)
		}
	}
}
