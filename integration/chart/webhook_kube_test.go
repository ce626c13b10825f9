//go:build kube

package chart

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/integration/harness/podtest"
	"github.com/fence-proxy/fence-proxy/internal/webhook"
)

const pods = "/api/v1/namespaces/agents/pods"

// cluster is an API server that asks a webhook, which has the chart's rights and its template.
type cluster struct {
	*testing.T
	server   *harness.Kubernetes
	template string // path
	done     chan error
}

// startCluster starts the API server, installs what the chart renders for it, and starts the webhook.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, server: harness.StartKubernetes(t), template: filepath.Join(t.TempDir(), "injector.yaml"), done: make(chan error, 1)}
	c.server.CreateNamespace(namespace)
	c.server.Do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{
		"name": "agents", "labels": map[string]any{"fence-proxy/injection": "enabled"},
	}})
	c.server.CreateNamespace("others") // has not asked for it
	for _, space := range []string{"agents", "others"} {
		c.server.Do(http.MethodPost, "/api/v1/namespaces/"+space+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "default"}})
	}
	public, certificate, key := c.certify()
	rendered := read(t, "testdata/golden/injector.yaml")
	c.write(rendered.configMaps[namespace+"/fp-fence-proxy-injector"].Data["injector.yaml"])
	address := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	var configuration map[string]any
	for _, o := range objects(t, "testdata/golden/injector.yaml") {
		switch o.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding":
			c.server.Do(http.MethodPost, collection(o), o.Object)
		case "MutatingWebhookConfiguration":
			configuration = o.Object
		}
	}
	// There is no network of services here: the API server is told the address instead of the Service.
	hook := configuration["webhooks"].([]any)[0].(map[string]any)
	hook["clientConfig"] = map[string]any{"url": "https://" + address + "/inject", "caBundle": encode(public)}
	account := c.server.Token(namespace, "fp-fence-proxy-injector")
	s, err := webhook.Start(t.Context(), webhook.Options{
		Listen: address, Certificate: certificate, Key: key, Template: c.template, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Events: true, Kubeconfig: c.server.Kubeconfig(t, "https://"+c.server.Addr, namespace, account),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { c.done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-c.done; err != nil {
			t.Error(err)
		}
	})
	c.server.Do(http.MethodPost, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", configuration)
	harness.Eventually(t, 0, func() bool { // the API server takes a moment to hear of it
		status, answer, err := c.server.Ask(http.MethodPost, pods+"?dryRun=All", c.fixture("literal"))
		return err == nil && status == http.StatusCreated && strings.Contains(fmt.Sprint(answer), "FENCE_UPSTREAM_URL")
	}, "the API server asks the webhook")
	return c
}

// write changes the webhook's template.
func (c *cluster) write(template string) {
	c.Helper()
	if err := os.WriteFile(c.template, []byte(template), 0o600); err != nil {
		c.Fatal(err)
	}
}

// certify makes the webhook's certificate.
func (c *cluster) certify() (public []byte, certificate, key string) {
	c.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		c.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		c.Fatal(err)
	}
	dir := c.TempDir()
	certificate, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	public = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for path, text := range map[string][]byte{certificate: public, key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			c.Fatal(err)
		}
	}
	return public, certificate, key
}

const fixtures = "../../internal/webhook/testdata/pods/"

// fixture is a pod of the webhook's own tests.
func (c *cluster) fixture(name string) map[string]any {
	c.Helper()
	text, err := os.ReadFile(fixtures + name + ".yaml")
	if err != nil {
		c.Fatal(err)
	}
	var pod map[string]any
	if err := yaml.Unmarshal(text, &pod); err != nil {
		c.Fatal(err)
	}
	pod["apiVersion"], pod["kind"] = "v1", "Pod"
	return pod
}

// create creates a pod and returns it as the API server answers.
func (c *cluster) create(path string, pod any) *core.Pod {
	c.Helper()
	text, err := json.Marshal(c.server.Do(http.MethodPost, path, pod))
	if err != nil {
		c.Fatal(err)
	}
	created := new(core.Pod)
	if err := json.Unmarshal(text, created); err != nil {
		c.Fatal(err)
	}
	return created
}

// TestKubeWebhook has pods created through the API server.
func TestKubeWebhook(t *testing.T) {
	c := startCluster(t)
	t.Run("PodsComeBackAsTheGoldenPatchesSay", func(t *testing.T) { c.with(t).goldenPatches() })
	t.Run("OnlyWhoAsksIsLookedAt", func(t *testing.T) { c.with(t).onlyWhoAsks() })
	t.Run("ASkippedPodIsReported", func(t *testing.T) { c.with(t).skippedIsReported() })
	t.Run("WherePodsMustNotGoWithoutThatIsAnError", func(t *testing.T) { c.with(t).refused() })
	t.Run("Life", func(t *testing.T) { c.with(t).life() })
}

func (c *cluster) with(t *testing.T) *cluster {
	t.Helper()
	here := *c
	here.T = t
	return &here
}

// goldenPatches: what the golden patches add is there, in the API server's answer with its own defaults.
func (c *cluster) goldenPatches() {
	paths, err := filepath.Glob(fixtures + "*.yaml")
	if err != nil || len(paths) < 8 {
		c.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		c.Run(name, func(t *testing.T) {
			pod := c.fixture(name)
			meta := pod["metadata"].(map[string]any)
			delete(meta, "name")
			meta["generateName"] = name + "-"
			created := c.with(t).create(pods, pod)
			text, err := os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".patch.json")
			if err != nil {
				t.Fatal(err)
			}
			var golden struct{ Outcome webhook.Outcome }
			if err := json.Unmarshal(text, &golden); err != nil {
				t.Fatal(err)
			}
			if got := created.Annotations[webhook.AnnotationStatus]; golden.Outcome != webhook.Untouched && got != string(golden.Outcome) {
				t.Errorf("it is %q, not %q: %s", got, golden.Outcome, created.Annotations[webhook.AnnotationReason])
			}
			c.with(t).carries(created, pod, golden.Outcome)
		})
	}
}

// carries compares the API server's pod with what Decide makes of the same one.
func (c *cluster) carries(created *core.Pod, pod map[string]any, outcome webhook.Outcome) {
	c.Helper()
	at := slices.IndexFunc(created.Spec.InitContainers, func(i core.Container) bool { return i.Name == "fence-proxy" })
	if outcome != webhook.Injected {
		spec, _ := pod["spec"].(map[string]any)
		inits, _ := spec["initContainers"].([]any)
		if len(created.Spec.InitContainers) != len(inits) {
			c.Errorf("init containers: %v", created.Spec.InitContainers)
		}
		return
	}
	if at < 0 {
		c.Fatal("there is no sidecar")
	}
	text, err := json.Marshal(pod)
	if err != nil {
		c.Fatal(err)
	}
	original := new(core.Pod)
	if err := json.Unmarshal(text, original); err != nil {
		c.Fatal(err)
	}
	template, err := os.ReadFile(c.template)
	if err != nil {
		c.Fatal(err)
	}
	parsed, err := webhook.ParseTemplate(template)
	if err != nil {
		c.Fatal(err)
	}
	var want core.Container
	for _, step := range webhook.Decide(original, parsed).Patch {
		switch value := step.Value.(type) {
		case core.Container:
			want = value
		case []core.Container:
			want = value[0]
		}
	}
	got := created.Spec.InitContainers[at]
	if !slices.Equal(got.Args, want.Args) || !equality.Semantic.DeepEqual(got.Env, want.Env) || !equality.Semantic.DeepEqual(got.EnvFrom, want.EnvFrom) ||
		!equality.Semantic.DeepEqual(got.Resources, want.Resources) || !equality.Semantic.DeepEqual(got.SecurityContext, want.SecurityContext) ||
		!equality.Semantic.DeepEqual(got.RestartPolicy, want.RestartPolicy) {
		c.Errorf("the sidecar is\n%+v, not\n%+v", got, want)
	}
	// The API server gives all containers the account's token, so that locks as Leases work.
	if !slices.ContainsFunc(got.VolumeMounts, func(m core.VolumeMount) bool {
		return m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount"
	}) {
		c.Errorf("the sidecar has no token: %v", got.VolumeMounts)
	}
}

func (c *cluster) onlyWhoAsks() {
	pod := c.fixture("literal")
	if created := c.create("/api/v1/namespaces/others/pods", pod); len(created.Spec.InitContainers) != 0 {
		c.Error("a pod in a namespace without the label is injected")
	}
	delete(pod["metadata"].(map[string]any), "annotations")
	if created := c.create(pods, pod); len(created.Spec.InitContainers) != 0 || len(created.Annotations) != 0 {
		c.Error("a pod without the annotation is touched")
	}
}

func (c *cluster) skippedIsReported() {
	pod := c.fixture("host-network")
	pod["metadata"].(map[string]any)["name"] = "reported"
	if dry := c.create(pods+"?dryRun=All", pod); dry.Annotations[webhook.AnnotationStatus] != "skipped" {
		c.Errorf("annotations %v", dry.Annotations)
	}
	created := c.create(pods, pod)
	if !strings.HasPrefix(created.Annotations[webhook.AnnotationReason], "host-network: ") {
		c.Errorf("annotations %v", created.Annotations)
	}
	harness.Eventually(c, 0, func() bool {
		events := c.server.Do(http.MethodGet, "/api/v1/namespaces/agents/events?fieldSelector=reason=FenceProxySkipped,involvedObject.name=reported", nil)
		text := fmt.Sprint(events["items"])
		return strings.Contains(text, "host-network") && strings.Contains(text, "fence-proxy-webhook")
	}, "there is an event")
}

func (c *cluster) refused() {
	before, err := os.ReadFile(c.template)
	if err != nil {
		c.Fatal(err)
	}
	c.write(strings.Replace(string(before), "refuse: false", "refuse: true", 1))
	defer c.write(string(before))
	pod := c.fixture("host-network")
	harness.Eventually(c, 0, func() bool { // the webhook reads its template again
		status, answer, err := c.server.Ask(http.MethodPost, pods+"?dryRun=All", pod)
		return err == nil && status == http.StatusForbidden && strings.Contains(fmt.Sprint(answer["message"]), "host-network")
	}, "the pod is refused")
}

// life plays a pod's life with what the API server answers.
func (c *cluster) life() {
	template, err := os.ReadFile(c.template)
	if err != nil {
		c.Fatal(err)
	}
	podtest.Life{Template: string(template), Inject: func(t *testing.T, template string, pod *core.Pod) *core.Pod {
		t.Helper()
		c := c.with(t)
		c.write(template)
		pod.Namespace = "agents"
		var parsed *webhook.Template
		if parsed, err = webhook.ParseTemplate([]byte(template)); err != nil {
			t.Fatal(err)
		}
		want := parsed.Sidecar.Ports[0].ContainerPort
		harness.Eventually(t, 0, func() bool { // the webhook reads its template again
			return strings.Contains(fmt.Sprint(c.server.Do(http.MethodPost, pods+"?dryRun=All", pod)), fmt.Sprintf("containerPort:%d", want))
		}, "the webhook has the template")
		return c.create(pods, pod)
	}}.Run(c.T)
}
