package config

import (
	"net/url"
	"strings"
)

// Sentinel is as whom to log in at the Sentinels of a redis+sentinel:// URL, whose user is the Redis's own.
type Sentinel struct {
	// Username is "" (default) for Sentinels that ask for a password only.
	Username string `yaml:"username"`
	// Password is "" (default) for Sentinels that ask for none.
	Password string `yaml:"password"`
	// PasswordFile is a file with the password, instead of Password; it is read for
	// each new connection. Default "".
	PasswordFile string `yaml:"password_file"`
}

const (
	sentinelPort   = "26379"
	sentinelSyntax = "write redis+sentinel://host:26379,host2:26379/name, the name being what Sentinel calls the primary, as in /mymaster"
)

// fromSentinels reads redis+sentinel://a,b,c/name[?db=N].
func (t *Target) fromSentinels(hosts []string, u *url.URL) (f *fault) {
	if t.Sentinels, f = hostPorts(hosts, sentinelPort); f != nil {
		return f
	}
	t.Network, t.Address = "tcp", strings.TrimPrefix(u.Path, "/")
	if t.Address == "" || strings.Contains(t.Address, "/") {
		return &fault{"does not name the primary", sentinelSyntax}
	}
	return t.fromQuery(u, sentinelSyntax+"?db=N")
}

// checkSentinel looks at the options for Sentinels.
func (u Upstream) checkSentinel(t Target) []finding {
	var found []finding
	if u.Sentinel != (Sentinel{}) && len(t.Sentinels) == 0 {
		found = append(found, finding{"upstream.sentinel", fault{"is given, and upstream.url names no Sentinels", "remove it, or " + sentinelSyntax}})
	}
	return append(found, checkLogin("upstream.sentinel", u.Sentinel.Username, u.Sentinel.Password, u.Sentinel.PasswordFile)...)
}
