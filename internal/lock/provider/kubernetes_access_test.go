//go:build kube

package provider_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func (c *kubeCluster) everyRightIsNeededAndNoOther() {
	if err := c.open().Check(c.Context()); err != nil {
		c.Errorf("Check with the documented rights, as soon as the Locker is open: %v", err)
	}
	verbs := []any{"get", "list", "watch", "create", "update", "delete"}
	for i, verb := range verbs {
		name := fmt.Sprintf("without-%v", verb)
		rights := append(append([]any{}, verbs[:i]...), verbs[i+1:]...)
		c.server.Do(http.MethodPost, "/api/v1/namespaces/"+kubeNamespace+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": name}})
		rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + kubeNamespace
		c.server.Do(http.MethodPost, rbac+"/roles", map[string]any{
			"metadata": map[string]any{"name": name},
			"rules":    []any{map[string]any{"apiGroups": []any{"coordination.k8s.io"}, "resources": []any{"leases"}, "verbs": rights}},
		})
		c.server.Do(http.MethodPost, rbac+"/rolebindings", map[string]any{
			"metadata": map[string]any{"name": name},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": kubeNamespace}},
		})
		limited := *c
		limited.token = c.server.Token(kubeNamespace, name)
		l := limited.open()
		c.eventually(fmt.Sprintf("Check names the right to %v, which is missing", verb), func() bool {
			err := l.Check(c.Context())
			return err != nil && strings.Contains(err.Error(), fmt.Sprintf("cannot %v resource", verb))
		})
	}
	for _, other := range []string{"/api/v1/namespaces/" + kubeNamespace + "/secrets", "/apis/coordination.k8s.io/v1/namespaces/default/leases"} {
		if status, _, err := c.server.AskAs(c.token, http.MethodGet, other, nil); status != http.StatusForbidden {
			c.Errorf("GET %s with the documented rights: %d, %v", other, status, err)
		}
	}
}

func (c *kubeCluster) aMissingNamespaceIsAnError() {
	l := openKube(c, c.server.Kubeconfig(c, "https://"+c.server.Addr, "nowhere", c.server.AdminToken()))
	defer func() { _ = l.Close(context.Background()) }()
	if _, err := l.Acquire(c.Context(), kubeRequest("x")); err == nil || !strings.Contains(err.Error(), "nowhere") {
		c.Errorf("acquire in a namespace that does not exist: %v", err)
	}
	if err := l.Check(c.Context()); err == nil {
		c.Error("Check finds nothing amiss in a namespace that does not exist")
	}
}

// aProxyInAPod runs this test binary where the files of a pod's service account are, in a mount namespace of its own.
func (c *kubeCluster) aProxyInAPod() {
	files := c.TempDir()
	for name, content := range map[string]string{"token": c.token, "namespace": kubeNamespace, "ca.crt": string(c.server.CA())} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(content), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	host, port, _ := strings.Cut(c.server.Addr, ":")
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	script := `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$1" -test.run '^TestKubernetesInPod$' -test.v`
	pod := exec.Command("unshare", "--map-root-user", "--mount", "sh", "-c", script, files, self)
	pod.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port, kubePodSession+"="+c.session("pod"))
	output, err := pod.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "--- PASS: TestKubernetesInPod") {
		c.Fatalf("in the pod: %v\n%s", err, output)
	}
	if lease := c.lease(c.session("pod")); lease == nil {
		c.Error("the pod has not used its own namespace")
	}
}

const kubePodSession = "FENCE_TEST_POD_SESSION"

// TestKubernetesInPod is the pod of aProxyInAPod; elsewhere there is nothing to do.
func TestKubernetesInPod(t *testing.T) {
	session := os.Getenv(kubePodSession)
	if session == "" {
		_, err := provider.Kubernetes.Open(provider.Kubernetes.Settings(), provider.Environment{Proxy: "p", Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "lock.kubernetes.kubeconfig") {
			t.Errorf("outside of a pod and without a kubeconfig: %v", err)
		}
		return
	}
	l := openKube(t, "")
	defer func() { _ = l.Close(context.Background()) }()
	h, err := l.Acquire(t.Context(), kubeRequest(session))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (c *kubeCluster) oddVersionsAreRefused() {
	path := startKubeInterposer(c)
	version := regexp.MustCompile(`(2[\x01-\x09])[0-9]`) // as protobuf has it: field 6, a text with its length
	path.edit(func(body []byte) []byte { return version.ReplaceAll(body, []byte("${1}v")) })
	l := openKube(c, c.server.Kubeconfig(c, path.URL, kubeNamespace, c.token))
	_, err := l.Acquire(c.Context(), kubeRequest(c.session("odd")))
	ended, cancel := context.WithCancel(c.Context())
	cancel()
	_ = l.Close(ended) // it would try to give back what it may have
	if err == nil || !strings.Contains(err.Error(), "can't be grants") {
		c.Errorf("acquire with versions that are no numbers: %v", err)
	}
}
