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
	from     string   // where to get the program
	optional bool     // left out if the program is not there
	config   string   // LISTEN and UPSTREAM stand for addresses
	args     []string // that keep it in the foreground; CONFIG stands for a file, PORT for a free port
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
		args: []string{"-db", "-f", "CONFIG"},
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
		args: []string{"-c", "CONFIG", "-a", "127.0.0.1", "-s", "PORT"}, // where it serves statistics
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
		args: []string{"CONFIG"},
	},
}

// start starts the peer in front of an upstream and returns where it listens. The process is nil if
// the program is not there and may be left out.
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
	fill := strings.NewReplacer("LISTEN", addr, "UPSTREAM", upstream, "CONFIG", configFile, "PORT", strconv.Itoa(harness.FreePort(tb)))
	if err := os.WriteFile(configFile, []byte(fill.Replace(p.config)), 0o600); err != nil {
		tb.Fatalf("%s: write the configuration: %v", p.name, err)
	}
	cmd := exec.Command(program)
	cmd.Dir = dir
	for _, arg := range p.args {
		cmd.Args = append(cmd.Args, fill.Replace(arg))
	}
	return harness.StartServer(tb, addr, cmd), addr
}
