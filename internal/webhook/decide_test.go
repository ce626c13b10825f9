package webhook

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden patches anew")

// testTemplate is what the Helm chart makes of its defaults; the chart's tests compare.
func testTemplate(t *testing.T) *Template {
	t.Helper()
	text, err := os.ReadFile("testdata/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	template, err := ParseTemplate(text)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func parsePod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := new(corev1.Pod)
	if err := yaml.UnmarshalStrict([]byte(text), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// patched applies a decision as the API server does.
func patched(t *testing.T, pod *corev1.Pod, d Decision) *corev1.Pod {
	t.Helper()
	object, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Patch) > 0 {
		text, err := json.Marshal(d.Patch)
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(text)
		if err != nil {
			t.Fatal(err)
		}
		if object, err = patch.Apply(object); err != nil {
			t.Fatalf("apply %s: %v", text, err)
		}
	}
	after := new(corev1.Pod)
	if err := yaml.UnmarshalStrict(object, after); err != nil {
		t.Fatal(err)
	}
	return after
}

func TestPatchesAreAsDocumented(t *testing.T) {
	pods, err := filepath.Glob("testdata/pods/*.yaml")
	if err != nil || len(pods) < 8 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	template := testTemplate(t)
	for _, path := range pods {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pod := parsePod(t, string(text))
			before := pod.DeepCopy()
			d := Decide(pod, template)
			got, err := json.MarshalIndent(map[string]any{"outcome": d.Outcome, "patch": d.Patch}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			golden := strings.TrimSuffix(path, ".yaml") + ".patch.json"
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is another; -update writes it anew:\n%s", golden, got)
			}
			after := patched(t, pod, d)
			if again := Decide(after, template); d.Outcome == Injected && again.Outcome != Untouched {
				t.Errorf("the pod as patched is %s once more", again.Outcome)
			}
			if !equal(t, pod, before) {
				t.Error("the pod itself was changed")
			}
			if !equal(t, template, testTemplate(t)) {
				t.Error("the template was changed")
			}
		})
	}
}

func equal(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// asking is a pod that asks, with more annotations and a spec.
func asking(annotations, spec string) string {
	return "metadata:\n  name: p\n  annotations:\n    fence-proxy/inject: \"true\"\n" + annotations + "spec:\n" + spec
}

const agentSpec = "  containers:\n    - {name: agent, image: a, env: [{name: REDIS_URL, value: \"redis://r:6379\"}]}\n"

func TestAPodThatCannotBeHelpedIsToldWhy(t *testing.T) {
	for name, test := range map[string]struct {
		pod    string
		edit   func(*Template)
		reason Reason
		detail string
	}{
		"yes":              {strings.Replace(asking("", agentSpec), `"true"`, `"yes"`, 1), nil, BadAnnotation, `write "true" or "false"`},
		"typo":             {asking("    fence-proxy/redis-url: X\n", agentSpec), nil, BadAnnotation, "fence-proxy/redis-url is not known"},
		"order":            {asking("    fence-proxy/order: second\n", agentSpec), nil, BadAnnotation, `"second"`},
		"quantity":         {asking("    fence-proxy/limits.memory: much\n", agentSpec), nil, BadAnnotation, `"much"`},
		"windows":          {asking("", "  os: {name: windows}\n"+agentSpec), nil, Windows, ""},
		"other variable":   {asking("    fence-proxy/redis-url-env: CACHE_URL\n", agentSpec), nil, NoVariable, "CACHE_URL"},
		"other container":  {asking("    fence-proxy/containers: agent, worker\n", agentSpec), nil, NoSuchContainer, `"worker"`},
		"without variable": {asking("    fence-proxy/containers: b\n", agentSpec+"    - {name: b, image: b}\n"), nil, NoVariable, `"b"`},
		"empty":            {asking("", strings.Replace(agentSpec, "redis://r:6379", "", 1)), nil, EmptyVariable, ""},
		"pointed":          {asking("", strings.Replace(agentSpec, "redis://r:6379", "redis://127.0.0.1:6380", 1)), nil, AlreadyPointed, ""},
		"volume":           {asking("", agentSpec+"  volumes: [{name: fence-proxy-config, emptyDir: {}}]\n"), nil, NameTaken, "fence-proxy-config"},
		"port":             {asking("", strings.Replace(agentSpec, "image: a", "image: a, ports: [{containerPort: 9380}]", 1)), nil, PortTaken, "9380"},
		"job": {
			asking("", "  restartPolicy: OnFailure\n"+agentSpec), func(t *Template) { t.Native = false },
			NeedsNativeSidecar, "OnFailure",
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := testTemplate(t)
			if test.edit != nil {
				test.edit(template)
			}
			pod := parsePod(t, test.pod)
			d := Decide(pod, template)
			if d.Outcome != Skipped || d.Reason != test.reason || !strings.Contains(d.Detail, test.detail) {
				t.Fatalf("%s, %s: %s", d.Outcome, d.Reason, d.Detail)
			}
			after := patched(t, pod, d)
			if got := after.Annotations[AnnotationReason]; got != string(d.Reason)+": "+d.Detail || after.Annotations[AnnotationStatus] != "skipped" {
				t.Errorf("annotations %v", after.Annotations)
			}
			if len(after.Spec.Containers) != len(pod.Spec.Containers) || len(after.Spec.InitContainers) != 0 {
				t.Error("the containers are others")
			}
		})
	}
}

// Before Kubernetes 1.29.
func TestAnOrdinarySidecarStartsAheadOfTheAgent(t *testing.T) {
	template := testTemplate(t)
	template.Native = false
	pod := parsePod(t, asking("", strings.Replace(agentSpec, "  containers", "  restartPolicy: Always\n  initContainers: [{name: i, image: i, env: [{name: REDIS_URL, value: \"redis://r:6379\"}]}]\n  containers", 1)))
	after := patched(t, pod, Decide(pod, template))
	names := func(list []corev1.Container) (all []string) {
		for i := range list {
			all = append(all, list[i].Name)
		}
		return all
	}
	if got := names(after.Spec.Containers); !slices.Equal(got, []string{"fence-proxy", "agent"}) {
		t.Errorf("containers %v", got)
	}
	if after.Spec.Containers[0].RestartPolicy != nil {
		t.Error("an ordinary container has no restartPolicy of its own")
	}
	if got := after.Spec.InitContainers[0].Env[0].Value; got != "redis://r:6379" {
		t.Errorf("an init container, which runs before the sidecar, has %s", got)
	}
	if got := after.Spec.Containers[1].Env[0].Value; got != template.URL {
		t.Errorf("the agent has %s", got)
	}
}

func TestAgentsReachASocketInASharedDirectory(t *testing.T) {
	template := testTemplate(t)
	template.URL = "unix:///run/fence-proxy/redis.sock"
	socket := corev1.VolumeMount{Name: "fence-proxy-socket", MountPath: "/run/fence-proxy"}
	template.AgentMounts = []corev1.VolumeMount{socket}
	template.Volumes = append(template.Volumes, corev1.Volume{Name: socket.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	template.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "mine"}, {Name: "theirs"}}
	pod := parsePod(t, asking("", agentSpec+"    - {name: other, image: o}\n  imagePullSecrets: [{name: theirs}]\n"))
	after := patched(t, pod, Decide(pod, template))
	if got := after.Spec.Containers[0]; got.Env[0].Value != template.URL || !slices.Equal(got.VolumeMounts, template.AgentMounts) {
		t.Errorf("the agent has %v and %v", got.Env, got.VolumeMounts)
	}
	if got := after.Spec.Containers[1].VolumeMounts; len(got) != 0 {
		t.Errorf("a container that is not pointed at the sidecar has %v", got)
	}
	if len(after.Spec.Volumes) != 2 {
		t.Errorf("volumes %v", after.Spec.Volumes)
	}
	if got := after.Spec.ImagePullSecrets; !slices.Equal(got, []corev1.LocalObjectReference{{Name: "theirs"}, {Name: "mine"}}) {
		t.Errorf("imagePullSecrets %v", got)
	}
}

func TestReferencesAreFoundAsKubernetesExpandsThem(t *testing.T) {
	for value, want := range map[string][]string{
		"":                  nil,
		"plain":             nil,
		"$(A)":              {"A"},
		"x$(A)y$(B_1)":      {"A", "B_1"},
		"$$(A)":             nil,
		"$$$(A)":            {"A"},
		"$(A":               nil,
		"$":                 nil,
		"a$":                nil,
		"$x$(A)":            {"A"},
		"$()":               {""},
		"redis://:$(P)@h/$": {"P"},
	} {
		if got := references(value); !slices.Equal(got, want) {
			t.Errorf("%q refers to %q, not %q", value, got, want)
		}
	}
}

func TestATemplateWithAMistakeIsRefused(t *testing.T) {
	good, err := os.ReadFile("testdata/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for replaced, by := range map[string]string{
		"redisURLEnv: REDIS_URL":           "",
		"url: redis://127.0.0.1:6380":      "",
		"native:":                          "nativ:",
		"  image: ghcr":                    "  imag: ghcr",
		"configVolume: fence-proxy-config": "configVolume: other",
		"    configMap:":                   "    emptyDir: {}\n    x:",
		"containerPort: 9380":              "containerPort: many",
		"  name: fence-proxy\n":            "  name: ''\n",
	} {
		text := strings.Replace(string(good), replaced, by, 1)
		if text == string(good) {
			t.Errorf("%q is not in the template", replaced)
		}
		if _, err := ParseTemplate([]byte(text)); err == nil {
			t.Errorf("%q instead of %q is accepted", by, replaced)
		}
	}
}
