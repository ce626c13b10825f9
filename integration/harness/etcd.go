package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Etcd is a real etcd cluster with an empty store on loopback ports. Stopped members come back with what they had
// stored.
type Etcd struct {
	Members []*EtcdMember
}

// EtcdMember is one server of a cluster. Its Process changes with every start.
type EtcdMember struct {
	*Process

	Addr string // for clients

	tb   testing.TB
	args []string
	look string      // where it shows its health and metrics
	log  *Transcript // of all its lives
}

// EtcdTLS are the files with which members serve clients, and believe them.
type EtcdTLS struct{ CA, Cert, Key string }

// StartEtcd starts a cluster of size members, and waits until each of them answers with a quorum behind it.
func StartEtcd(tb testing.TB, size int) *Etcd {
	tb.Helper()
	return startEtcd(tb, size, "http")
}

// StartEtcdTLS is StartEtcd with TLS towards clients, who need a certificate.
func StartEtcdTLS(tb testing.TB, size int, files EtcdTLS) *Etcd {
	tb.Helper()
	return startEtcd(tb, size, "https",
		"--client-cert-auth", "--trusted-ca-file", files.CA, "--cert-file", files.Cert, "--key-file", files.Key)
}

func startEtcd(tb testing.TB, size int, scheme string, args ...string) *Etcd {
	tb.Helper()
	server, err := exec.LookPath("etcd")
	if err != nil {
		tb.Fatal("etcd is not on the PATH: apt-get install etcd-server")
	}
	e := &Etcd{}
	var peers []string
	for i := range size {
		peer := "http://" + loopback(FreePort(tb))
		m := &EtcdMember{Addr: loopback(FreePort(tb)), tb: tb, log: &Transcript{}, look: "http://" + loopback(FreePort(tb))}
		m.args = append([]string{
			server, "--name", fmt.Sprintf("m%d", i), "--data-dir", shortTempDir(tb), "--logger", "zap",
			"--listen-client-urls", scheme + "://" + m.Addr, "--advertise-client-urls", scheme + "://" + m.Addr,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--listen-metrics-urls", m.look,
		}, args...)
		e.Members = append(e.Members, m)
		peers = append(peers, fmt.Sprintf("m%d=%s", i, peer))
	}
	for _, m := range e.Members {
		m.args = append(m.args, "--initial-cluster", strings.Join(peers, ","))
		logIfFailed(tb, "etcd "+m.Addr, m.log)
	}
	e.Start()
	return e
}

// Addrs are the members' addresses for clients.
func (e *Etcd) Addrs() []string {
	var addrs []string
	for _, m := range e.Members {
		addrs = append(addrs, m.Addr)
	}
	return addrs
}

// Leader is the member that leads, as soon as there is one.
func (e *Etcd) Leader() *EtcdMember {
	var leader *EtcdMember
	e.Members[0].tb.Helper()
	Eventually(e.Members[0].tb, 0, func() bool {
		for _, m := range e.Members {
			if !m.exited() && m.leads() {
				leader = m
			}
		}
		return leader != nil
	}, "etcd has a leader")
	return leader
}

// Stop kills all members.
func (e *Etcd) Stop() {
	for _, m := range e.Members {
		m.Kill()
	}
}

// Start starts the members that don't run, and waits until each answers with a quorum behind it.
func (e *Etcd) Start() {
	for _, m := range e.Members {
		m.launch()
	}
	for _, m := range e.Members {
		m.await()
	}
}

// Pause freezes all members.
func (e *Etcd) Pause() {
	for _, m := range e.Members {
		m.Pause()
	}
}

// Resume lets all members go on.
func (e *Etcd) Resume() {
	for _, m := range e.Members {
		m.Resume()
	}
}

// Restart starts a member that was killed, and waits until it answers with a quorum behind it.
func (m *EtcdMember) Restart() {
	m.tb.Helper()
	m.Kill()
	m.launch()
	m.await()
}

func (m *EtcdMember) launch() {
	m.tb.Helper()
	if m.Process != nil && !m.exited() {
		return
	}
	cmd := exec.Command(m.args[0], m.args[1:]...)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	m.Process = launch(m.tb, "etcd "+m.Addr, cmd)
}

func (m *EtcdMember) await() {
	m.tb.Helper()
	if !poll(patience, func() bool { return m.exited() || m.healthy() }) || m.exited() {
		m.tb.Fatalf("etcd %s is not healthy and %s:\n%s", m.Addr, m.fate(), m.log)
	}
}

// healthy asks the member whether a quorum has agreed to a read just now.
func (m *EtcdMember) healthy() bool {
	return m.ask(http.MethodGet, m.look+"/health", nil) == nil
}

// leads says whether the member is the leader, as far as it knows.
func (m *EtcdMember) leads() bool {
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	return m.ask(http.MethodPost, "http://"+m.Addr+"/v3/maintenance/status", &status) == nil && status.Leader == status.Header.Member
}

// Metric is a figure of the member's, 0 if it has none of that name.
func (m *EtcdMember) Metric(name string) float64 {
	m.tb.Helper()
	var metrics []byte
	if err := m.ask(http.MethodGet, m.look+"/metrics", &metrics); err != nil {
		m.tb.Fatalf("read the metrics of etcd %s: %v", m.Addr, err)
	}
	for line := range strings.Lines(string(metrics)) {
		if figure, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
			if err != nil {
				m.tb.Fatalf("metric of etcd: %q: %v", line, err)
			}
			return value
		}
	}
	return 0
}

// ask sends an empty request, and reads the answer, as it is or as JSON.
func (m *EtcdMember) ask(method, url string, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	once := http.Transport{DisableKeepAlives: true}
	reply, err := once.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s", reply.Status)
	}
	switch answer := answer.(type) {
	case nil:
		return nil
	case *[]byte:
		*answer, err = io.ReadAll(reply.Body)
		return err
	default:
		return json.NewDecoder(reply.Body).Decode(answer)
	}
}
