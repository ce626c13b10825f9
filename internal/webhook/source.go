package webhook

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// upstreamVariable is the sidecar's variable for where the data is.
const upstreamVariable = "FENCE_UPSTREAM_URL"

// source is where a container has its Redis URL from, as environment that gives another container of the pod the same, in
// upstreamVariable.
type source struct {
	from []corev1.EnvFromSource
	env  []corev1.EnvVar
}

func (s *source) same(o *source) bool {
	return equality.Semantic.DeepEqual(s.from, o.from) && equality.Semantic.DeepEqual(s.env, o.env)
}

// place is where the variable stands in a container: its index in env, or -1 if it comes from envFrom.
type place int

const fromElsewhere place = -1

// sourceOf finds the variable in a container; nil if it is not there, as far as the pod's text tells.
func sourceOf(c *corev1.Container, variable string) (*source, place) {
	for i := len(c.Env) - 1; i >= 0; i-- { // of several of one name the last counts
		if c.Env[i].Name == variable {
			return fromEnv(c, i), place(i)
		}
	}
	return fromSets(c, variable), fromElsewhere
}

// fromEnv follows a variable that the container names itself, with those that its text refers to.
func fromEnv(c *corev1.Container, at int) *source {
	s := new(source)
	own := carried(c, at)
	own.Name = upstreamVariable
	required(own.ValueFrom)
	wanted := references(own.Value)
	for i := at - 1; i >= 0 && len(wanted) > 0; i-- {
		if !slices.Contains(wanted, c.Env[i].Name) {
			continue
		}
		v := carried(c, i)
		s.env = append(s.env, v)
		wanted = append(wanted, references(v.Value)...)
	}
	slices.Reverse(s.env)
	for _, name := range wanted {
		here := slices.ContainsFunc(s.env, func(v corev1.EnvVar) bool { return v.Name == name })
		if !here && len(c.EnvFrom) > 0 { // else it is a Service's, which each container of the pod has
			s.from = slices.Clone(c.EnvFrom)
			break
		}
	}
	s.env = append(s.env, own)
	return s
}

// fromSets takes a variable from the ConfigMaps and Secrets whose keys all become variables. Which keys they have the webhook
// does not know. With one of them the sidecar gets that key and no other, and a kubelet that does not find it says so; with
// several it gets them all, and stops with an error if the variable is in none.
func fromSets(c *corev1.Container, variable string) *source {
	var fits []corev1.EnvFromSource
	for _, from := range c.EnvFrom {
		if strings.HasPrefix(variable, from.Prefix) && len(variable) > len(from.Prefix) {
			fits = append(fits, from)
		}
	}
	switch len(fits) {
	case 0:
		return nil
	case 1:
		key := strings.TrimPrefix(variable, fits[0].Prefix)
		v := &corev1.EnvVarSource{}
		if set := fits[0].SecretRef; set != nil {
			v.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: set.LocalObjectReference, Key: key}
		} else if set := fits[0].ConfigMapRef; set != nil {
			v.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: set.LocalObjectReference, Key: key}
		}
		return &source{env: []corev1.EnvVar{{Name: upstreamVariable, ValueFrom: v}}}
	}
	return &source{from: fits, env: []corev1.EnvVar{{Name: upstreamVariable, Value: "$(" + variable + ")"}}}
}

// carried is a container's variable as another container has to spell it.
func carried(c *corev1.Container, at int) corev1.EnvVar {
	v := *c.Env[at].DeepCopy()
	if v.ValueFrom != nil && v.ValueFrom.ResourceFieldRef != nil && v.ValueFrom.ResourceFieldRef.ContainerName == "" {
		v.ValueFrom.ResourceFieldRef.ContainerName = c.Name
	}
	return v
}

// required makes a reference that may be missing one that must be there: without an upstream the sidecar is no use.
func required(v *corev1.EnvVarSource) {
	switch {
	case v == nil:
	case v.SecretKeyRef != nil:
		v.SecretKeyRef.Optional = nil
	case v.ConfigMapKeyRef != nil:
		v.ConfigMapKeyRef.Optional = nil
	case v.FileKeyRef != nil:
		v.FileKeyRef.Optional = nil
	}
}

// references are the names of the variables that a value refers to, as in "redis://:$(PASSWORD)@$(HOST)". $$ is a dollar.
func references(value string) []string {
	var names []string
	for {
		at := strings.IndexByte(value, '$')
		if at < 0 || at+1 >= len(value) {
			return names
		}
		rest := value[at+2:]
		if value[at+1] == '(' {
			name, after, closed := strings.Cut(rest, ")")
			if !closed {
				return names
			}
			names, rest = append(names, name), after
		}
		value = rest
	}
}
