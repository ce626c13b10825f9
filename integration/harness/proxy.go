package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// ProxyOptions say how [StartProxy] starts a proxy. The zero value is a proxy with
// its defaults on a free port.
type ProxyOptions struct {
	Name string // in failure messages; "fence-proxy" if empty

	Binary string // path of the program; that of [Build] if empty

	Redis    *Redis // upstream, unless ConfigYAML or Upstream names one
	Upstream string // the upstream's URL, a Relay's say

	// Listen is where the proxy listens, "unix:///run/x.sock" say; a free port if empty.
	Listen string

	// Admin makes the proxy serve health and metrics, on a free port.
	Admin bool

	// ConfigYAML is the configuration. The harness puts listen, admin and upstream
	// before it, each unless the text has that key at its top level.
	ConfigYAML string

	Args []string // after --config FILE
	Env  []string // added to the environment, which has no other FENCE_ variable
}

// Proxy is a running fence-proxy.
type Proxy struct {
	*Process

	Addr   string // "host:port", or a unix socket's path
	Admin  string // "host:port" of health and metrics; "" without ProxyOptions.Admin
	Config string // path of the configuration, for tests that edit it

	tb     testing.TB
	name   string
	binary string
	args   []string
	env    []string
	log    *Transcript // of all its lives
}

// StartProxy builds fence-proxy if need be, starts it, and waits until it accepts
// connections.
func StartProxy(tb testing.TB, options ProxyOptions) *Proxy {
	tb.Helper()
	p := newProxy(tb, options)
	p.Start()
	return p
}

// LaunchProxy is StartProxy that does not wait; see [Proxy.Await].
func LaunchProxy(tb testing.TB, options ProxyOptions) *Proxy {
	tb.Helper()
	p := newProxy(tb, options)
	p.launch()
	return p
}

// RunProxy runs fence-proxy with these arguments to its end and returns its
// exit code and what it printed: for sub-commands and for configurations that it refuses.
func RunProxy(tb testing.TB, args ...string) (code int, output string) {
	tb.Helper()
	p := &Proxy{tb: tb, name: "fence-proxy", binary: Build(tb), args: args, env: environment(nil), log: &Transcript{}}
	p.launch()
	return p.Wait(), p.Logs()
}

func newProxy(tb testing.TB, options ProxyOptions) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, name: options.Name, binary: options.Binary, env: environment(options.Env), log: &Transcript{}}
	if p.binary == "" {
		p.binary = Build(tb)
	}
	if p.name == "" {
		p.name = "fence-proxy"
	}
	p.Config = filepath.Join(tb.TempDir(), "config.yaml")
	if err := os.WriteFile(p.Config, []byte(p.configure(options)), 0o600); err != nil {
		tb.Fatalf("write the configuration: %v", err)
	}
	p.args = append([]string{"--config", p.Config}, options.Args...)
	tb.Cleanup(p.inspect) // after its end
	return p
}

// inspect fails the test for what the proxy itself has noticed about itself.
func (p *Proxy) inspect() {
	for line := range strings.Lines(p.Logs()) {
		for _, mark := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			if strings.HasPrefix(line, mark) {
				p.tb.Errorf("%s: %s", p.name, line)
			}
		}
	}
	if p.tb.Failed() {
		p.tb.Logf("%s %s:\n%s", p.name, p.Addr, p.log)
	}
}

// configure completes the test's configuration.
func (p *Proxy) configure(options ProxyOptions) string {
	var head strings.Builder
	if listen, ok := topLevel(options.ConfigYAML, "listen"); ok {
		p.Addr = listen
	} else {
		if p.Addr = options.Listen; p.Addr == "" {
			p.Addr = loopback(FreePort(p.tb))
		}
		fmt.Fprintf(&head, "listen: %q\n", p.Addr)
	}
	p.Addr = strings.TrimPrefix(p.Addr, "unix://")
	if _, ok := topLevel(options.ConfigYAML, "admin"); !ok {
		if options.Admin {
			p.Admin = loopback(FreePort(p.tb))
		}
		fmt.Fprintf(&head, "admin: %q\n", p.Admin)
	}
	if _, ok := topLevel(options.ConfigYAML, "upstream"); !ok {
		url := options.Upstream
		if url == "" && options.Redis != nil {
			url = options.Redis.URL()
		}
		if url != "" {
			fmt.Fprintf(&head, "upstream:\n  url: %q\n", url)
		}
	}
	return head.String() + options.ConfigYAML
}

// Start starts a proxy that has ended, with the same configuration file, and waits
// until it accepts connections.
func (p *Proxy) Start() {
	p.tb.Helper()
	p.launch()
	p.Await()
}

// Await waits until the proxy accepts connections.
func (p *Proxy) Await() {
	p.tb.Helper()
	if !poll(patience, func() bool { return p.exited() || accepts(p.Addr) }) || p.exited() {
		p.tb.Fatalf("%s does not accept connections at %s and %s", p.name, p.Addr, p.fate())
	}
}

func (p *Proxy) launch() {
	p.tb.Helper()
	cmd := exec.Command(p.binary, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.log, p.log
	p.Process = launch(p.tb, p.name, cmd)
}

// Logs returns what the proxy has printed so far.
func (p *Proxy) Logs() string { return p.log.String() }

// WaitLog waits until the proxy has printed the text.
func (p *Proxy) WaitLog(tb testing.TB, text string) {
	tb.Helper()
	Eventually(tb, 0, func() bool { return strings.Contains(p.Logs(), text) },
		fmt.Sprintf("%s logs %q", p.name, text))
}

// Client returns a go-redis client of the proxy, closed when the test ends. The
// edits change its options.
func (p *Proxy) Client(edits ...func(*redis.Options)) *redis.Client {
	p.tb.Helper()
	return newClient(p.tb, p.Addr, edits)
}

// URL is the proxy's address as a client's URL.
func (p *Proxy) URL() string {
	if network(p.Addr) == "unix" {
		return "unix://" + p.Addr
	}
	return "redis://" + p.Addr
}

// environment is the test's without the settings of the product and the harness. A
// program with the race detector need not wait a second before it exits.
func environment(extra []string) []string {
	env := []string{"GORACE=atexit_sleep_ms=0"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "FENCE_") {
			env = append(env, variable)
		}
	}
	return append(env, extra...)
}

// topLevel finds the line "key: value" in a YAML text, and its plain value.
func topLevel(text, key string) (value string, ok bool) {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			value, _, _ = strings.Cut(value, " #")
			return strings.Trim(strings.TrimSpace(value), `"'`), true
		}
	}
	return "", false
}

func accepts(addr string) bool {
	conn, err := dial(addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
