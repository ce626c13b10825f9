package provider

import (
	"regexp"
	"time"
)

// KubernetesSettings are lock.kubernetes of the configuration.
type KubernetesSettings struct {
	// Kubeconfig is the path of a kubeconfig file. Default "": the service account of the pod.
	Kubeconfig string `yaml:"kubeconfig"`
	// Context is a context of the kubeconfig. Default "": its current one.
	Context string `yaml:"context"`
	// Namespace is where the Leases are. Default "": the pod's own, or that of the kubeconfig's context.
	Namespace string `yaml:"namespace"`
	// Prefix is what the names of all Leases begin with. Proxies with the same namespace and prefix share their locks: they
	// must be those in front of one Redis. Default fence-proxy.
	Prefix string `yaml:"prefix"`
	// RequestTimeout is how long the API server may take to answer, and at most a quarter of the lease; then the request is sent once more.
	// Default 5s.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// Keep is how long a Lease that nobody holds is kept before it is deleted. Taking a session that has none takes no longer. Default 10m.
	Keep time.Duration `yaml:"keep"`
	// QPS limits the requests per second of this proxy, with Burst at once. Default 0: no limit, the API server has its own.
	QPS   int `yaml:"qps"`
	Burst int `yaml:"burst"`
}

func newKubernetesSettings() Settings {
	return &KubernetesSettings{Prefix: "fence-proxy", RequestTimeout: 5 * time.Second, Keep: 10 * time.Minute}
}

var kubePrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Validate implements Settings.
func (s *KubernetesSettings) Validate() (setting, remedy string) {
	switch {
	case !kubePrefix.MatchString(s.Prefix):
		return "prefix", "write at most 40 lower-case letters, digits and hyphens, a letter or digit first and last"
	case s.Context != "" && s.Kubeconfig == "":
		return "context", "say in kubeconfig which file it is in"
	case s.RequestTimeout < 10*time.Millisecond:
		return "request_timeout", "write a time of 10ms or more, as in 5s"
	case s.Keep < time.Second:
		return "keep", "write a time of 1s or more, as in 10m"
	case s.QPS < 0:
		return "qps", "write the number of requests per second, or 0 for no limit"
	case s.Burst < 0 || s.QPS > 0 && s.Burst == 0:
		return "burst", "write the number of requests that may be sent at once, 1 or more"
	default:
		return "", ""
	}
}
