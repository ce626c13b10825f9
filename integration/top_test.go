//go:build integration

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestARunningProxySaysWhatIsHeld(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: endless("60s")})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	a.does(nil, "GET", "ctx:s")
	b.sends("GET", "ctx:s")
	eventually := func(args []string, parts ...string) {
		t.Helper()
		var output string
		harness.Eventually(t, 0, func() bool {
			var code int
			if code, output = harness.RunProxy(t, args...); code != 0 {
				t.Fatalf("%q: %d %s", args, code, output)
			}
			for _, part := range parts {
				if !strings.Contains(output, part) {
					return false
				}
			}
			return true
		}, strings.Join(args, " ")+" shows "+strings.Join(parts, ", "))
	}
	eventually([]string{"top", "--admin", proxy.Admin}, "ready", "holds 1", "waiting 1", "SESSION", "ctx:s")
	eventually([]string{"holds", "--admin", proxy.Admin}, "SESSION", "ctx:s")
	eventually([]string{"explain", "--admin", proxy.Admin, "ctx:s"}, "guarded", "true", "held by", "in line", "1: ")
	eventually([]string{"holds", "--config", proxy.Config}, "ctx:s") // the address is in the configuration

	_, text := harness.RunProxy(t, "explain", "--admin", proxy.Admin, "--json", "ctx:s")
	var e struct {
		Rule, Session string
		Record        struct {
			Grant   uint64
			Holder  struct{ Grant uint64 }
			Waiting int
		}
		Known struct{ Turns []struct{ State string } }
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Rule != "ctx" || e.Record.Waiting != 1 || e.Record.Holder.Grant != e.Record.Grant || len(e.Known.Turns) != 2 {
		t.Errorf("%v, %+v in %s", err, e, text)
	}
	if code, text := harness.RunProxy(t, "holds", "--admin", proxy.Admin, "--rule", "other"); code != 0 || strings.Contains(text, "ctx:s") {
		t.Errorf("%d %s", code, text)
	}
	a.does("OK", "SET", "ctx:s", "v")
	b.reply()
}

func TestWhatIsAskedOfNobodyIsAnError(t *testing.T) {
	t.Parallel()
	nobody := harness.FreePort(t)
	for _, args := range [][]string{{"top", "--once"}, {"holds"}, {"explain", "k"}} {
		addr := "127.0.0.1:" + strconv.Itoa(nobody)
		code, output := harness.RunProxy(t, append(args, "--admin", addr)...)
		if code != 1 || !strings.Contains(output, "no answer from the admin address "+addr) {
			t.Errorf("%q: %d %s", args, code, output)
		}
	}
	for _, args := range [][]string{{"holds", "--sort", "colour"}, {"holds", "--limit", "501"}, {"top", "--interval", "1ms"}, {"explain", "--json", "k"}, {"holds", "--admin", ""}} {
		if code, output := harness.RunProxy(t, args...); code != 2 {
			t.Errorf("%q: %d %s", args, code, output)
		}
	}
}

// In a terminal top goes on until q, and leaves the screen as it was.
func TestTopIsLiveInATerminal(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: endless("0s")})
	top := exec.Command("script", "-qefc", harness.Build(t)+" top --interval 100ms --admin "+proxy.Admin, "/dev/null")
	keys, err := top.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var shown harness.Transcript
	top.Stdout, top.Stderr = &shown, &shown
	if err := top.Start(); err != nil {
		t.Fatal(err)
	}
	shows := func(text string) {
		t.Helper()
		harness.Eventually(t, 0, func() bool { return strings.Contains(shown.String(), text) }, "top shows "+text)
	}
	shows("nothing is held")
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", "ctx:live")
	shows("ctx:live")
	if _, err := keys.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if err := top.Wait(); err != nil {
		t.Errorf("%v: %s", err, shown.String())
	}
	if text := shown.String(); !strings.Contains(text, "\x1b[?1049h") || !strings.HasSuffix(strings.TrimSpace(text), "\x1b[?1049l") {
		t.Errorf("the screen is not left as it was: %q", text)
	}
}

func TestTheConfigurationInForceIsShownAfterAReload(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.WithPassword("hunter2"))
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "drain: 5s\n" + endless("0s"), Env: []string{"FENCE_ADMIN_TOKEN=hunter2-hunter2-hunter2"}})
	shows := func(parts ...string) {
		t.Helper()
		harness.Eventually(t, 0, func() bool {
			_, page := proxy.Page("/config")
			if strings.Contains(page, "hunter2") {
				t.Fatalf("a secret is in\n%s", page)
			}
			for _, part := range parts {
				if !strings.Contains(page, part) {
					return false
				}
			}
			return true
		}, "/config shows "+strings.Join(parts, ", "))
	}
	shows("drain: 5s", `admin_token: "xxxxx"`, "redis://:xxxxx@"+server.Addr, `name: "ctx"`)
	edit := func(change func(text string) string) {
		t.Helper()
		text, err := os.ReadFile(proxy.Config)
		if err == nil {
			err = os.WriteFile(proxy.Config, []byte(change(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(func(text string) string { return strings.Replace(text, "drain: 5s", "drain: 7s\nname: other", 1) })
	shows("drain: 7s", "# The file has another name, which counts from the next start on.")
	edit(func(text string) string { return text + "colour: red\n" })
	shows("drain: 7s", "# The file as it is now was not taken over: ", "colour: is not an option")
}
