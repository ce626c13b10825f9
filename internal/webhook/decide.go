package webhook

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Outcome is what became of a pod.
type Outcome string

// The outcomes.
const (
	// Untouched pods don't ask, decline, or have the sidecar.
	Untouched Outcome = "untouched"
	// Injected pods get the sidecar.
	Injected Outcome = "injected"
	// Skipped pods ask, and can't have it.
	Skipped Outcome = "skipped"
)

// Decision is what to do with a pod.
type Decision struct {
	Outcome Outcome
	// Reason and Detail say why a pod is skipped; else they are empty.
	Reason Reason
	Detail string
	// Patch changes the pod; empty for one that is untouched.
	Patch []Operation
}

// Decide looks at a pod that is to be created. It changes neither the pod nor the template.
func Decide(pod *corev1.Pod, t *Template) Decision {
	yes, ok := wants(pod)
	var problem *skip
	var p patch
	switch {
	case hasSidecar(pod, t):
		return Decision{Outcome: Untouched}
	case !ok:
		problem = skipped(BadAnnotation, `%s is %q: write "true" or "false"`, AnnotationInject, pod.Annotations[AnnotationInject])
	case !yes:
		return Decision{Outcome: Untouched}
	default:
		p, problem = inject(pod, t)
	}
	if problem != nil {
		p = nil
		p.entry(true, AnnotationStatus, string(Skipped), "metadata", "annotations")
		p.entry(true, AnnotationReason, problem.String(), "metadata", "annotations")
		return Decision{Outcome: Skipped, Reason: problem.reason, Detail: problem.detail, Patch: p}
	}
	return Decision{Outcome: Injected, Patch: p}
}

// hasSidecar reports whether the pod has the container, by the webhook or its own chart.
func hasSidecar(pod *corev1.Pod, t *Template) bool {
	is := func(c corev1.Container) bool { return c.Name == t.Sidecar.Name }
	return slices.ContainsFunc(pod.Spec.InitContainers, is) || slices.ContainsFunc(pod.Spec.Containers, is)
}

// inject makes the patch.
func inject(pod *corev1.Pod, t *Template) (patch, *skip) {
	if problem := obstacle(pod, t); problem != nil {
		return nil, problem
	}
	w, problem := readWish(pod, t)
	if problem != nil {
		return nil, problem
	}
	found, problem := agents(pod, t, w)
	if problem != nil {
		return nil, problem
	}
	var p patch
	p.entry(true, AnnotationStatus, string(Injected), "metadata", "annotations")
	p.entry(pod.Labels != nil, LabelInjected, "true", "metadata", "labels")
	for _, a := range found {
		a.point(&p, w.variable, t)
	}
	for i := range t.Volumes {
		v := t.Volumes[i]
		if v.Name == t.ConfigVolume && w.config != "" {
			v = *v.DeepCopy()
			v.ConfigMap.Name = w.config
		}
		insert(&p, len(pod.Spec.Volumes)+i, len(pod.Spec.Volumes)+i, v, "spec", "volumes")
	}
	secrets := len(pod.Spec.ImagePullSecrets)
	for _, s := range t.ImagePullSecrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, s) {
			insert(&p, secrets, secrets, s, "spec", "imagePullSecrets")
			secrets++
		}
	}
	sidecar := w.sidecar(t, found[0].source)
	if !t.Native {
		insert(&p, len(pod.Spec.Containers), 0, sidecar, "spec", "containers")
		return p, nil
	}
	at := 0
	if w.last {
		at = len(pod.Spec.InitContainers)
	}
	insert(&p, len(pod.Spec.InitContainers), at, sidecar, "spec", "initContainers")
	return p, nil
}

// obstacle is what keeps the pod from having a sidecar at all.
func obstacle(pod *corev1.Pod, t *Template) *skip {
	switch {
	case pod.Spec.HostNetwork:
		return skipped(HostNetwork, "the sidecar's ports would be the node's, where another pod may have them")
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows:
		return skipped(Windows, "the sidecar runs on Linux")
	case !t.Native && pod.Spec.RestartPolicy != corev1.RestartPolicyAlways && pod.Spec.RestartPolicy != "":
		return skipped(NeedsNativeSidecar, "with restartPolicy %s the pod would never end: an ordinary container beside the agent goes on running; Kubernetes 1.29 has sidecars that don't",
			pod.Spec.RestartPolicy)
	}
	for i := range pod.Spec.Volumes {
		for j := range t.Volumes {
			if name := pod.Spec.Volumes[i].Name; name == t.Volumes[j].Name {
				return skipped(NameTaken, "the pod has a volume %q of its own", name)
			}
		}
	}
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range all {
		c := &all[i]
		for _, theirs := range c.Ports {
			for _, ours := range t.Sidecar.Ports {
				if theirs.ContainerPort == ours.ContainerPort && theirs.Protocol != corev1.ProtocolUDP {
					return skipped(PortTaken, "container %q has port %d, which is the sidecar's", c.Name, theirs.ContainerPort)
				}
			}
		}
	}
	return nil
}

// agent is a container to be pointed at the sidecar.
type agent struct {
	*corev1.Container
	path   []string // of the container in the pod
	source *source
	at     place
}

// agents finds the containers that have the variable, at least one, all with the same source.
func agents(pod *corev1.Pod, t *Template, w wish) ([]agent, *skip) {
	var found []agent
	seen := map[string]bool{}
	look := func(list []corev1.Container, field string) {
		for i := range list {
			c := &list[i]
			seen[c.Name] = true
			if w.containers != nil && !slices.Contains(w.containers, c.Name) {
				continue
			}
			if s, at := sourceOf(c, w.variable); s != nil {
				found = append(found, agent{c, []string{"spec", field, strconv.Itoa(i)}, s, at})
			}
		}
	}
	if t.Native && !w.last { // they start after the sidecar
		look(pod.Spec.InitContainers, "initContainers")
	}
	look(pod.Spec.Containers, "containers")
	for _, name := range w.containers {
		switch {
		case !seen[name]:
			return nil, skipped(NoSuchContainer, "%s names %q, and no container that starts after the sidecar has that name", AnnotationContainers, name)
		case !slices.ContainsFunc(found, func(a agent) bool { return a.Name == name }):
			return nil, skipped(NoVariable, "container %q has no variable %s in env or envFrom", name, w.variable)
		}
	}
	if len(found) == 0 {
		return nil, skipped(NoVariable, "no container has a variable %s in env or envFrom; %s names another", w.variable, AnnotationRedisURLEnv)
	}
	for _, a := range found {
		own := a.source.env[len(a.source.env)-1]
		switch {
		case own.ValueFrom == nil && own.Value == "":
			return nil, skipped(EmptyVariable, "container %q has an empty %s", a.Name, w.variable)
		case own.Value == t.URL:
			return nil, skipped(AlreadyPointed, "container %q has the sidecar's own address in %s, and nothing says where the data is", a.Name, w.variable)
		case !a.source.same(found[0].source):
			return nil, skipped(DifferentUpstreams, "containers %q and %q have %s from different places, and a sidecar has one upstream; %s chooses",
				found[0].Name, a.Name, w.variable, AnnotationContainers)
		}
	}
	return found, nil
}

// point has the container's variable hold the sidecar's address.
func (a *agent) point(p *patch, variable string, t *Template) {
	v := corev1.EnvVar{Name: variable, Value: t.URL}
	if a.at == fromElsewhere {
		insert(p, len(a.Env), 0, v, append(slices.Clone(a.path), "env")...) // ahead of those that may refer to it
	} else {
		p.replace(v, append(slices.Clone(a.path), "env", strconv.Itoa(int(a.at)))...)
	}
	for i, m := range t.AgentMounts {
		insert(p, len(a.VolumeMounts)+i, len(a.VolumeMounts)+i, m, append(slices.Clone(a.path), "volumeMounts")...)
	}
}

// sidecar is the template's container with its upstream and what else the pod wishes.
func (w wish) sidecar(t *Template, s *source) corev1.Container {
	c := *t.Sidecar.DeepCopy()
	if t.Native {
		always := corev1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	}
	c.EnvFrom = append(slices.Clone(s.from), c.EnvFrom...)
	upstream := len(s.env) - 1
	c.Env = slices.Concat(s.env[:upstream], c.Env, s.env[upstream:])
	merge := func(into *corev1.ResourceList, changes corev1.ResourceList) {
		for name, quantity := range changes {
			if *into == nil {
				*into = corev1.ResourceList{}
			}
			(*into)[name] = quantity
		}
	}
	merge(&c.Resources.Requests, w.requests)
	merge(&c.Resources.Limits, w.limits)
	return c
}
