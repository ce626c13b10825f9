package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// peer is somebody else's proxy, run with its defaults.
type peer struct {
	name     string
	program  string
	from     string                                          // where to get the program
	optional bool                                            // left out if the program is not there
	config   string                                          // LISTEN and UPSTREAM stand for addresses
	args     func(tb testing.TB, configFile string) []string // that keep it in the foreground
}

const twemproxyName = "twemproxy"

var peers = []peer{
	{
		name: "haproxy", program: "haproxy", from: "apt-get install haproxy",
		config: `
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen redis
  bind LISTEN
  server redis UPSTREAM
`,
		args: func(_ testing.TB, configFile string) []string { return []string{"-db", "-f", configFile} },
	},
	{
		name: twemproxyName, program: "nutcracker", from: "apt-get install nutcracker",
		config: `
redis:
  listen: LISTEN
  redis: true
  hash: fnv1a_64
  distribution: ketama
  servers:
    - UPSTREAM:1
`,
		args: func(tb testing.TB, configFile string) []string {
			statistics := strconv.Itoa(harness.FreePort(tb))
			return []string{"-c", configFile, "-a", "127.0.0.1", "-s", statistics}
		},
	},
	{
		name: "predixy", program: "predixy", from: "https://github.com/joyieldInc/predixy", optional: true,
		config: `
Bind LISTEN
Authority {
  Auth {
    Mode admin
  }
}
StandaloneServerPool {
  RefreshMethod fixed
  Hash crc16
  Distribution modula
  Group redis {
    + UPSTREAM
  }
}
`,
		args: func(_ testing.TB, configFile string) []string { return []string{configFile} },
	},
}

// start starts the peer in front of an upstream and returns where it listens; nil if it may be
// left out and is not there.
func (p *peer) start(tb testing.TB, upstream string) (process *harness.Process, addr string) {
	tb.Helper()
	program, err := exec.LookPath(p.program)
	if err != nil && p.optional {
		return nil, ""
	}
	if err != nil {
		tb.Fatalf("%s: %v (%s)", p.name, err, p.from)
	}
	addr = "127.0.0.1:" + strconv.Itoa(harness.FreePort(tb))
	dir := tb.TempDir()
	configFile := filepath.Join(dir, p.program+".conf")
	text := strings.NewReplacer("LISTEN", addr, "UPSTREAM", upstream).Replace(p.config)
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		tb.Fatalf("%s: write the configuration: %v", p.name, err)
	}
	cmd := exec.Command(program, p.args(tb, configFile)...)
	cmd.Dir = dir
	return harness.StartServer(tb, addr, cmd), addr
}
