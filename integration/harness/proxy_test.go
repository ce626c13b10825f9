package harness_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestProxyRunsFromStartToSigterm(t *testing.T) {
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server})
	conn := harness.Dial(t, proxy.Addr)
	conn.Do("SET", "k", "v")
	if got := server.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("the server has %q, want %q: is it the proxy's upstream?", got, "v")
	}
	proxy.Pause()
	conn.Send("PING\r\n")
	proxy.Resume()
	if got := conn.ReadReply(); string(got) != "+PONG\r\n" {
		t.Errorf("PING: %q", got)
	}
	_ = conn.Close()
	proxy.Terminate()
	if code := proxy.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	proxy.Start()
	if err := proxy.Client().Ping(t.Context()).Err(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestTheTestsOwnConfigurationWins(t *testing.T) {
	listen := "unix://" + filepath.Join(t.TempDir(), "proxy.sock")
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		ConfigYAML: "listen: \"" + listen + "\" # ours\nupstream:\n  url: " + server.URL() + "\n",
	})
	if proxy.URL() != listen {
		t.Errorf("the proxy listens at %s", proxy.URL())
	}
	if got := harness.Dial(t, proxy.Addr).Do("PING"); string(got) != "+PONG\r\n" {
		t.Errorf("PING: %q", got)
	}
}

func TestRunProxyReturnsExitCodeAndOutput(t *testing.T) {
	if code, output := harness.RunProxy(t, "version"); code != 0 || strings.TrimSpace(output) == "" {
		t.Errorf("version: exit code %d, %q", code, output)
	}
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	if code, output := harness.RunProxy(t, "--config", missing); code == 0 || !strings.Contains(output, missing) {
		t.Errorf("a missing configuration: exit code %d, %q", code, output)
	}
}
