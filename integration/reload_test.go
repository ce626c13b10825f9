//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// reloaded is a proxy whose configuration changes while it serves.
type reloaded struct {
	*harness.Proxy
	t     *testing.T
	redis *harness.Redis
	head  string // what stands before the rules
	times int    // that a change was taken over
}

func startReloaded(t *testing.T, config string) *reloaded {
	t.Helper()
	server := harness.StartRedis(t)
	p := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: config})
	text, err := os.ReadFile(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &reloaded{Proxy: p, t: t, redis: server, head: strings.TrimSuffix(string(text), config)}
}

const (
	reloadsGood = `fence_proxy_config_reloads_total{outcome="success"}`
	reloadsBad  = `fence_proxy_config_reloads_total{outcome="failure"}`
	reloadStood = `fence_proxy_config_last_reload_successful`
	reloadTime  = `fence_proxy_config_last_reload_success_timestamp_seconds`
)

// write writes the configuration file anew.
func (p *reloaded) write(config string) {
	p.t.Helper()
	if err := os.WriteFile(p.Config, []byte(p.head+config), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// becomes changes the configuration, and returns when it counts.
func (p *reloaded) becomes(config string) {
	p.t.Helper()
	p.write(config)
	p.Hangup()
	p.tookOver()
}

// tookOver waits until one more change was taken over.
func (p *reloaded) tookOver() {
	p.t.Helper()
	p.times++
	harness.Eventually(p.t, 0, func() bool { return p.Metric(reloadsGood) >= float64(p.times) }, "the configuration is reloaded")
}

func TestReloadsUnderLoadLoseNoConnectionAndNoUpdate(t *testing.T) {
	t.Parallel()
	const clients, keys = 8, 3
	patient := func(options ...string) string { return guarding(append(options, "mode: lock", "wait: 60s")...) }
	p := startReloaded(t, patient())
	var stop atomic.Bool
	var turns atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for i := range clients {
		conn := harness.Dial(t, p.Addr) // one for the whole test
		wg.Go(func() {
			for n := i; !stop.Load(); n++ {
				if err := addOne(conn, fmt.Sprintf("ctx:%d:n", n%keys)); err != nil {
					errs <- err
					return
				}
				turns.Add(1)
			}
		})
	}
	for range 3 {
		for _, next := range []string{
			patient("lease: 20s", "idle: 5s"),
			patient(`session: "ctx:<session>:*"`),
			patient(`session: "ctx:<session>:*"`, "max_hold: 1m"),
			patient() + "  - {name: one, prefix: \"ctx:1:\", mode: lock, owner: connection, wait: 60s}\n",
			patient(),
			"limits: {connections: 100, pipeline: 50}\n" + patient("idle: 5s"),
		} {
			p.becomes(next)
			before := turns.Load()
			harness.Eventually(t, 0, func() bool { return turns.Load() > before+clients || len(errs) > 0 }, "the clients go on")
		}
	}
	stop.Store(true)
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	sum := int64(0)
	for k := range keys {
		n, err := p.redis.Client().Get(t.Context(), fmt.Sprintf("ctx:%d:n", k)).Int64()
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != turns.Load() {
		t.Errorf("%d of %d updates are left", sum, turns.Load())
	}
}

// A key that falls to another rule belongs to two sessions for a time. Whoever writes what it has read under the first one goes back to
// nobody else's read under the second.
func TestAWriteOfAReadFromBeforeAReloadIsNoSignOfAPool(t *testing.T) {
	t.Parallel()
	auto := guarding("mode: fence", "owner: auto")
	p := startReloaded(t, auto)
	a, _ := connect(t, "A", p.Addr)
	b, _ := connect(t, "B", p.Addr)
	a.does(nil, "GET", "ctx:1:n")
	p.becomes(auto + "  - {name: one, prefix: \"ctx:1:\", mode: fence}\n")
	b.does(nil, "GET", "ctx:1:n")
	a.does("OK", "SET", "ctx:1:n", "a")
	b.fails("FENCED", "SET", "ctx:1:n", "b")
	if strings.Contains(p.Logs(), "pools its connections") {
		t.Error("the client passes for one that pools")
	}
}

// addOne adds one to the number in a key as clients do that know no INCR.
func addOne(conn *harness.RawConn, key string) error {
	do := func(args ...string) (string, error) {
		if _, err := conn.Write([]byte(harness.Encode(args...))); err != nil {
			return "", err
		}
		raw, err := conn.Read()
		if err != nil {
			return "", err
		}
		reply, err := harness.Decode(raw)
		if err != nil {
			return "", err
		}
		if refusal, ok := reply.(harness.ReplyError); ok {
			return "", refusal
		}
		text, _ := reply.(string)
		return text, nil
	}
	text, err := do("GET", key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	n := 0
	if text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	if _, err := do("SET", key, strconv.Itoa(n+1)); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

func TestAReloadCountsForTheSequencesThatBeginAfterIt(t *testing.T) {
	t.Parallel()
	const key = "ctx:s:k"
	for name, reload := range map[string]func(p *reloaded, config string){
		"at SIGHUP": (*reloaded).becomes,
		"when the file is another": func(p *reloaded, config string) {
			p.write(config)
			p.tookOver()
		},
		"when another file takes its place": func(p *reloaded, config string) {
			next := p.Config + ".new"
			if err := os.WriteFile(next, []byte(p.head+config), 0o600); err != nil {
				p.t.Fatal(err)
			}
			if err := os.Rename(next, p.Config); err != nil {
				p.t.Fatal(err)
			}
			p.tookOver()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startReloaded(t, endless("60s", "mode: lock"))
			a, _ := connect(t, "A", p.Addr)
			b, _ := connect(t, "B", p.Addr)
			c, _ := connect(t, "C", p.Addr)
			a.does(nil, "GET", key)
			b.sends("GET", key)
			lineFor(t, p.redis, key).hasWaiters(1)

			reload(p, endless("0s", "mode: lock")) // wait
			c.fails("LOCKED", "GET", key)
			a.does("OK", "SET", key, "a")
			b.hears("a")
			b.does("OK", "SET", key, "b")

			reload(p, endless("0s", "mode: fence"))
			a.does("b", "GET", key)
			b.does("b", "GET", key)
			a.does("OK", "SET", key, "a")
			b.fails("FENCED", "SET", key, "b")

			reload(p, endless("0s", "mode: lock", "owner: proxy"))
			a.does("a", "GET", key)
			b.does("a", "GET", key) // of the same owner
			b.does("OK", "SET", key, "b")

			reload(p, endless("0s", "mode: pass"))
			a.does("b", "GET", key)
			a.does("OK", "SET", key, "a")
			recordOf(t, p.redis, key).becomesFree()
		})
	}
}

func TestWhatWasReadUnderOtherSessionsIsFencedAcrossProxiesThatHaveAndHaveNotReloaded(t *testing.T) {
	t.Parallel()
	const key = "ctx:s:k"
	before, after := endless("10s", "mode: lock"), endless("10s", "mode: lock", `session: "ctx:<session>:*"`)
	p := startReloaded(t, before)
	late := harness.StartProxy(t, harness.ProxyOptions{Name: "late", Redis: p.redis, ConfigYAML: before})
	a, _ := connect(t, "A", p.Addr)
	b, _ := connect(t, "B, whose proxy has not heard yet", late.Addr)
	a.does(nil, "GET", key)
	p.becomes(after)
	b.sends("GET", key)
	lineFor(t, p.redis, key).hasWaiters(1)
	a.does("OK", "SET", key, "a")
	b.hears("a")
	a.sends("GET", key)
	lineFor(t, p.redis, key).hasWaiters(1)
	b.does("OK", "SET", key, "b")
	a.hears("b")
	a.does("OK", "SET", key, "a")
}

func TestABadConfigurationChangesNothingAndIsReportedOnce(t *testing.T) {
	t.Parallel()
	p := startReloaded(t, endless("0s", "mode: lock"))
	if p.Metric(reloadStood) != 1 || p.Metric(reloadTime) == 0 || p.Metric(reloadsGood) != 0 || p.Metric(reloadsBad) != 0 {
		t.Error("the configuration at start is not counted as one that stands")
	}
	a, _ := connect(t, "A", p.Addr)
	b, _ := connect(t, "B", p.Addr)
	a.does(nil, "GET", "ctx:s")
	loaded := p.Metric(reloadTime)

	p.write("rules:\n  - name: ctx\n    prefx: \"ctx:\"\n")
	line := strings.Count(p.head, "\n") + 3
	mistake := fmt.Sprintf("%s:%d: rules[0].prefx: is not an option: did you mean prefix?", p.Config, line)
	p.WaitLog(t, mistake)
	harness.Eventually(t, 0, func() bool { return p.Metric(reloadsBad) == 1 }, "the failure is counted")
	b.fails("LOCKED", "GET", "ctx:s") // as before
	if status, body := p.Page("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if p.Metric(reloadStood) != 0 || p.Metric(reloadTime) != loaded {
		t.Error("it counts as loaded")
	}
	if err := os.Remove(p.Config); err != nil {
		t.Fatal(err)
	}
	p.WaitLog(t, p.Config+": does not exist: check the path")
	if n := strings.Count(p.Logs(), mistake); n != 1 {
		t.Errorf("the mistake is reported %d times", n)
	}
	a.does("OK", "SET", "ctx:s", "a")

	p.write(endless("1s", "mode: lock"))
	p.tookOver()
	if p.Metric(reloadStood) != 1 || p.Metric(reloadTime) <= loaded {
		t.Error("it does not count as loaded")
	}
}

// As kubelet does it: the file is a link into ..data, which is a link to a directory, and gets another one put in its place.
func TestAConfigMapIsReloadedWhenItsLinkIsSwapped(t *testing.T) {
	t.Parallel()
	p := startReloaded(t, guarding("mode: pass"))
	volume := filepath.Dir(p.Config)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	publish := func(directory, config string) {
		t.Helper()
		must(os.Mkdir(filepath.Join(volume, directory), 0o700))
		must(os.WriteFile(filepath.Join(volume, directory, "config.yaml"), []byte(p.head+config), 0o600))
		must(os.Symlink(directory, filepath.Join(volume, "..data_tmp")))
		must(os.Rename(filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data")))
	}
	publish("..2026_01_01", guarding("mode: pass"))
	must(os.Symlink("..data/config.yaml", p.Config+".link"))
	must(os.Rename(p.Config+".link", p.Config))
	a, _ := connect(t, "A", p.Addr)
	b, _ := connect(t, "B", p.Addr)
	for i, config := range []string{endless("0s", "mode: lock"), guarding("mode: pass"), endless("0s", "mode: lock")} {
		publish(fmt.Sprintf("..2026_02_%02d", i+1), config)
		p.tookOver()
		a.does(nil, "GET", "ctx:s")
		if strings.Contains(config, "pass") {
			b.does(nil, "GET", "ctx:s")
			continue
		}
		b.fails("LOCKED", "GET", "ctx:s")
		a.does(int64(0), "DEL", "ctx:s") // and so releases it
	}
	if n := p.Metric(reloadsBad); n != 0 {
		t.Errorf("%v reloads failed", n)
	}
}

func TestWhatARunningProxyCannotTakeOverIsNamed(t *testing.T) {
	t.Parallel()
	p := startReloaded(t, guarding("mode: lock"))
	p.head = strings.Replace(p.head, p.Addr, "127.0.0.1:1", 1)
	p.becomes("drain: 1m\nlog: {level: debug, format: json}\nlimits: {output_buffer: 1mb}\n" + guarding("mode: lock"))
	for _, key := range []string{"listen", "log.format", "limits.output_buffer"} {
		p.WaitLog(t, `msg="configuration changed where a running proxy can't follow: restart it" key=`+key)
	}
	if strings.Contains(p.Logs(), "restart it\" key=drain") || strings.Contains(p.Logs(), "restart it\" key=log.level") {
		t.Error("what was taken over is named, too")
	}
	_, conn := connect(t, "A", p.Addr)
	_ = conn.Close()
	p.WaitLog(t, "level=DEBUG msg=\"client left\"")
}

func TestAProxyThatGuardedNothingBeginsToWhenItIsReloaded(t *testing.T) {
	t.Parallel()
	p := startReloaded(t, "rules: []\n")
	a, _ := connect(t, "A", p.Addr)
	b, _ := connect(t, "B", p.Addr)
	a.does(nil, "GET", "ctx:s")
	b.does(nil, "GET", "ctx:s")
	p.becomes(endless("10s", "mode: lock"))
	a.does(nil, "GET", "ctx:s")
	b.sends("SET", "ctx:s", "b")
	lineFor(t, p.redis, "ctx:s").hasWaiters(1)
	a.does("OK", "SET", "ctx:s", "a")
	b.hears("OK")
}

func TestAProxyThatMayNotGuardKeepsTheConfigurationUnderWhichItNeedNot(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	allow(t, server, "weak", "+@all -watch ~* &*")
	url := strings.Replace(server.URL(), "redis://", "redis://weak:pw@", 1)
	p := harness.StartProxy(t, harness.ProxyOptions{Upstream: url, Admin: true, ConfigYAML: "rules: []\n"})
	text, err := os.ReadFile(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(string(text), "rules: []\n", guarding("mode: lock"), 1)
	if err := os.WriteFile(p.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Hangup()
	p.WaitLog(t, "the one before stays")
	p.WaitLog(t, "the upstream does not let the proxy's user guard")
	a, _ := connect(t, "A", p.Addr)
	a.does(nil, "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "a")
}

func TestWithoutAFileThereIsNothingToReload(t *testing.T) {
	t.Parallel()
	listen := "unix://" + t.TempDir() + "/s"
	p := harness.StartProxy(t, harness.ProxyOptions{Listen: listen, Args: []string{"--config", "", "--listen", listen, "--admin", ""}})
	p.Hangup()
	p.WaitLog(t, `level=WARN msg="there is no configuration file: nothing to reload"`)
	a, _ := connect(t, "A", p.Addr)
	a.does("PONG", "PING")
}
