package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/webhook"
)

// custom are the kinds that Kubernetes itself does not know. Their definitions judge them where there is an API server.
var custom = []string{"PodMonitor", "ServiceMonitor", "PrometheusRule", "Certificate", "Issuer"}

// decode has Kubernetes's own types read an object; what they don't know is an error.
func decode(t *testing.T, o *object) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admission.AddToScheme, apps.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, rbac.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	typed, _, err := decoder.Decode([]byte(o.text), nil, nil)
	if err != nil {
		t.Errorf("%s: %v", o, err)
	}
	return typed
}

// rendered is what one golden file has, by type.
type rendered struct {
	*testing.T
	configMaps  map[string]*core.ConfigMap // by namespace/name
	accounts    map[string]bool
	deployments []*apps.Deployment
	pods        map[string]*core.PodTemplateSpec // by namespace/name of what makes them
	services    []*core.Service
	budgets     []*policy.PodDisruptionBudget
	policies    []*networking.NetworkPolicy
	webhooks    []*admission.MutatingWebhookConfiguration
	roles       []rbac.PolicyRule
	bindings    int
	kinds       map[string]int
}

func read(t *testing.T, path string) *rendered {
	t.Helper()
	r := &rendered{T: t, configMaps: map[string]*core.ConfigMap{}, accounts: map[string]bool{}, pods: map[string]*core.PodTemplateSpec{}, kinds: map[string]int{}}
	seen := map[string]bool{}
	for _, o := range objects(t, path) {
		if key := o.GetAPIVersion() + " " + o.String(); seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
		r.kinds[o.GetKind()]++
		if slices.Contains(custom, o.GetKind()) {
			continue
		}
		switch typed := decode(t, o).(type) {
		case *core.ConfigMap:
			r.configMaps[typed.Namespace+"/"+typed.Name] = typed
		case *core.ServiceAccount:
			r.accounts[typed.Name] = true
		case *apps.Deployment:
			r.deployments = append(r.deployments, typed)
			r.pods[typed.Namespace+"/"+typed.Name] = &typed.Spec.Template
		case *core.Service:
			r.services = append(r.services, typed)
		case *policy.PodDisruptionBudget:
			r.budgets = append(r.budgets, typed)
		case *networking.NetworkPolicy:
			r.policies = append(r.policies, typed)
		case *admission.MutatingWebhookConfiguration:
			r.webhooks = append(r.webhooks, typed)
		case *rbac.Role:
			r.roles = append(r.roles, typed.Rules...)
		case *rbac.ClusterRole:
			r.roles = append(r.roles, typed.Rules...)
		case *rbac.RoleBinding, *rbac.ClusterRoleBinding:
			r.bindings++
		}
	}
	return r
}

// TestThePartsFitTogether looks at each golden file as a cluster would, and as a careful reader.
func TestThePartsFitTogether(t *testing.T) {
	for _, path := range goldens(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			r := read(t, path)
			r.podsAreSafe()
			r.podsFindWhatTheyMount()
			r.selectorsFindPods()
			r.webhooksFindTheirService()
			r.rightsAreMinimal()
			r.configurationsAreTaken()
			r.templatesAreTaken()
		})
	}
}

// containers are those of ours in a pod.
func containers(spec *core.PodSpec) []core.Container {
	return slices.DeleteFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c core.Container) bool { return c.Image == "agent" })
}

func (r *rendered) podsAreSafe() {
	for name, pod := range r.pods {
		ours := containers(&pod.Spec)
		for i := range ours {
			r.safe(name, &ours[i])
		}
	}
}

// safe checks what the restricted Pod Security Standard asks for, and more.
func (r *rendered) safe(where string, c *core.Container) {
	r.Helper()
	s := c.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
		!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) != 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault || s.RunAsUser == nil || *s.RunAsUser == 0 {
		r.Errorf("%s: %s has the security context %v", where, c.Name, s)
	}
	if c.LivenessProbe == nil || c.StartupProbe == nil && c.ReadinessProbe == nil {
		r.Errorf("%s: %s lacks probes", where, c.Name)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		r.Errorf("%s: %s lacks resources: %v", where, c.Name, c.Resources)
	}
	if strings.HasSuffix(c.Image, ":") || strings.HasSuffix(c.Image, ":latest") || !strings.ContainsAny(c.Image, ":@") {
		r.Errorf("%s: %s has the image %s", where, c.Name, c.Image)
	}
}

func (r *rendered) podsFindWhatTheyMount() {
	for name, pod := range r.pods {
		space, _, _ := strings.Cut(name, "/")
		if space == "" { // helm's --namespace
			space = namespace
		}
		volumes := map[string]bool{}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			volumes[v.Name] = true
			if v.ConfigMap != nil && r.configMaps[space+"/"+v.ConfigMap.Name] == nil {
				r.Errorf("%s mounts ConfigMap %s, which is not there", name, v.ConfigMap.Name)
			}
		}
		all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		for i := range all {
			c := &all[i]
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					r.Errorf("%s: %s mounts %s, which is not there", name, c.Name, m.Name)
				}
			}
		}
		if account := pod.Spec.ServiceAccountName; account != "" && !r.accounts[account] && account != "there" {
			r.Errorf("%s runs as %s, which is not there", name, account)
		}
	}
}

// matching are the pods with these labels.
func (r *rendered) matching(selector map[string]string) (found []*core.PodTemplateSpec) {
	for _, pod := range r.pods {
		if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	return found
}

func (r *rendered) selectorsFindPods() {
	one := func(what string, selector map[string]string) *core.PodTemplateSpec {
		pods := r.matching(selector)
		if len(pods) != 1 {
			r.Errorf("%s selects %d kinds of pods", what, len(pods))
			return nil
		}
		return pods[0]
	}
	has := func(pod *core.PodTemplateSpec, port intstr.IntOrString) bool {
		for i := range pod.Spec.Containers {
			for _, p := range pod.Spec.Containers[i].Ports {
				if port == intstr.FromString(p.Name) || port == intstr.FromInt32(p.ContainerPort) {
					return true
				}
			}
		}
		return false
	}
	for _, d := range r.deployments {
		if one("Deployment "+d.Name, d.Spec.Selector.MatchLabels) != &d.Spec.Template && d.Labels["app.kubernetes.io/name"] != "" {
			r.Errorf("Deployment %s selects others' pods", d.Name)
		}
	}
	for _, s := range r.services {
		if pod := one("Service "+s.Name, s.Spec.Selector); pod != nil {
			for _, p := range s.Spec.Ports {
				if !has(pod, p.TargetPort) {
					r.Errorf("Service %s leads to port %s, which no container has", s.Name, p.TargetPort.String())
				}
			}
		}
	}
	for _, b := range r.budgets {
		one("PodDisruptionBudget "+b.Name, b.Spec.Selector.MatchLabels)
	}
	for _, p := range r.policies {
		if pod := one("NetworkPolicy "+p.Name, p.Spec.PodSelector.MatchLabels); pod != nil {
			for _, rule := range p.Spec.Ingress {
				for _, port := range rule.Ports {
					if !has(pod, *port.Port) {
						r.Errorf("NetworkPolicy %s opens port %s, which no container has", p.Name, port.Port)
					}
				}
			}
		}
	}
}

func (r *rendered) webhooksFindTheirService() {
	for _, configuration := range r.webhooks {
		for i := range configuration.Webhooks {
			w := &configuration.Webhooks[i]
			to := w.ClientConfig.Service
			if !slices.ContainsFunc(r.services, func(s *core.Service) bool {
				return s.Name == to.Name && s.Namespace == to.Namespace && s.Spec.Ports[0].Port == *to.Port
			}) {
				r.Errorf("webhook %s leads to Service %s, which is not there", w.Name, to.Name)
			}
			if *w.FailurePolicy == admission.Fail && w.NamespaceSelector == nil {
				r.Errorf("webhook %s keeps all pods of the cluster from starting when it is away", w.Name)
			}
			if w.NamespaceSelector.MatchLabels["fence-proxy/injection"] != "enabled" {
				r.Errorf("webhook %s looks at namespaces that have not asked for it: %v", w.Name, w.NamespaceSelector)
			}
			if certified := len(w.ClientConfig.CABundle) > 0 || configuration.Annotations["cert-manager.io/inject-ca-from"] != ""; !certified {
				r.Errorf("webhook %s can't be verified", w.Name)
			}
		}
	}
}

// rightsAreMinimal: Leases only with that provider, events only for a webhook that stores them.
func (r *rendered) rightsAreMinimal() {
	leases, events := false, false
	for name, c := range r.configMaps {
		leases = leases || strings.Contains(c.Data["config.yaml"], "provider: kubernetes") && name != ""
	}
	for _, d := range r.deployments {
		events = events || slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--events=true")
		if token := d.Spec.Template.Spec.AutomountServiceAccountToken; token != nil && *token && len(r.roles) == 0 {
			r.Errorf("%s has a token, and no rights to use it for", d.Name)
		}
	}
	for _, rule := range r.roles {
		switch {
		case leases && slices.Equal(rule.APIGroups, []string{"coordination.k8s.io"}) && slices.Equal(rule.Resources, []string{"leases"}):
		case events && slices.Equal(rule.APIGroups, []string{""}) && slices.Equal(rule.Resources, []string{"events"}) &&
			slices.Equal(rule.Verbs, []string{"create", "patch"}):
		default:
			r.Errorf("a right that nothing needs: %v", rule)
		}
	}
	if len(r.roles) > 0 != (leases || events) {
		r.Errorf("%d rules, leases %v, events %v", len(r.roles), leases, events)
	}
}

// configurationsAreTaken: the proxy takes what it would read, and serves no store of its own by mistake.
func (r *rendered) configurationsAreTaken() {
	for name, c := range r.configMaps {
		text, ok := c.Data["config.yaml"]
		if !ok {
			continue
		}
		path := filepath.Join(r.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			r.Fatal(err)
		}
		cfg, err := config.Load(path, nil)
		if err != nil {
			r.Errorf("%s: %v", name, err)
			continue
		}
		if cfg.Upstream.URL == config.Embedded {
			r.Errorf("%s: a proxy whose variable is not set serves a store in memory", name)
		}
	}
}

// templatesAreTaken: the webhook takes what it would read, and what it adds is safe.
func (r *rendered) templatesAreTaken() {
	for name, c := range r.configMaps {
		text, ok := c.Data["injector.yaml"]
		if !ok {
			continue
		}
		template, err := webhook.ParseTemplate([]byte(text))
		if err != nil {
			r.Errorf("%s: %v", name, err)
			continue
		}
		r.safe(name, &template.Sidecar)
		for i := range template.Volumes {
			v := &template.Volumes[i]
			if v.ConfigMap == nil {
				continue
			}
			spaces := slices.Sorted(maps.Keys(r.configMaps))
			if !slices.ContainsFunc(spaces, func(space string) bool { return strings.HasSuffix(space, "/"+v.ConfigMap.Name) }) {
				r.Errorf("%s mounts ConfigMap %s, which is in no namespace", name, v.ConfigMap.Name)
			}
		}
	}
}

// What the webhook's own tests add to pods is what the chart has it add.
func TestTheWebhooksTestsHaveTheChartsTemplate(t *testing.T) {
	const theirs = "../../internal/webhook/testdata/template.yaml"
	want := read(t, filepath.Join("testdata", "golden", "injector.yaml")).configMaps[namespace+"/"+release+"-fence-proxy-injector"].Data["injector.yaml"]
	if *update {
		if err := os.WriteFile(theirs, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s should be as follows; make chart UPDATE=1 makes it so:\n%s", theirs, want)
	}
}

// Before 1.29 there are no sidecars: an ordinary container starts ahead of the agent, and ends after it.
func TestBefore129AnOrdinaryContainerDoesWhatItCan(t *testing.T) {
	pod := read(t, "testdata/golden/parent-old-cluster.yaml").pods["/agent"]
	if len(pod.Spec.InitContainers) != 0 || len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Name != "fence-proxy" {
		t.Fatalf("init containers %v, containers %v", pod.Spec.InitContainers, pod.Spec.Containers)
	}
	c := pod.Spec.Containers[0]
	if c.RestartPolicy != nil || c.Lifecycle == nil || c.Lifecycle.PostStart == nil || c.Lifecycle.PreStop == nil {
		t.Errorf("the sidecar has restartPolicy %v and lifecycle %v", c.RestartPolicy, c.Lifecycle)
	}
	pod = read(t, "testdata/golden/parent.yaml").pods["/agent"]
	if len(pod.Spec.Containers) != 1 || len(pod.Spec.InitContainers) != 1 || *pod.Spec.InitContainers[0].RestartPolicy != core.ContainerRestartPolicyAlways {
		t.Errorf("since then: init containers %v", pod.Spec.InitContainers)
	}
	if pod.Spec.InitContainers[0].StartupProbe == nil {
		t.Error("the agent does not wait for the sidecar")
	}
}

// What is optional is not there unless asked for.
func TestOptionalPartsAreOptional(t *testing.T) {
	for name, want := range map[string]string{
		"defaults":        "ConfigMap:1",
		"shared":          "ConfigMap:1 Deployment:1 PodDisruptionBudget:1 Service:1 ServiceAccount:1",
		"injector":        "ClusterRole:1 ClusterRoleBinding:1 ConfigMap:3 Deployment:1 MutatingWebhookConfiguration:1 PodDisruptionBudget:1 Secret:1 Service:1 ServiceAccount:1",
		"injector-issuer": "Certificate:1 ClusterRole:1 ClusterRoleBinding:1 ConfigMap:2 Deployment:1 MutatingWebhookConfiguration:1 Service:1",
	} {
		kinds := read(t, filepath.Join("testdata", "golden", name+".yaml")).kinds
		var got []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			got = append(got, fmt.Sprintf("%s:%d", kind, kinds[kind]))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, not %s", name, got, want)
		}
	}
}
