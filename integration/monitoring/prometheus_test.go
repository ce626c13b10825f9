//go:build integration

package monitoring

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const files = "../../charts/fence-proxy/files/"

// scrape is how often Prometheus looks; a rule's shortest time is a second here.
const scrape = "500ms"

// prometheus is a real one that scrapes some proxies.
type prometheus struct {
	*testing.T
	addr   string
	client http.Client
}

// startPrometheus has minutes be seconds in the alert rules.
func startPrometheus(t *testing.T, targets ...*harness.Proxy) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := os.ReadFile(files + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	minutes := regexp.MustCompile(`(\[|for: )(\d+)m`)
	write(t, dir, "alerts.yaml", minutes.ReplaceAllString(string(rules), "${1}${2}s"))
	var addrs []string
	for _, p := range targets {
		addrs = append(addrs, fmt.Sprintf("%q", p.Admin))
	}
	write(t, dir, "prometheus.yml", fmt.Sprintf(`global: {scrape_interval: %s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [alerts.yaml]
scrape_configs:
  - job_name: fence-proxy
    static_configs: [{targets: [%s], labels: {namespace: agents}}]
`, scrape, strings.Join(addrs, ", ")))
	p := &prometheus{T: t, addr: fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))}
	p.client.Timeout = 10 * time.Second
	harness.StartServer(t, p.addr, exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr, "--log.level=warn"))
	t.Cleanup(p.client.CloseIdleConnections)
	harness.Eventually(t, time.Minute, func() bool {
		r, err := p.client.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	}, "prometheus is ready")
	return p
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// firing returns the names of the alerts that fire, sorted.
func (p *prometheus) firing() []string {
	p.Helper()
	var answer struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	p.ask("/api/v1/alerts", &answer)
	var names []string
	for _, a := range answer.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// series is the number of series that a query returns.
func (p *prometheus) series(query string) int {
	p.Helper()
	var answer struct{ Result []json.RawMessage }
	p.ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
	return len(answer.Result)
}

func (p *prometheus) ask(path string, data any) {
	p.Helper()
	r, err := p.client.Get("http://" + p.addr + path)
	if err != nil {
		p.Fatal(err)
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Status != "success" {
		p.Fatalf("%s: %s %s (%v)", path, answer.Status, answer.Error, err)
	}
}
