//go:build kube

package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Where the definitions of the kinds come from that Kubernetes itself does not know.
var definitions = []struct{ module, files string }{
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_*monitors.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
	{"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/cert-manager.io_certificates.yaml"},
	{"github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/cert-manager.io_issuers.yaml"},
}

// installDefinitions gives the API server the definitions, and waits until it serves them.
func installDefinitions(t *testing.T, server *harness.Kubernetes) {
	t.Helper()
	for _, d := range definitions {
		output, err := exec.Command("go", "mod", "download", "-json", d.module).Output()
		if err != nil {
			t.Fatalf("download %s: %v\n%s", d.module, err, output)
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(output, &module); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(module.Dir, d.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no %s", d.module, d.files)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var crd map[string]any
			if err := yaml.Unmarshal(text, &crd); err != nil {
				t.Fatal(err)
			}
			name := (&unstructured.Unstructured{Object: crd}).GetName()
			server.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
			plural, group, _ := strings.Cut(name, ".")
			harness.Eventually(t, 0, func() bool {
				status, _, err := server.Ask(http.MethodGet, "/apis/"+group+"/v1/"+plural, nil)
				return err == nil && status == http.StatusOK
			}, name+" is served")
		}
	}
}

// plurals are the collections of kinds, and whether they are in a namespace.
var plurals = map[string]string{
	"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts", "Deployment": "deployments",
	"PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies", "Role": "roles", "RoleBinding": "rolebindings",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
	"PodMonitor": "podmonitors", "ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules",
	"Certificate": "certificates", "Issuer": "issuers",
}

// collection is the path of an object's collection.
func collection(o *object) string {
	root := "/apis/"
	if !strings.Contains(o.GetAPIVersion(), "/") {
		root = "/api/"
	}
	space := o.GetNamespace()
	switch {
	case strings.HasPrefix(o.GetKind(), "Cluster") || o.GetKind() == "MutatingWebhookConfiguration":
		return root + o.GetAPIVersion() + "/" + plurals[o.GetKind()]
	case space == "":
		space = namespace
	}
	return root + o.GetAPIVersion() + "/namespaces/" + space + "/" + plurals[o.GetKind()]
}

// certified puts a certificate that there is in the place of the golden files' made ones.
func certified(text string, server *harness.Kubernetes) string {
	authority := encode(server.CA())
	return strings.NewReplacer("bWFkZQ==", authority, "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t\n", authority+"\n").Replace(text)
}

// TestKubeAPIServerAcceptsEveryObject has the API server look at each object as if it were created: its fields, also those that
// nobody knows, and what they mean together.
func TestKubeAPIServerAcceptsEveryObject(t *testing.T) {
	server := harness.StartKubernetes(t)
	installDefinitions(t, server)
	for _, space := range []string{namespace, "agents", "workers", "locks"} {
		server.CreateNamespace(space)
	}
	looked := map[string]int{}
	for _, path := range goldens(t) {
		for _, o := range objects(t, path) {
			if plurals[o.GetKind()] == "" {
				t.Errorf("%s: no collection for %s", path, o)
				continue
			}
			var body map[string]any
			if err := yaml.Unmarshal([]byte(certified(o.text, server)), &body); err != nil {
				t.Fatal(err)
			}
			if o.GetKind() == "PrometheusRule" {
				body["spec"] = map[string]any{"groups": alertGroups(t)} // the real ones
			}
			status, answer, err := server.Ask(http.MethodPost, collection(o)+"?dryRun=All&fieldValidation=Strict", body)
			if err != nil || status != http.StatusCreated {
				t.Errorf("%s: %s: %d %v %v", path, o, status, answer["message"], err)
			}
			looked[o.GetKind()]++
		}
	}
	for kind := range plurals {
		if looked[kind] == 0 {
			t.Errorf("there is no %s in any case", kind)
		}
	}
	// It would have said so.
	wrong := map[string]any{"metadata": map[string]any{"name": "x"}, "data": map[string]any{"a": "b"}, "dta": map[string]any{}}
	if status, _, _ := server.Ask(http.MethodPost, "/api/v1/namespaces/agents/configmaps?dryRun=All&fieldValidation=Strict", wrong); status != http.StatusBadRequest {
		t.Errorf("an unknown field is accepted: %d", status)
	}
	var left []string
	answer := server.Do(http.MethodGet, "/api/v1/configmaps", nil)
	for _, item := range answer["items"].([]any) {
		left = append(left, fmt.Sprint((&unstructured.Unstructured{Object: item.(map[string]any)}).GetName()))
	}
	if slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "fence") }) {
		t.Errorf("looking has left %v", left)
	}
}

func encode(text []byte) string {
	encoded, _ := json.Marshal(text) // bytes are base64 in JSON
	return string(bytes.Trim(encoded, `"`))
}
