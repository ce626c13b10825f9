package harness

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Debian's package libzookeeper-java has the server, which finds the other libraries through its manifest, all but one that
// writes what it logs.
const zookeeperJars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar"

// ZooKeeper is a real ZooKeeper server on loopback ports, alone or one of an ensemble. Its tick is 100 ms, so a
// session's timeout may be as short as 200 ms. What it has acknowledged outlives a restart. Its Process changes with every start.
type ZooKeeper struct {
	*Process

	Addr string // for clients
	Dir  string // configuration and data

	tb   testing.TB
	args []string
	log  *Transcript // of all its lives
}

// StartZooKeeper starts a server on its own, and waits until it serves. The properties are Java's, as in
// "znode.container.checkIntervalMs=100".
func StartZooKeeper(tb testing.TB, properties ...string) *ZooKeeper {
	tb.Helper()
	z := newZooKeeper(tb, properties)
	z.configure("")
	z.Start()
	return z
}

// ZooKeeperEnsemble is some servers that elect a leader among them.
type ZooKeeperEnsemble []*ZooKeeper

// StartZooKeeperEnsemble starts n servers, and waits until all serve.
func StartZooKeeperEnsemble(tb testing.TB, n int, properties ...string) ZooKeeperEnsemble {
	tb.Helper()
	var ensemble ZooKeeperEnsemble
	var members strings.Builder
	members.WriteString("initLimit=300\nsyncLimit=100\n")
	for id := range n {
		ensemble = append(ensemble, newZooKeeper(tb, properties))
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", id+1, FreePort(tb), FreePort(tb))
	}
	for id, z := range ensemble {
		z.configure(members.String())
		z.write("data/myid", fmt.Sprintln(id+1))
	}
	ensemble.Start()
	return ensemble
}

// Start starts the servers that have ended, and waits until all serve.
func (e ZooKeeperEnsemble) Start() {
	for _, z := range e {
		if z.Process == nil || z.exited() {
			z.launch()
		}
	}
	for _, z := range e {
		z.awaitService()
	}
}

// Stop kills all servers.
func (e ZooKeeperEnsemble) Stop() {
	for _, z := range e {
		z.Kill()
	}
}

// Pause freezes all servers, see [Process.Pause].
func (e ZooKeeperEnsemble) Pause() {
	for _, z := range e {
		z.Pause()
	}
}

// Resume lets all servers go on.
func (e ZooKeeperEnsemble) Resume() {
	for _, z := range e {
		z.Resume()
	}
}

// Leader waits for the server that leads.
func (e ZooKeeperEnsemble) Leader() *ZooKeeper {
	var leader *ZooKeeper
	Eventually(e[0].tb, 0, func() bool {
		for _, z := range e {
			if z.Mode() == "leader" {
				leader = z
			}
		}
		return leader != nil
	}, "a ZooKeeper server leads")
	return leader
}

// Addrs are the servers' addresses for clients.
func (e ZooKeeperEnsemble) Addrs() []string {
	var addrs []string
	for _, z := range e {
		addrs = append(addrs, z.Addr)
	}
	return addrs
}

// Start starts a server that has ended, and waits until it serves.
func (z *ZooKeeper) Start() {
	z.tb.Helper()
	z.launch()
	z.awaitService()
}

// Restart kills the server and starts it again on the same port, with what it has acknowledged.
func (z *ZooKeeper) Restart() {
	z.tb.Helper()
	z.Kill()
	z.Start()
}

// Mode is leader, follower or standalone, or "" while the server does not serve.
func (z *ZooKeeper) Mode() string {
	for line := range strings.Lines(z.ask("srvr")) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

func newZooKeeper(tb testing.TB, properties []string) *ZooKeeper {
	tb.Helper()
	z := &ZooKeeper{Addr: loopback(FreePort(tb)), Dir: tb.TempDir(), tb: tb, log: &Transcript{}}
	z.args = []string{
		"-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", // starts in half the time
		"-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
	}
	for _, property := range properties {
		z.args = append(z.args, "-D"+property)
	}
	z.args = append(z.args, "-cp", zookeeperJars,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(z.Dir, "zoo.cfg"))
	logIfFailed(tb, "zookeeper "+z.Addr, z.log)
	return z
}

func (z *ZooKeeper) configure(members string) {
	z.tb.Helper()
	_, port, _ := net.SplitHostPort(z.Addr)
	z.write("zoo.cfg", fmt.Sprintf("dataDir=%s\nclientPort=%s\n", filepath.Join(z.Dir, "data"), port)+members+`
clientPortAddress=127.0.0.1
tickTime=100
minSessionTimeout=200
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
`)
}

func (z *ZooKeeper) write(file, text string) {
	z.tb.Helper()
	path := filepath.Join(z.Dir, file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		z.tb.Fatalf("configure zookeeper: %v", err)
	}
}

func (z *ZooKeeper) launch() {
	z.tb.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		z.tb.Fatal("java is not on the PATH: apt-get install default-jre-headless")
	}
	cmd := exec.Command(java, z.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = z.Dir, z.log, z.log
	z.Process = launch(z.tb, "zookeeper "+z.Addr, cmd)
}

func (z *ZooKeeper) awaitService() {
	z.tb.Helper()
	if !poll(4*patience, func() bool { return z.exited() || z.Mode() != "" }) || z.exited() {
		z.tb.Fatalf("zookeeper %s does not serve and %s:\n%s", z.Addr, z.fate(), z.log)
	}
}

// ask sends one of the server's four-letter words; "" if it does not answer.
func (z *ZooKeeper) ask(word string) string {
	conn, err := net.DialTimeout("tcp", z.Addr, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}
