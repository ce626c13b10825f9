package harness

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
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
	log  *transcript // of all its lives
}

// StartEtcd starts a cluster of size members, and waits until each of them answers with a quorum behind it.
func StartEtcd(tb testing.TB, size int) *Etcd {
	tb.Helper()
	server, err := exec.LookPath("etcd")
	if err != nil {
		tb.Fatal("etcd is not on the PATH: apt-get install etcd-server")
	}
	e := &Etcd{}
	var peers []string
	for i := range size {
		peer := "http://" + loopback(FreePort(tb))
		addr := loopback(FreePort(tb))
		e.Members = append(e.Members, &EtcdMember{Addr: addr, tb: tb, log: &transcript{}, args: []string{
			server, "--name", fmt.Sprintf("m%d", i), "--data-dir", shortTempDir(tb), "--logger", "zap",
			"--listen-client-urls", "http://" + addr, "--advertise-client-urls", "http://" + addr,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		}})
		peers = append(peers, fmt.Sprintf("m%d=%s", i, peer))
	}
	for _, m := range e.Members {
		m.args = append(m.args, "--initial-cluster", strings.Join(peers, ","))
		tb.Cleanup(func() {
			if tb.Failed() {
				tb.Logf("etcd %s:\n%s", m.Addr, m.log)
			}
		})
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Addr+"/health", http.NoBody)
	if err != nil {
		return false
	}
	once := http.Transport{DisableKeepAlives: true}
	reply, err := once.RoundTrip(request)
	if err != nil {
		return false
	}
	_ = reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}
