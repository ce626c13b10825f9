package podtest

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/webhook"
)

//go:embed agent.py
var agent []byte

const (
	configMap = "fp-fence-proxy"
	key       = "agent:ctx:42:history"
)

// Life plays the lives of pods.
type Life struct {
	// Inject has pods come back as the webhook makes them, with the template given as YAML.
	Inject func(t *testing.T, template string, pod *corev1.Pod) *corev1.Pod
	// Template is the chart's.
	Template string
}

// Run runs all tests.
func (l Life) Run(t *testing.T) {
	t.Helper()
	t.Run("TheLastWriteLandsAndTheSidecarEndsAfterIt", l.lastWrite)
	t.Run("AJobCompletes", l.job)
	t.Run("AnAgentStartsOnceItsRedisAnswers", l.lateRedis)
	t.Run("RulesChangeWithTheConfigMapAndConnectionsStay", l.configMapChanges)
	t.Run("ASocketInASharedDirectoryServesAsWell", l.socket)
	t.Run("AnOrdinaryContainerServesAsWell", l.ordinary)
}

// stage is one pod and its Redis.
type stage struct {
	*testing.T
	redis *harness.Redis
	pod   *harness.Pod
	text  *corev1.Pod
}

// prepare makes a pod whose agent does a task; edits change the template's text.
func (l Life) prepare(t *testing.T, task string, edits ...string) *stage {
	t.Helper()
	s := &stage{T: t, redis: harness.StartRedis(t)}
	template := l.Template
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(template, edits[i]) {
			t.Fatalf("%q is not in the template", edits[i])
		}
		template = strings.ReplaceAll(template, edits[i], edits[i+1])
	}
	port, admin := harness.FreePort(t), harness.FreePort(t)
	template = strings.NewReplacer("127.0.0.1:6380", fmt.Sprintf("127.0.0.1:%d", port), "9380", fmt.Sprint(admin)).Replace(template)
	script := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(script, agent, 0o600); err != nil {
		t.Fatal(err)
	}
	before := &corev1.Pod{}
	before.APIVersion, before.Kind = "v1", "Pod"
	before.GenerateName = "agent-"
	before.Annotations = map[string]string{webhook.AnnotationInject: "true"}
	before.Spec.RestartPolicy = corev1.RestartPolicyAlways
	if task == "job" && !strings.Contains(template, "native: false") {
		before.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	before.Spec.Containers = []corev1.Container{{
		Name: "agent", Image: "agent", Command: []string{harness.Python(t), script, task},
		Env: []corev1.EnvVar{
			{Name: "KEY", Value: key},
			{Name: "REDIS_URL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "redis"}, Key: "url",
			}}},
		},
	}}
	s.text = l.Inject(t, template, before)
	if s.text.Annotations[webhook.AnnotationStatus] != "injected" {
		t.Fatalf("not injected: %v", s.text.Annotations)
	}
	s.pod = harness.NewPod(t, s.text, harness.PodFiles{
		ConfigMaps: map[string]map[string]string{configMap: {"config.yaml": guarded("lock")}},
		Secrets:    map[string]map[string]string{"redis": {"url": s.redis.URL()}},
	})
	return s
}

func guarded(mode string) string {
	return "rules:\n  - {name: chat, prefix: \"agent:ctx:\", session: \"agent:ctx:<session>:*\", mode: " + mode + ", wait: 0s}\n"
}

// is waits until a key at Redis has a value.
func (s *stage) is(key, want string) {
	s.Helper()
	client := s.redis.Client()
	got := ""
	harness.Eventually(s, 0, func() bool {
		got, _ = client.Get(s.Context(), key).Result()
		return got == want
	}, fmt.Sprintf("%s is %q", key, want))
}

// nobodyHolds fails the test if a session is still held: the sidecar has given back what it had.
func (s *stage) nobodyHolds() {
	s.Helper()
	held, err := s.redis.Client().Keys(s.Context(), "fence-proxy:*:h").Result()
	if err != nil || len(held) > 0 {
		s.Errorf("held after the end: %v, %v", held, err)
	}
}

// Case 78.
func (l Life) lastWrite(t *testing.T) {
	l.prepare(t, "serve").serves()
}

// serves has the agent write first and last.
func (s *stage) serves() {
	s.Helper()
	s.pod.Start()
	s.is("state", "ready")
	s.pod.Terminate()
	s.is(key, "first last ")
	s.nobodyHolds()
}

// Case 78.
func (l Life) job(t *testing.T) {
	s := l.prepare(t, "job")
	s.pod.Start()
	if codes := s.pod.AwaitCompletion(); len(codes) != 1 || codes[0] != 0 {
		t.Errorf("exit codes %v", codes)
	}
	s.is(key, "first ")
	s.nobodyHolds()
}

// Case 77.
func (l Life) lateRedis(t *testing.T) {
	s := l.prepare(t, "job")
	s.redis.Stop()
	s.pod.Waiting = func() { // the sidecar is refused, ends, and is started anew
		if strings.Contains(s.pod.Logs(), "connection refused") {
			s.redis.Restart()
			s.pod.Waiting = nil
		}
	}
	s.pod.Start()
	if s.pod.Waiting != nil {
		t.Error("the sidecar was ready before its Redis")
	}
	if codes := s.pod.AwaitCompletion(); codes[0] != 0 {
		t.Errorf("exit codes %v", codes)
	}
	s.is(key, "first ")
}

// Case 79.
func (l Life) configMapChanges(t *testing.T) {
	s := l.prepare(t, "serve")
	s.pod.Start()
	s.is("state", "ready")
	reloaded := func(text string) {
		t.Helper()
		harness.Eventually(t, 0, func() bool { return strings.Contains(s.pod.Logs(), text) }, "the sidecar logs "+text)
	}
	word := func(word string) {
		t.Helper()
		if err := s.redis.Client().RPush(t.Context(), "words", word).Err(); err != nil {
			t.Fatal(err)
		}
		s.is("state", word+" True") // over the connection that it has had from the start
	}
	client := s.agentsView()
	s.pod.UpdateConfigMap(configMap, map[string]string{"config.yaml": guarded("pass")})
	reloaded("configuration reloaded")
	word("passed")
	if explained := fmt.Sprint(client("FENCE.EXPLAIN", key)); !strings.Contains(explained, "pass") {
		t.Errorf("the rule is not the new one: %s", explained)
	}
	s.pod.UpdateConfigMap(configMap, map[string]string{"config.yaml": "rules: [{nam: chat}]\n"})
	reloaded("configuration not reloaded")
	word("kept")
	if explained := fmt.Sprint(client("FENCE.EXPLAIN", key)); !strings.Contains(explained, "pass") {
		t.Errorf("a bad configuration has changed the rule: %s", explained)
	}
	s.pod.Terminate()
	s.is(key, "first passed kept last ")
}

// agentsView asks over another connection to the sidecar, at the address that the agent has.
func (s *stage) agentsView() func(args ...any) any {
	s.Helper()
	options, err := redis.ParseURL(s.pod.Env("agent")["REDIS_URL"])
	if err != nil {
		s.Fatal(err)
	}
	client := redis.NewClient(options)
	s.Cleanup(func() { _ = client.Close() })
	return func(args ...any) any {
		s.Helper()
		reply, err := client.Do(s.Context(), args...).Result()
		if err != nil {
			s.Fatal(err)
		}
		return reply
	}
}

func (l Life) socket(t *testing.T) {
	s := l.prepare(t, "serve",
		`value: "127.0.0.1:6380"`, "value: unix:///run/fence-proxy/redis.sock?mode=0666",
		"url: redis://127.0.0.1:6380", "url: unix:///run/fence-proxy/redis.sock\nagentMounts:\n  - {name: fence-proxy-socket, mountPath: /run/fence-proxy}",
		"  volumeMounts:\n", "  volumeMounts:\n    - {name: fence-proxy-socket, mountPath: /run/fence-proxy}\n",
		"volumes:\n  -", "volumes:\n  - {name: fence-proxy-socket, emptyDir: {}}\n  -",
	)
	s.serves()
}

// Case 77: before Kubernetes 1.29.
func (l Life) ordinary(t *testing.T) {
	s := l.prepare(t, "serve", "native: true", "native: false", "  resources:\n", `  lifecycle:
    postStart: {exec: {command: [/fence-proxy, wait, ready, --config=/etc/fence-proxy/config.yaml, --timeout=60s]}}
    preStop: {exec: {command: [/fence-proxy, wait, unused, --config=/etc/fence-proxy/config.yaml, --timeout=20s]}}
  resources:
`)
	if first := s.text.Spec.Containers[0].Name; first != "fence-proxy" {
		t.Fatalf("the first container is %s", first)
	}
	s.pod.Start()
	s.is("state", "ready")
	s.pod.Terminate()
	s.is(key, "first last ")
	s.nobodyHolds()
}
