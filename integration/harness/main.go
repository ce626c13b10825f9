package harness

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and exits; call it from TestMain. In an agent
// process (see [StartAgent]) it runs the agent instead.
//
// What the tests put into the temporary directory goes at the end, also when they are interrupted
// (SIGINT, SIGTERM). When they have passed, a goroutine that is left fails the run; the options
// say which ones may stay.
func Main(m *testing.M, options ...goleak.Option) {
	if addr := os.Getenv(agentEnv); addr != "" {
		runAgent(addr, os.Stdin, os.Stdout)
		os.Exit(0)
	}
	tidy := tidyUp()
	code := m.Run()
	tidy()
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintln(os.Stderr, "after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}
