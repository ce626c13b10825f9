package provider

import (
	"net/url"
	"strings"
	"time"
)

// ConsulSettings are the settings of lock.consul. What they leave open is taken from Consul's own environment variables, such as
// CONSUL_HTTP_TOKEN, CONSUL_NAMESPACE and CONSUL_CACERT.
type ConsulSettings struct {
	// Address is the agent's HTTP API, as a URL. Default: http://127.0.0.1:8500.
	Address string `yaml:"address"`
	// Token is the ACL token. It needs key:write below Path, session:write on the agent's node, and, to read its own session,
	// session:read there. TokenFile is a file with it. Default: none.
	Token     string `yaml:"token"`
	TokenFile string `yaml:"token_file"`
	// Datacenter is where the locks are. Default: the agent's.
	Datacenter string `yaml:"datacenter"`
	// Path is the beginning of all keys, without a slash at either end. Default: fence-proxy.
	Path string `yaml:"path"`
	// SessionTTL is the lease of all holds: the proxy counts them as lost when Consul was not heard of for so long. Consul
	// ends them up to twice as late, and takes no TTL below 10 seconds unless its session_ttl_min is set. Default: 10s.
	SessionTTL time.Duration `yaml:"session_ttl"`
	// LockDelay is for how long Consul grants to nobody what this proxy held when its Consul session ended, up to 60s. The
	// store refuses the old holder's writes, so it is not needed for safety. Default: 0s.
	LockDelay time.Duration `yaml:"lock_delay"`
	// Checks are the health checks of the agent's node that end all holds when they turn critical. Leave serfHealth out where
	// Address is not that of an agent on the proxy's own machine. Default: serfHealth.
	Checks []string `yaml:"checks"`
	// CleanupInterval is how often keys are looked for that nobody holds: those whose holder's session has ended. They are
	// deleted the second time that they are found unchanged. Default: 10m.
	CleanupInterval time.Duration `yaml:"cleanup_interval"`
	// TLSCA is a file with the certificates that the agent's is signed with, in PEM. Default: the system's.
	TLSCA string `yaml:"tls_ca"`
	// TLSCert and TLSKey are files with the proxy's own certificate and its key, in PEM. Default: none.
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`
}

func consulDefaults() Settings {
	return &ConsulSettings{
		Address: "http://127.0.0.1:8500", Path: "fence-proxy", SessionTTL: 10 * time.Second, Checks: []string{"serfHealth"},
		CleanupInterval: 10 * time.Minute,
	}
}

// Validate is part of Settings.
func (s *ConsulSettings) Validate() (setting, remedy string) {
	address, err := url.Parse(s.Address)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https":
		return "address", "write a URL as in http://127.0.0.1:8500 or https://consul.example:8501"
	case s.Token != "" && s.TokenFile != "":
		return "token_file", "give token or token_file, not both"
	case s.Path == "" || strings.HasPrefix(s.Path, "/") || strings.HasSuffix(s.Path, "/"):
		return "path", "write a path as in fence-proxy or team/fence-proxy"
	case s.SessionTTL < time.Second || s.SessionTTL > 24*time.Hour:
		return "session_ttl", "choose 10s to 24h"
	case s.LockDelay < 0 || s.LockDelay > time.Minute:
		return "lock_delay", "choose 0s to 60s"
	case s.CleanupInterval < time.Second:
		return "cleanup_interval", "choose 1s or more"
	case s.TLSCert == "" && s.TLSKey != "":
		return "tls_cert", "give both tls_cert and tls_key, or none"
	case s.TLSCert != "" && s.TLSKey == "":
		return "tls_key", "give both tls_cert and tls_key, or none"
	case address.Scheme != "https" && (s.TLSCA != "" || s.TLSCert != ""):
		return "address", "write https://, or leave out tls_ca, tls_cert and tls_key"
	}
	return "", ""
}
