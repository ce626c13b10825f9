package harness

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Consul is a real Consul server on loopback ports, the only one of its cluster. Sessions may have a TTL as short as a
// second. What it has acknowledged outlives a restart. Its Process changes with every start.
type Consul struct {
	*Process

	Addr string // of its HTTP API

	tb   testing.TB
	args []string
	log  *Transcript // of all its lives
}

// ConsulToken may do everything where ACLs are enabled.
const ConsulToken = "harness"

// StartConsul starts a server, and waits until it leads. The settings are HCL, as in "session_ttl_min = \"10s\"".
func StartConsul(tb testing.TB, settings ...string) *Consul {
	tb.Helper()
	c := &Consul{tb: tb, log: &Transcript{}}
	port := func() string { return strconv.Itoa(FreePort(tb)) }
	http := FreePort(tb)
	c.Addr = loopback(http)
	c.args = []string{
		"agent", "-server", "-bootstrap-expect", "1", "-data-dir", tb.TempDir(), "-log-level", "warn",
		"-client", "127.0.0.1", "-http-port", strconv.Itoa(http),
		"-bind", "127.0.0.2", // it takes UDP ports, too, and those of 127.0.0.1 are FreePort's
		"-server-port", port(), "-serf-lan-port", port(), "-serf-wan-port", "-1", "-grpc-port", "-1", "-dns-port", "-1",
		"-hcl", `session_ttl_min = "1s"`, "-hcl", "performance { raft_multiplier = 1 }",
		"-hcl", "acl { tokens { master = " + strconv.Quote(ConsulToken) + " } }",
	}
	for _, setting := range settings {
		c.args = append(c.args, "-hcl", setting)
	}
	logIfFailed(tb, "consul "+c.Addr, c.log)
	c.Start()
	return c
}

// Start starts a server that has ended, and waits until it leads.
func (c *Consul) Start() {
	c.tb.Helper()
	cmd := exec.Command(consulProgram(c.tb), c.args...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	c.Process = launch(c.tb, "consul "+c.Addr, cmd)
	if !poll(patience, func() bool { return c.exited() || c.Leads() }) || c.exited() {
		c.tb.Fatalf("consul %s does not lead and %s:\n%s", c.Addr, c.fate(), c.log)
	}
}

// Leads reports whether the server leads, and is in the catalog: a session can be made.
func (c *Consul) Leads() bool {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	question, err := http.NewRequest(http.MethodGet, "http://"+c.Addr+"/v1/health/state/passing", nil)
	if err != nil {
		return false
	}
	question.Header.Set("X-Consul-Token", ConsulToken)
	answer, err := client.Do(question)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return err == nil && strings.Contains(string(body), "serfHealth")
}

// consulProgram is the Consul that the tests are for, or else the one on the PATH.
func consulProgram(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		pinned := filepath.Join(dir, ".bin", "consul-1.8.7", "usr", "bin", "consul")
		if _, err := os.Stat(pinned); err == nil {
			return pinned
		}
	}
	program, err := exec.LookPath("consul")
	if err != nil {
		tb.Fatal("there is no consul: make deps")
	}
	return program
}
