package harness

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// kubeToken is the token of a user who may do everything.
const kubeToken = "administrator"

// Kubernetes is a real kube-apiserver with an etcd of its own, and with RBAC. There are no controllers and no nodes.
type Kubernetes struct {
	*Process // changes with every start

	Addr string // host:port, TLS

	tb     testing.TB
	dir    string
	store  *Etcd
	log    *Transcript // of all its lives
	binary string
	client *http.Client
}

// StartKubernetes starts an API server, and waits until it is ready. The environment variable KUBE_APISERVER is the path of
// its binary; scripts/kube-apiserver.sh makes one.
func StartKubernetes(tb testing.TB) *Kubernetes {
	tb.Helper()
	k := &Kubernetes{tb: tb, dir: shortTempDir(tb), log: &Transcript{}, binary: os.Getenv("KUBE_APISERVER")}
	if k.binary == "" {
		tb.Fatal("KUBE_APISERVER is not set: run make test-kube, or set it to what scripts/kube-apiserver.sh prints")
	}
	k.Addr, k.store = loopback(FreePort(tb)), StartEtcd(tb, 1)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatalf("make a key: %v", err)
	}
	k.write("accounts.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	k.write("tokens.csv", []byte(kubeToken+",administrator,administrator,system:masters\n"))
	logIfFailed(tb, "kube-apiserver "+k.Addr, k.log)
	k.Start()
	return k
}

// Start starts what is stopped, and waits until it is ready.
func (k *Kubernetes) Start() {
	k.tb.Helper()
	if k.Process != nil && !k.exited() {
		return
	}
	k.store.Start()
	key := filepath.Join(k.dir, "accounts.key")
	cmd := exec.Command(k.binary,
		"--etcd-servers", "http://"+k.store.Addrs()[0], "--bind-address", "127.0.0.1", "--secure-port", strings.TrimPrefix(k.Addr, "127.0.0.1:"),
		"--cert-dir", filepath.Join(k.dir, "certificates"), "--token-auth-file", filepath.Join(k.dir, "tokens.csv"),
		"--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none", "--profiling=false")
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.dir, k.log, k.log
	k.Process = launch(k.tb, "kube-apiserver "+k.Addr, cmd)
	ready := func() bool {
		status, _, err := k.Ask(http.MethodGet, "/readyz", nil)
		return k.exited() || err == nil && status == http.StatusOK
	}
	if !poll(4*patience, ready) || k.exited() {
		k.tb.Fatalf("kube-apiserver %s is not ready and %s", k.Addr, k.fate())
	}
}

// Stop kills both. What was acknowledged is kept.
func (k *Kubernetes) Stop() {
	k.tb.Helper()
	k.Kill()
	k.store.Stop()
}

// Pause freezes both.
func (k *Kubernetes) Pause() {
	k.tb.Helper()
	k.Process.Pause()
	k.store.Pause()
}

// Resume lets both go on.
func (k *Kubernetes) Resume() {
	k.tb.Helper()
	k.store.Resume()
	k.Process.Resume()
}

// CreateNamespace makes a namespace.
func (k *Kubernetes) CreateNamespace(name string) {
	k.tb.Helper()
	k.Do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}})
}

// Apply creates the objects of a YAML file in a namespace, as kubectl would.
func (k *Kubernetes) Apply(namespace, file string) {
	k.tb.Helper()
	plurals := map[string]string{"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}
	content, err := os.ReadFile(file)
	if err != nil {
		k.tb.Fatalf("read a manifest: %v", err)
	}
	for documents := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var object map[string]any
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			k.tb.Fatalf("read a manifest: %v", err)
		}
		version, kind := fmt.Sprint(object["apiVersion"]), fmt.Sprint(object["kind"])
		root := "/apis/"
		if !strings.Contains(version, "/") {
			root = "/api/"
		}
		if subjects, ok := object["subjects"].([]any); ok { // kubectl leaves it out in the namespace's own
			for _, subject := range subjects {
				subject.(map[string]any)["namespace"] = namespace
			}
		}
		k.Do(http.MethodPost, root+version+"/namespaces/"+namespace+"/"+plurals[kind], object)
	}
}

// Token is a fresh token of a service account.
func (k *Kubernetes) Token(namespace, account string) string {
	k.tb.Helper()
	answer := k.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", map[string]any{})
	status, _ := answer["status"].(map[string]any)
	return fmt.Sprint(status["token"])
}

// CA is the certificate that the server's own is checked with, in PEM.
func (k *Kubernetes) CA() []byte {
	k.tb.Helper()
	ca, err := os.ReadFile(filepath.Join(k.dir, "certificates", "apiserver.crt"))
	if err != nil {
		k.tb.Fatalf("read the server's certificate: %v", err)
	}
	return ca
}

// AdminToken is the token of a user who may do everything.
func (k *Kubernetes) AdminToken() string { return kubeToken }

// Kubeconfig writes a kubeconfig for the server, or what is between, at a URL, and returns its path.
func (k *Kubernetes) Kubeconfig(tb testing.TB, url, namespace, token string) string {
	tb.Helper()
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "test", "cluster": map[string]any{"server": url, "certificate-authority-data": k.CA()}}},
		"users":    []any{map[string]any{"name": "test", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "test", "user": "test", "namespace": namespace}}},
	}
	content, err := json.Marshal(config) // JSON is YAML
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err = errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		tb.Fatalf("write a kubeconfig: %v", err)
	}
	return path
}

// Do sends a request as the user who may do everything, and fails the test if it is refused.
func (k *Kubernetes) Do(method, path string, body any) map[string]any {
	k.tb.Helper()
	status, answer, err := k.Ask(method, path, body)
	if err != nil || status >= 300 {
		k.tb.Fatalf("%s %s: %d, %v, %v", method, path, status, answer["message"], err)
	}
	return answer
}

// Ask sends a request as the user who may do everything, and returns the status and the answer.
func (k *Kubernetes) Ask(method, path string, body any) (int, map[string]any, error) {
	return k.AskAs(kubeToken, method, path, body)
}

// AskAs is Ask with a token of somebody else's.
func (k *Kubernetes) AskAs(token, method, path string, body any) (int, map[string]any, error) {
	client, err := k.connect()
	if err != nil {
		return 0, nil, err
	}
	content, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequest(method, "https://"+k.Addr+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]any
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		err = json.NewDecoder(response.Body).Decode(&answer)
	}
	return response.StatusCode, answer, err
}

// connect makes the client once the server has made its certificate.
func (k *Kubernetes) connect() (*http.Client, error) {
	if k.client == nil {
		ca, err := os.ReadFile(filepath.Join(k.dir, "certificates", "apiserver.crt"))
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca) {
			return nil, errors.New("the server's certificate is not complete yet")
		}
		k.client = &http.Client{Timeout: patience, Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			DisableKeepAlives: true, // leaves no goroutine behind
		}}
	}
	return k.client, nil
}

func (k *Kubernetes) write(name string, content []byte) {
	k.tb.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), content, 0o600); err != nil {
		k.tb.Fatalf("write %s: %v", name, err)
	}
}
