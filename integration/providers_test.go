//go:build integration

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// lockServers are a lock provider's real servers, for one test.
type lockServers struct {
	config      string        // lines below lock:, indented, without provider
	lease       time.Duration // how long others wait at most for a session of a proxy that is gone
	stop, start func()        // of all servers, that keep what they have
}

// lockProvider is one of those that there are beside the store itself.
type lockProvider struct {
	name  string
	start func(t *testing.T) lockServers
}

// keptHolds end with what the test does, or soon after their proxy is gone: some providers have the lease of the rule.
var keptHolds = []string{"wait: 20s", "lease: 2s", "max_hold: 10m", "idle: 10m"}

// eachProvider runs a test with each lock provider, side by side.
func eachProvider(t *testing.T, test func(e *elsewhere)) {
	t.Helper()
	for _, p := range lockProviders {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(&elsewhere{t: t, name: p.name, lockServers: p.start(t), redis: harness.StartRedis(t)})
		})
	}
}

// elsewhere is a Redis, and a lock provider beside it.
type elsewhere struct {
	lockServers
	t     *testing.T
	name  string
	redis *harness.Redis
	also  string // further lines below lock:
}

// locks is the configuration's part about locks.
func (e *elsewhere) locks() string { return "lock:\n  provider: " + e.name + "\n" + e.also + e.config }

// proxy starts a proxy that guards "ctx:"; the options are lines of the rule.
func (e *elsewhere) proxy(name string, options ...string) *harness.Proxy {
	e.t.Helper()
	return e.proxyBefore(name, "", options...)
}

// proxyBefore is proxy with another way to the Redis.
func (e *elsewhere) proxyBefore(name, upstream string, options ...string) *harness.Proxy {
	e.t.Helper()
	p := harness.StartProxy(e.t, harness.ProxyOptions{
		Name: name, Redis: e.redis, Upstream: upstream, Admin: true, ConfigYAML: e.locks() + guarding(options...),
	})
	e.ready(p)
	return p
}

// ready waits until a proxy can serve.
func (e *elsewhere) ready(p *harness.Proxy) {
	e.t.Helper()
	harness.Eventually(e.t, 0, func() bool { return isReady(p) }, "the proxy at "+p.Addr+" is ready")
}

func isReady(p *harness.Proxy) bool {
	status, _ := p.Page("/readyz")
	return status == 200
}

// Case 1.
func TestNoUpdateIsLostWithLocksElsewhere(t *testing.T) {
	t.Parallel()
	const owners, rounds = 8, 10
	for _, mode := range []string{"lock", "fence", "auto"} {
		t.Run(mode, func(t *testing.T) {
			eachProvider(t, func(e *elsewhere) {
				t := e.t
				proxies := []*harness.Proxy{
					e.proxy("one", "mode: "+mode, "wait: 20s"), e.proxy("two", "mode: "+mode, "wait: 20s"),
				}
				var work sync.WaitGroup
				for i := range owners {
					c, _ := connect(t, fmt.Sprint(i), proxies[i%2].Addr)
					work.Go(func() {
						for n := 0; n < rounds; {
							if c.adds("ctx:s", fmt.Sprintf("%d.%d ", i, n)) {
								n++
							}
						}
					})
				}
				work.Wait()
				value, err := e.redis.Client().Get(t.Context(), "ctx:s").Result()
				if err != nil {
					t.Fatal(err)
				}
				for i := range owners {
					for n := range rounds {
						if want := fmt.Sprintf("%d.%d ", i, n); strings.Count(value, want) != 1 {
							t.Errorf("update %sis there %d times", want, strings.Count(value, want))
						}
					}
				}
			})
		})
	}
}

// adds is one read-modify-write; it reports false if it was refused and nothing written.
func (p *party) adds(key, text string) bool {
	p.write("GET", key)
	was, err := p.read()
	if err != nil {
		p.t.Errorf("%s: %v", p.name, err)
		return true
	}
	if isRefusal(was) {
		return false
	}
	old, _ := was.(string)
	p.write("SET", key, old+text)
	got, err := p.read()
	switch {
	case err != nil:
		p.t.Errorf("%s: %v", p.name, err)
	case isRefusal(got):
		return false
	case got != "OK":
		p.t.Errorf("%s: %v", p.name, got)
	}
	return true
}

// isRefusal reports whether a reply says that nothing was written.
func isRefusal(reply any) bool {
	return isError(reply, "FENCED") || isError(reply, "LOCKED") || isError(reply, "FENCEDOWN")
}
