package webhook

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a pod says, as annotations.
const (
	// AnnotationInject asks for the sidecar ("true"), or declines it ("false").
	AnnotationInject = "fence-proxy/inject"
	// AnnotationRedisURLEnv names the variable that holds the Redis URL. Default Template.RedisURLEnv.
	AnnotationRedisURLEnv = "fence-proxy/redis-url-env"
	// AnnotationContainers names the containers to point at the sidecar, with commas between. Default: all that have the
	// variable.
	AnnotationContainers = "fence-proxy/containers"
	// AnnotationConfig names the ConfigMap with the proxy's configuration, in the pod's namespace. Default: the template's.
	AnnotationConfig = "fence-proxy/config"
	// AnnotationOrder says where the sidecar stands among the init containers: "first" (default) or "last", behind
	// another sidecar that it needs for its way to Redis, or an init container that makes one.
	AnnotationOrder = "fence-proxy/order"
	// These and a resource's name say what the sidecar asks for, or may use: fence-proxy/requests.cpu,
	// fence-proxy/limits.memory and so on.
	annotationRequests = "fence-proxy/requests."
	annotationLimits   = "fence-proxy/limits."
)

// What the webhook says, as annotations and a label.
const (
	// AnnotationStatus is "injected" or "skipped".
	AnnotationStatus = "fence-proxy/status"
	// AnnotationReason says why a pod was skipped: a [Reason], a colon, and the facts.
	AnnotationReason = "fence-proxy/reason"
	// LabelInjected is "true" on pods that have got the sidecar.
	LabelInjected = "fence-proxy/injected"
)

// wish is what a pod's annotations ask for.
type wish struct {
	variable   string
	containers []string // nil: all that have the variable
	config     string   // "": the template's
	last       bool
	requests   corev1.ResourceList // changes to the template's
	limits     corev1.ResourceList
}

// wants reports whether the pod asks for the sidecar; ok is false if that can't be told.
func wants(pod *corev1.Pod) (yes, ok bool) {
	switch pod.Annotations[AnnotationInject] {
	case "true":
		return true, true
	case "", "false":
		return false, true
	}
	return false, false
}

// readWish reads the annotations of a pod that asks for the sidecar.
func readWish(pod *corev1.Pod, t *Template) (wish, *skip) {
	w := wish{variable: t.RedisURLEnv}
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		value := strings.TrimSpace(pod.Annotations[name])
		switch {
		case name == AnnotationRedisURLEnv && value != "":
			w.variable = value
		case name == AnnotationContainers:
			for container := range strings.SplitSeq(value, ",") {
				if container = strings.TrimSpace(container); container != "" {
					w.containers = append(w.containers, container)
				}
			}
		case name == AnnotationConfig:
			w.config = value
		case name == AnnotationOrder:
			if value != "first" && value != "last" {
				return w, skipped(BadAnnotation, `%s is %q: write "first" or "last"`, name, value)
			}
			w.last = value == "last"
		case strings.HasPrefix(name, annotationRequests):
			if problem := quantity(&w.requests, name, annotationRequests, value); problem != nil {
				return w, problem
			}
		case strings.HasPrefix(name, annotationLimits):
			if problem := quantity(&w.limits, name, annotationLimits, value); problem != nil {
				return w, problem
			}
		case strings.HasPrefix(name, "fence-proxy/") && !known(name):
			return w, skipped(BadAnnotation, "%s is not known", name)
		}
	}
	return w, nil
}

// quantity reads one into a list of resources.
func quantity(list *corev1.ResourceList, name, prefix, value string) *skip {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return skipped(BadAnnotation, "%s is %q: write a quantity, as in 50m or 128Mi", name, value)
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[corev1.ResourceName(strings.TrimPrefix(name, prefix))] = q
	return nil
}

// known are the annotations that readWish does not look at.
func known(name string) bool {
	switch name {
	case AnnotationInject, AnnotationRedisURLEnv, AnnotationStatus, AnnotationReason:
		return true
	}
	return false
}
