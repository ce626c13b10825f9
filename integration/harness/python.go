package harness

import (
	"os/exec"
	"testing"
)

// Python returns an interpreter that has redis-py. The first python3 on the PATH
// need not be the one that the distribution's packages belong to.
func Python(tb testing.TB) string {
	tb.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import redis").Run() == nil {
			return python
		}
	}
	tb.Fatal("no python3 with the redis module: apt-get install python3-redis")
	return ""
}
