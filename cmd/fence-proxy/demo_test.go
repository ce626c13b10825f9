package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// runDemo runs the command line "fence-proxy demo …".
func runDemo(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"demo"}, args...))
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestDemoPrintsATableAndNoLogs(t *testing.T) {
	defer goleak.VerifyNone(t)
	out, logs, err := runDemo(t, "--agents", "2", "--updates", "2", "--think", "1ms")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "\nstraight at Redis     4 ") || !strings.Contains(out, "\nthrough fence-proxy   4              4             0 ") {
		t.Errorf("got:\n%s", out)
	}
	if logs != "" {
		t.Errorf("logs:\n%s", logs)
	}
}

func TestVerboseDemoShowsTheProxiesLogs(t *testing.T) {
	defer goleak.VerifyNone(t)
	_, logs, err := runDemo(t, "-v", "--agents", "2", "--updates", "1", "--think", "1ms")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs, "proxy=proxy-2") || !strings.Contains(logs, "FENCED") {
		t.Errorf("logs:\n%s", logs)
	}
}

func TestDemoTakesMistakesOnTheCommandLineAsUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"--agents", "1"}, {"--agents", "many"}, {"--updates", "0"}, {"--think", "20"}, {"--upstream", "http://x"}, {"extra"}, {"--nope"},
	} {
		out, _, err := runDemo(t, args...)
		if err == nil || exitCode(err) != usageExit || out != "" {
			t.Errorf("%v: %v, exit code %d, output %q", args, err, exitCode(err), out)
		}
	}
}
