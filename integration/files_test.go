//go:build integration

package integration

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A process may open as many files as its hard limit says, whatever the soft one is; the proxy warns of the first.
func TestAProxyThatMayOpenTooFewFilesSaysSo(t *testing.T) {
	t.Parallel()
	server, binary := harness.StartRedis(t), harness.Build(t)
	for limit, warns := range map[string]bool{"ulimit -S -n 256": false, "ulimit -n 256": true} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", limit+` && exec "$0" "$@"`,
			binary, "--listen", "127.0.0.1:0", "--admin", "", "--upstream", server.URL())
		cmd.Env = append(cmd.Environ(), "FENCE_LIMITS_CONNECTIONS=1000")
		output, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		warned, served := false, false
		for lines := bufio.NewScanner(output); !served && lines.Scan(); {
			warned = warned || strings.Contains(lines.Text(), "may open fewer files than its clients may need")
			served = strings.Contains(lines.Text(), "msg=serving")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !served || warned != warns {
			t.Errorf("%s: it serves: %v, and warns: %v", limit, served, warned)
		}
	}
}
