package config

import (
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/secure"
)

// TLS is how clients connect under TLS, beside Config.Listen.
type TLS struct {
	// Listen is host:port; "" (default) is nowhere.
	Listen string `yaml:"listen"`
	// Cert and Key are files in PEM: the certificate that clients see, with those
	// of its authorities behind it, and its key. They may be replaced while the
	// proxy runs.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ClientCA is a file in PEM with the authorities that a client's certificate
	// has to be from; "" (default) asks for none.
	ClientCA string `yaml:"client_ca"`
	// MinVersion is the least version: "1.2" (default) or "1.3".
	MinVersion string `yaml:"min_version"`
}

// Server is the same for package secure.
func (t TLS) Server() secure.Server {
	version, _ := secure.Version(t.MinVersion)
	return secure.Server{Files: secure.Files{Cert: t.Cert, Key: t.Key, CA: t.ClientCA}, MinVersion: version}
}

// UpstreamTLS is how to connect to a Redis under TLS, where the URL begins with rediss.
type UpstreamTLS struct {
	// CA is a file in PEM with the authorities that are believed; "" (default) is
	// those of the system.
	CA string `yaml:"ca"`
	// Cert and Key are files in PEM with who the proxy is, for a Redis that asks.
	// All files may be replaced while the proxy runs.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// ServerName is asked for and checked instead of the host in the URL; "" (default) is that host.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify has any certificate believed. Default false.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
	// MinVersion is the least version: "1.2" (default) or "1.3".
	MinVersion string `yaml:"min_version"`
}

// Client is the same for package secure.
func (t UpstreamTLS) Client() secure.Client {
	version, _ := secure.Version(t.MinVersion)
	return secure.Client{
		Files: secure.Files{Cert: t.Cert, Key: t.Key, CA: t.CA}, ServerName: t.ServerName, Insecure: t.InsecureSkipVerify, MinVersion: version,
	}
}

// secured are the schemes under TLS, by those without.
var secured = map[string]string{"rediss": "redis", "rediss+sentinel": "redis+sentinel", "rediss+cluster": "redis+cluster"}

// unsecured is a URL as it would be without TLS, and whether it is under TLS.
func unsecured(text string) (string, bool) {
	scheme, rest, _ := strings.Cut(text, "://")
	if plain, ok := secured[scheme]; ok {
		return plain + "://" + rest, true
	}
	return text, false
}

// checkTLS looks at what is said of TLS on both sides.
func (c *Config) checkTLS(target Target) []finding {
	var found []finding
	refuse := func(key, problem, remedy string) { found = append(found, finding{key, fault{problem, remedy}}) }
	const versions = "write 1.2 or 1.3"
	t := c.TLS
	switch network, _, f := splitListen(t.Listen); {
	case t.Listen == "" && (t.Cert != "" || t.Key != "" || t.ClientCA != ""):
		refuse("tls", "has certificates, and tls.listen is nowhere", "write where clients connect under TLS, as in listen: \":6390\", or remove them")
	case t.Listen == "":
	case f != nil:
		found = append(found, finding{"tls.listen", *f})
	case network != "tcp":
		refuse("tls.listen", "is a socket, which needs no TLS", "write host:port")
	case !strings.HasSuffix(t.Listen, ":0") && (t.Listen == c.Listen || t.Listen == c.Admin):
		refuse("tls.listen", "is where something else listens", "choose another port: clients without TLS keep theirs")
	case t.Cert == "" || t.Key == "":
		refuse("tls", "lacks cert or key", "name the files of the certificate that clients are to see")
	default:
		if err := t.Server().Check(); err != nil {
			refuse("tls", "has files that are no good: "+err.Error(), "check the paths, their modes, and that the key is the certificate's")
		}
	}
	if c.Listen == "" && t.Listen == "" {
		refuse("listen", "is nowhere, and so is tls.listen", "write host:port for one of them")
	}
	if _, ok := secure.Version(t.MinVersion); !ok {
		refuse("tls.min_version", "\""+t.MinVersion+"\" is not known", versions)
	}
	u := c.Upstream.TLS
	if _, ok := secure.Version(u.MinVersion); !ok {
		refuse("upstream.tls.min_version", "\""+u.MinVersion+"\" is not known", versions)
	}
	if err := u.Client().Check(); err != nil {
		refuse("upstream.tls", "has files that are no good: "+err.Error(), "check the paths, their modes, and that the key is the certificate's")
	}
	if given := u; !target.TLS {
		given.MinVersion = ""
		if given != (UpstreamTLS{}) {
			refuse("upstream.tls", "is given, and upstream.url is not under TLS", "write rediss:// (or rediss+sentinel://, rediss+cluster://) there, or remove it")
		}
	}
	return found
}
