package webhook

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Template is what the webhook adds to a pod. The Helm chart writes it, as YAML; a field that is not known is an error.
type Template struct {
	// RedisURLEnv names the variable that holds an agent's Redis URL, unless its pod names another. Required.
	RedisURLEnv string `json:"redisURLEnv"`
	// URL is the sidecar's address, as a client's URL. Required.
	URL string `json:"url"`
	// Native makes the sidecar an init container that goes on running (Kubernetes 1.29); else it is an ordinary one,
	// ahead of the others.
	Native bool `json:"native"`
	// Refuse denies pods that ask for the sidecar and can't have it, instead of letting them go without.
	Refuse bool `json:"refuse"`
	// ConfigVolume names the one of Volumes whose ConfigMap a pod may replace by its own. Required.
	ConfigVolume string `json:"configVolume"`
	// Sidecar is the container. Required: its name and image.
	Sidecar corev1.Container `json:"sidecar"`
	// Volumes are added to the pod.
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// AgentMounts are added to the containers that are pointed at the sidecar.
	AgentMounts []corev1.VolumeMount `json:"agentMounts,omitempty"`
	// ImagePullSecrets are added to the pod.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// ParseTemplate reads a template from YAML.
func ParseTemplate(text []byte) (*Template, error) {
	t := new(Template)
	if err := yaml.UnmarshalStrict(text, t); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Template) check() error {
	switch {
	case t.RedisURLEnv == "":
		return errors.New("redisURLEnv is missing")
	case t.URL == "":
		return errors.New("url is missing")
	case t.Sidecar.Name == "" || t.Sidecar.Image == "":
		return errors.New("sidecar has no name or no image")
	}
	for i := range t.Volumes {
		if v := &t.Volumes[i]; v.Name == t.ConfigVolume && v.ConfigMap != nil {
			return nil
		}
	}
	return fmt.Errorf("configVolume is %q, and no volume of this name has a ConfigMap", t.ConfigVolume)
}
