//go:build integration

package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
)

// gaugeEnv makes a test binary the subject, and is where it tells its reading.
const gaugeEnv = "SOAK_GAUGE"

// subject is a proxy in a process of its own, this test binary's, that tells what it uses.
type subject struct {
	*harness.Proxy

	tb    testing.TB
	relay *harness.Relay // to Redis
	gauge string
}

// reading is what a subject uses, and what it says it has.
type reading struct {
	goroutines  int
	heap        int64        // bytes that are in use after garbage collection
	resident    int64        // bytes of memory that the process has
	descriptors int          // open files and sockets, those to Redis aside
	clients     int          // connected
	own         int          // connections to Redis that are one client's
	holds       int          // by the metric
	waiting     int          // likewise
	open        int          // holds that the status page lists
	queues      int          // sessions with waiters that it lists
	spare       int          // connections to Redis that are no client's: those that clients share and the proxy's own, which stay open
	dead        []connection // of these, closed at the other side
	records     int          // keys under the reserved prefix, at Redis
}

// startSubject starts a proxy whose configuration, but for its addresses, is the text.
func startSubject(tb testing.TB, relay *harness.Relay, text string) *subject {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("find the test binary: %v", err)
	}
	s := &subject{tb: tb, relay: relay, gauge: net.JoinHostPort("127.0.0.1", strconv.Itoa(harness.FreePort(tb)))}
	s.Proxy = harness.StartProxy(tb, harness.ProxyOptions{
		Name: "subject", Binary: self, Env: []string{gaugeEnv + "=" + s.gauge},
		Upstream: relay.URL(), Admin: true, ConfigYAML: text,
	})
	return s
}

// read looks at the subject, its records aside.
func (s *subject) read() (r reading) {
	s.tb.Helper()
	r.clients = int(s.Metric("fence_proxy_connections"))
	r.own = int(s.Metric(`fence_proxy_upstream_connections{kind="own"}`))
	r.holds = int(s.Metric("fence_proxy_holds"))
	r.waiting = int(s.Metric("fence_proxy_queue_length"))
	r.open, r.queues = s.total("holds"), s.total("queues")
	toRedis := connectionsTo(s.tb, s.Pid(), s.relay.Addr)
	r.descriptors, r.spare = descriptors(s.tb, s.Pid())-len(toRedis), len(toRedis)-r.own
	for _, c := range toRedis {
		if c.state != "established" {
			r.dead = append(r.dead, c)
		}
	}
	conn, err := net.Dial("tcp", s.gauge)
	if err != nil {
		s.tb.Fatalf("read the gauge: %v", err)
	}
	defer conn.Close()
	if _, err := fmt.Fscan(conn, &r.goroutines, &r.heap); err != nil {
		s.tb.Fatalf("read the gauge: %v", err)
	}
	r.resident = resident(s.tb, s.Pid())
	return r
}

// total is how long a list of the status page is.
func (s *subject) total(list string) int {
	s.tb.Helper()
	status, body := s.Page("/api/v1/" + list + "?limit=1")
	var answer struct{ Total *int }
	if err := json.Unmarshal([]byte(body), &answer); status != http.StatusOK || err != nil || answer.Total == nil {
		s.tb.Fatalf("%s: %d %q (%v)", list, status, body, err)
	}
	return *answer.Total
}

// revise gives the subject other rules, and returns when it has taken them over.
func (s *subject) revise(rules string) {
	s.tb.Helper()
	text, err := os.ReadFile(s.Config)
	if err == nil {
		head, _, _ := strings.Cut(string(text), "rules:\n")
		if err = os.WriteFile(s.Config+".new", []byte(head+rules), 0o600); err == nil {
			err = os.Rename(s.Config+".new", s.Config)
		}
	}
	if err != nil {
		s.tb.Fatal(err)
	}
	const success = `fence_proxy_config_reloads_total{outcome="success"}`
	before := s.Metric(success)
	s.Hangup()
	harness.Eventually(s.tb, 0, func() bool { return s.Metric(success) > before }, "the configuration is reloaded")
}

// descriptors is how many files and sockets a process has open.
func descriptors(tb testing.TB, pid int) int {
	tb.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		tb.Fatal(err)
	}
	return len(open)
}

// resident is a process's VmRSS in bytes.
func resident(tb testing.TB, pid int) (bytes int64) {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if kilobytes, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(kilobytes, &bytes)
		}
	}
	return bytes << 10
}

// runSubject is the subject's process, which serves as `fence-proxy --config FILE` does. It ends when it is killed.
func runSubject(configFile, gauge string) error {
	runtime.GOMAXPROCS(1)
	source := config.NewSource(configFile, nil)
	cfg, err := source.Load()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", gauge)
	if err != nil {
		return err
	}
	go tell(listener)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(cfg.Log.Level))
	ctx := context.Background()
	p, err := app.Start(ctx, cfg, "soak", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	if err != nil {
		return err
	}
	p.Follow(app.Reloading{Source: source, Now: reload, Level: level})
	return p.Serve(ctx)
}

// tell gives whoever connects a reading. It needs one goroutine however many ask.
func tell(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		runtime.GC()
		debug.FreeOSMemory() // collects again: a sync.Pool gives up its content in two
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		_, _ = fmt.Fprintln(conn, runtime.NumGoroutine(), memory.HeapAlloc)
		_ = conn.Close()
	}
}
