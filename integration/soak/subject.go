//go:build integration

package soak

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
)

// These make a test binary the subject: the file of its configuration, and where it tells
// its reading.
const (
	configEnv = "SOAK_CONFIG"
	gaugeEnv  = "SOAK_GAUGE"
)

// subject is a proxy in a process of its own that tells what it uses.
type subject struct {
	*harness.Process

	addr  string
	gauge string
}

// reading is what a subject uses.
type reading struct {
	goroutines int
	heap       int64 // bytes that are in use after garbage collection
	resident   int64 // bytes of memory that the process has; 0 where the system does not tell
}

// startSubject starts a proxy whose rules are those of the text.
func startSubject(tb testing.TB, server *harness.Redis, rules string) *subject {
	tb.Helper()
	s := &subject{addr: loopback(tb), gauge: loopback(tb)}
	configFile := filepath.Join(tb.TempDir(), "config.yaml")
	text := fmt.Sprintf("listen: %q\nupstream:\n  url: %q\n%s", s.addr, server.URL(), rules)
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		tb.Fatalf("write the configuration: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatalf("find the test binary: %v", err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{configEnv + "=" + configFile, gaugeEnv + "=" + s.gauge, "GORACE=halt_on_error=1"}
	s.Process = harness.StartServer(tb, s.addr, cmd)
	return s
}

func loopback(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(harness.FreePort(tb)))
}

// read asks the subject.
func (s *subject) read() (r reading, err error) {
	conn, err := net.Dial("tcp", s.gauge)
	if err != nil {
		return r, fmt.Errorf("read the gauge: %w", err)
	}
	defer conn.Close()
	if _, err := fmt.Fscan(conn, &r.goroutines, &r.heap); err != nil {
		return r, fmt.Errorf("read the gauge: %w", err)
	}
	r.resident = resident(s.Pid())
	return r, nil
}

// resident is a process's VmRSS in bytes.
func resident(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if kilobytes, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(kilobytes, &bytes)
		}
	}
	return bytes << 10
}

// runSubject is the subject's process. It ends when it is killed.
func runSubject(configFile, gauge string) error {
	cfg, err := config.Load(configFile, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", gauge)
	if err != nil {
		return err
	}
	go tell(listener)
	ctx := context.Background()
	p, err := app.Start(ctx, cfg, "soak", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
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
		runtime.GC() // a sync.Pool gives up its content in two
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		_, _ = fmt.Fprintln(conn, runtime.NumGoroutine(), memory.HeapAlloc)
		_ = conn.Close()
	}
}
