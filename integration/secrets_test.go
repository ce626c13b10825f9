//go:build integration

package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Every password that the proxy is given or hears of has this in it.
const hush = "hunter2"

// No password is in what the proxy logs, shows, sends or says, nor does Redis hear of its users'.
func TestNoPasswordIsToldToAnybody(t *testing.T) {
	t.Setenv("WORKER_PASSWORD", hush+"-in-a-variable")
	server := harness.StartRedis(t, harness.WithPassword(hush+"-of-the-redis"))
	allow(t, server, "other", "+@all ~* &*")
	alsoTakes(t, server, "other", hush+"-of-another")
	collector := harness.StartCollector(t)
	secret := mount(t, map[string]string{"redis": hush + "-of-the-redis\n", "worker": hush + "-in-a-file\n", "token": hush + "-0123456789abcdef"})
	upstream := fmt.Sprintf("upstream: {url: \"redis://%s\", password_file: %q}\n", server.Addr, secret.path("redis"))
	rest := fmt.Sprintf("admin_token_file: %q\nlog: {level: debug}\ntelemetry: {endpoint: %q, session_names: true}\n", secret.path("token"), collector.HTTP) +
		guarding("mode: lock", "wait: 0s")
	users := fmt.Sprintf("users:\n  - {name: worker, passwords: [%s], password_file: %q, password_env: WORKER_PASSWORD}\n  - {name: default, passwords: [%s-of-default]}\n",
		hush, secret.path("worker"), hush)
	monitor := harness.Dial(t, server.Addr)
	monitor.Do("AUTH", hush+"-of-the-redis")
	monitor.Do("MONITOR")

	var all strings.Builder
	for name, config := range map[string]string{"with users": upstream + users + rest, "without": upstream + rest} {
		proxy := harness.StartProxy(t, harness.ProxyOptions{Name: name, Admin: true, ConfigYAML: config})
		for i, login := range [][]string{
			{"AUTH", "worker", hush},
			{"AUTH", "worker", hush + "-in-a-file"},
			{"AUTH", "worker", hush + "-wrong"},
			{"AUTH", hush + "-alone"},
			{"AUTH", hush + "-for-a-name", "x"},
			{"AUTH", "a", hush, hush},
			{"HELLO", "3", "AUTH", "worker", hush},
			{"HELLO", "3", "AUTH", "worker", hush + "-wrong"},
			{"AUTH", "other", hush + "-of-another"},
			{"HELLO", "2", "AUTH", "other", hush + "-of-another"},
		} {
			if name == "without" && len(login) == 4 {
				continue // Redis takes it for no login, and shows all of it in MONITOR
			}
			c := harness.Dial(t, proxy.Addr)
			for _, command := range [][]string{
				login, login,
				{"GET", fmt.Sprint("ctx:", i)},
				{"MULTI"},
				login,
				{"EXEC"},
				{"FENCE.ACQUIRE", "ctx:held"},
				{"FENCE.INSPECT", "ctx:held"},
				{"FENCE.LIST"},
				{"FENCE.EXPLAIN", "ctx:s"},
				{"FENCE.BREAK", "ctx:held"},
				{"SET", fmt.Sprint("ctx:", i), "v"},
			} {
				all.Write(c.Do(command...))
			}
		}
		for _, path := range []string{"/config", "/metrics", "/", "/healthz", "/readyz", "/api/v1/config", "/api/v1/overview", "/api/v1/holds", "/api/v1/refusals", "/api/v1/explain?key=ctx:s"} {
			response, err := http.Get("http://" + proxy.Admin + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(&all, response.Body)
			_ = response.Body.Close()
		}
		for _, args := range [][]string{{"check", proxy.Config}, {"explain", "--config", proxy.Config, "ctx:s"}, {"doctor", "--config", proxy.Config}} {
			_, output := harness.RunProxy(t, args...)
			all.WriteString(output)
		}
		proxy.Terminate()
		proxy.Wait()
		all.WriteString(proxy.Logs())
	}
	all.WriteString(collector.Text())
	for line := range strings.Lines(all.String()) {
		if strings.Contains(line, hush) {
			t.Errorf("a password is in %.300q", line)
		}
	}
	if !strings.Contains(all.String(), "worker") || !strings.Contains(all.String(), "level=DEBUG") {
		t.Error("the test has not looked where passwords could be")
	}
	server.Client().Echo(t.Context(), "the end")
	for {
		line := string(monitor.ReadReply())
		if strings.Contains(line, hush) { // Redis hides those that it is asked to check
			t.Errorf("Redis hears %q", line)
		}
		if strings.Contains(line, "the end") {
			break
		}
	}
}

// Mistakes in a configuration are told without the password that is in them.
func TestNoPasswordIsInWhatIsSaidOfAMistake(t *testing.T) {
	t.Parallel()
	tells := func(output string) bool {
		return strings.Contains(output, hush) || strings.Contains(output, "12345678")
	}
	for _, text := range []string{
		"upstream: {url: \"redis://u:" + hush + "@127.0.0.1:1\", start_timeout: 0s}\n",
		"upstream: {url: \"redis://127.0.0.1:1\", username: u, password: " + hush + ", start_timeout: 1s}\n",
		"upstream: {url: \"redis://u:" + hush + "@127.0.0.1:1/x\"}\n",
		"users: [{name: a, passwords: [" + hush + "], password: " + hush + "}]\n",
		"users: [{name: a, passwords: " + hush + "}]\n",
		"users: [{name: a, passwords: [12345678]}]\n",
		"upstream: {url: \"redis://127.0.0.1:1\", password: 12345678, start_timeout: 0s}\n",
		"admin_token: 12345678\n",
		"users: [{name: a, passwords: ['#" + hush + strings.Repeat("0", 57) + "']}]\n",
		"users: [{name: a, passwords: [" + hush + "], admin: 7}, {name: a, passwords: [" + hush + "]}]\n",
	} {
		path := mount(t, map[string]string{"config.yaml": "listen: 127.0.0.1:0\nadmin: \"\"\n" + text}).path("config.yaml")
		code, output := harness.RunProxy(t, "--config", path)
		if code == 0 || tells(output) {
			t.Errorf("exit code %d, %s", code, output)
		}
		_, output = harness.RunProxy(t, "check", path)
		if tells(output) {
			t.Errorf("check: %s", output)
		}
	}
}
