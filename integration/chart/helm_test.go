//go:build chart

package chart

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// made are the parts of a certificate, which is another each time.
var made = regexp.MustCompile(`(ca\.crt|tls\.crt|tls\.key|caBundle): [A-Za-z0-9+/=]{200,}`)

// helm runs Helm and returns what it prints. The environment variable HELM is its path.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path := os.Getenv("HELM")
	if path == "" {
		t.Fatal("HELM is not set: run make chart")
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir(), "KUBECONFIG=/dev/null")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), errors.New(stderr.String())
	}
	return stdout.String(), nil
}

// compare compares a rendered text with its golden file.
func compare(t *testing.T, golden, text string) {
	t.Helper()
	text = made.ReplaceAllString(text, "$1: bWFkZQ==")
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s is another; make chart UPDATE=1 writes it anew:\n%s", golden, text)
	}
}

// sample is the chart with other alert rules and dashboards.
func sample(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fence-proxy")
	if err := os.CopyFS(dir, os.DirFS(chartDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "files")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "files"), os.DirFS("testdata/files")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheChartRendersAsBefore(t *testing.T) {
	dir := sample(t)
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			if out, err := helm(t, "lint", "--strict", dir, "--values", c.values, "--kube-version", c.kubeVersion); err != nil {
				t.Errorf("lint: %v\n%s", err, out)
			}
			text, err := helm(t, "template", release, dir, "--namespace", namespace, "--values", c.values, "--kube-version", c.kubeVersion)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, c.golden(), text)
		})
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(sumFile, []byte(sum(t)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestItsOwnAlertsAndDashboardsAreRendered as they are in its files.
func TestItsOwnAlertsAndDashboardsAreRendered(t *testing.T) {
	text, err := helm(t, "template", release, chartDir, "--kube-version", "1.36.0",
		"--set", "monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, dashboards := 0, 0
	for _, o := range objects(t, path) {
		if o.GetKind() == "PrometheusRule" {
			rules++
			if got := o.Object["spec"].(map[string]any)["groups"]; !reflect.DeepEqual(got, alertGroups(t)) {
				t.Errorf("the groups are %v", got)
			}
		}
		data, _ := o.Object["data"].(map[string]any)
		for name, got := range data {
			file, err := os.ReadFile(filepath.Join(chartDir, "files", name))
			if err != nil {
				continue
			}
			dashboards++
			if strings.TrimSpace(got.(string)) != strings.TrimSpace(string(file)) {
				t.Errorf("%s is another in its ConfigMap", name)
			}
		}
	}
	if rules != 1 || dashboards == 0 {
		t.Errorf("%d PrometheusRules, %d dashboards", rules, dashboards)
	}
}

// TestAnotherChartTakesTheSidecar has the chart as a dependency of one that includes its templates.
func TestAnotherChartTakesTheSidecar(t *testing.T) {
	parent := t.TempDir()
	if err := os.CopyFS(parent, os.DirFS("testdata/parent")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(parent, "charts", "fence-proxy"), os.DirFS(chartDir)); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"parent":             {"--kube-version", "1.36.0"},
		"parent-socket":      {"--kube-version", "1.36.0", "--set", "fence-proxy.sidecar.transport=unix"},
		"parent-old-cluster": {"--kube-version", "1.28.0"},
	} {
		text, err := helm(t, append([]string{"template", release, parent, "--namespace", namespace}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join("testdata", "golden", name+".yaml"), text)
	}
	if _, err := helm(t, "template", parent, "--kube-version", "1.36.0", "--set", "fence-proxy.sidecar.upstream.secretKeyRef=null"); err == nil || !strings.Contains(err.Error(), "say where the Redis is") {
		t.Errorf("without an upstream: %v", err)
	}
}

// A typo fails at install, with its place.
func TestTypicalMistakesAreRefused(t *testing.T) {
	for mistake, test := range map[string]struct{ set, want string }{
		"misspelt group":          {"injecter.enabled=true", "additional properties 'injecter' not allowed"},
		"misspelt value":          {"injector.failurepolicy=Fail", "'/injector': additional properties 'failurepolicy' not allowed"},
		"misspelt rule option":    {"rules[0].name=a,rules[0].prefix=b,rules[0].max_hld=2m", "'/rules/0': additional properties 'max_hld' not allowed"},
		"rule without prefix":     {"rules[0].name=a", "'/rules/0': missing property 'prefix'"},
		"unknown mode":            {"rules[0].name=a,rules[0].prefix=b,rules[0].mode=locks", "'/rules/0/mode': value must be one of 'lock', 'fence', 'auto'"},
		"time without unit":       {"rules[0].name=a,rules[0].prefix=b,rules[0].wait=1500", "'/rules/0/wait': got number, want string"},
		"unknown preset":          {"presets[0]=langraph", "'/presets/0': value must be one of 'langgraph'"},
		"misspelt option":         {"config.limit.waiters=3", "'/config': additional properties 'limit' not allowed"},
		"word for a number":       {"config.limits.waiters=many", "'/config/limits/waiters': got string, want integer"},
		"unknown provider":        {"config.lock.provider=etcdd", "'/config/lock/provider': value must be one of 'redis', 'etcd'"},
		"rules in config":         {"config.rules[0].name=a", "'/config': additional properties 'rules' not allowed"},
		"port out of range":       {"sidecar.port=66000", "'/sidecar/port': maximum: got 66,000, want 65,535"},
		"upstream that is no URL": {"shared.upstream.url=redis:6379", "'/shared/upstream/url': 'redis:6379' does not match pattern"},
		"a path that is none":     {"secretFiles[0].secretName=a,secretFiles[0].mountPath=tls", "'/secretFiles/0/mountPath': 'tls' does not match pattern"},
		"no upstream":             {"shared.enabled=true", "shared.upstream: say where the Redis is"},
		"policy in lower case":    {"injector.failurePolicy=fail", "'/injector/failurePolicy': value must be one of 'Ignore', 'Fail'"},
		"half a reference":        {"shared.upstream.secretKeyRef.name=redis", "'/shared/upstream/secretKeyRef': properties 'key' required, if 'name' exists"},
		"no certificate":          {"injector.enabled=true,injector.certificates.mode=existing", "injector.certificates.caBundle: with mode existing, give what the certificate is checked with"},
		"quantity":                {"sidecar.resources.limits.memory=256MB", "'/sidecar/resources/limits/memory': '256MB' does not match pattern"},
	} {
		_, err := helm(t, "template", chartDir, "--kube-version", "1.36.0", "--set", test.set)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s (%s): %v", mistake, test.set, err)
		}
	}
	if _, err := helm(t, "template", chartDir, "--kube-version", "1.24.0"); err == nil || !strings.Contains(err.Error(), "kubeVersion") {
		t.Errorf("on a cluster that is too old: %v", err)
	}
}
