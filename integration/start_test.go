//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const notYet = "the upstream can't be reached yet; trying again"

// A proxy that starts before its Redis, or beside one that restarts, waits for it. Each upstream is away when the proxy starts.
func TestAProxyWaitsForAnUpstreamThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	t.Run("a Redis that does not run", func(t *testing.T) {
		server := harness.StartRedis(t)
		server.Kill()
		waitsForUpstream(t, server.URL(), server.Restart)
	})
	t.Run("a network that resets connections", func(t *testing.T) {
		server := harness.StartRedis(t)
		relay := harness.StartRelay(t, server.Addr)
		waitsForUpstream(t, relay.URL(), func() {}, func(proxy *harness.Proxy) {
			for n := 0; !strings.Contains(proxy.Logs(), notYet); n += 37 { // at whatever it does
				<-relay.CutAfterBytes(harness.ToClient, n%3000)
			}
		})
	})
	t.Run("Sentinels that do not run", func(t *testing.T) {
		set := harness.StartSentinels(t)
		for _, s := range set.Sentinels {
			s.Pause()
		}
		waitsForUpstream(t, set.URL(), func() {
			for _, s := range set.Sentinels {
				s.Resume()
			}
		})
	})
	t.Run("a cluster that does not run", func(t *testing.T) {
		cluster := harness.StartCluster(t, 3, 0)
		for _, n := range cluster.Nodes {
			n.Pause()
		}
		waitsForUpstream(t, cluster.URL(), func() {
			for _, n := range cluster.Nodes {
				n.Resume()
			}
		})
	})
}

// waitsForUpstream starts a proxy, does what keeps it from connecting until it says so, and lets it connect. Then it serves, as if nothing had been.
func waitsForUpstream(t *testing.T, url string, mend func(), hinder ...func(*harness.Proxy)) {
	t.Helper()
	proxy := harness.LaunchProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf("upstream: {url: %q, dial_timeout: 1s}\n%s", url, guarding())})
	for _, do := range hinder {
		do(proxy)
	}
	proxy.WaitLog(t, notYet)
	mend()
	proxy.Await()
	first, _ := connect(t, "first", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	first.sends("GET", "ctx:s")
	first.reply()
	other.sends("GET", "ctx:s")
	first.does("OK", "SET", "ctx:s", "v")
	other.hears("v") // it was woken up
}

// What will not be over by itself is told at once.
func TestWhatKeepsAProxyFromStartingForGoodIsToldAtOnce(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithPassword("right"))
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"\"\nupstream: {url: \"redis://:wrong@%s\", start_timeout: 24h}\n", server.Addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, output := harness.RunProxy(t, "--config", config); code != 1 || !strings.Contains(output, "WRONGPASS") || strings.Contains(output, notYet) {
		t.Errorf("exit code %d, %s", code, output)
	}
}

// A proxy that waits for its upstream ends when it is told to, and when the time is over.
func TestAProxyDoesNotWaitForItsUpstreamForEver(t *testing.T) {
	t.Parallel()
	nobody := fmt.Sprintf("redis://127.0.0.1:%d", harness.FreePort(t))
	proxy := harness.LaunchProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf("upstream: {url: %q, start_timeout: 24h}\n", nobody)})
	proxy.WaitLog(t, notYet)
	proxy.Terminate()
	proxy.Wait()
	impatient := harness.LaunchProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf("upstream: {url: %q, start_timeout: 1s}\n", nobody)})
	if code := impatient.Wait(); code != 1 || !strings.Contains(impatient.Logs(), notYet) || !strings.Contains(impatient.Logs(), "fence-proxy: upstream "+nobody) {
		t.Errorf("exit code %d, %s", code, impatient.Logs())
	}
}
