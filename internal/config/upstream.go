package config

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Embedded is the URL of the store in this process's memory.
const Embedded = "embedded:"

const urlExamples = "write redis://host:6379, redis+sentinel://host:26379/name, redis+cluster://host:6379,host:6379, unix:///path/redis.sock or \"embedded:\""

// Target is an upstream URL taken apart.
type Target struct {
	Embedded bool   // the store in this process's memory; all else is empty
	Network  string // "tcp" or "unix"
	Address  string // host:port, the port being 6379 unless given, the socket's path, or the name that Sentinels have for the primary
	Username string // "" for the default user
	Password string // "" for none
	DB       int    // the database to select; default 0
	TLS      bool   // all connections are under TLS

	// Sentinels are their addresses, host:port, the port being 26379 unless given; nil unless they are to be asked.
	Sentinels []string

	// Cluster has addresses of nodes of a Redis Cluster, of which the Address is the first; nil if it is none.
	Cluster []string
}

// Target takes the URL apart; as whom to log in may be said beside it, see [Upstream.Login]. It does not fail for a loaded configuration.
func (u Upstream) Target() (Target, error) {
	t, f := parseURL(u.URL)
	if f != nil {
		return Target{}, &Error{Key: "upstream.url", Problem: f.problem, Remedy: f.remedy}
	}
	if t.Password == "" {
		t.Username, t.Password = u.Username, u.Password
	}
	return t, nil
}

// parseURL takes an upstream URL apart. A fault repeats no more of it than what
// cannot be a password.
func parseURL(text string) (Target, *fault) {
	if text == Embedded {
		return Target{Embedded: true}, nil
	}
	if plain, covered := unsecured(text); covered {
		t, f := parseURL(plain)
		t.TLS = true
		return t, f
	}
	scheme, _, isURL := strings.Cut(text, "://")
	if !isURL {
		return Target{}, &fault{"is not a URL", urlExamples}
	}
	switch scheme {
	case "redis", "unix", "redis+sentinel":
	case "redis+cluster":
		return parseCluster(text)
	default:
		return Target{}, &fault{"does not begin with a known scheme", urlExamples}
	}
	hosts, one := []string(nil), text
	if scheme == "redis+sentinel" {
		hosts, one = cutHosts(text)
	}
	u, err := url.Parse(one)
	if err != nil || u.Fragment != "" {
		return Target{}, &fault{"cannot be parsed", "percent-encode what is special in the password (# as %23, / as %2F, ? as %3F, % as %25) and put IPv6 addresses in brackets"}
	}
	var t Target
	if u.User != nil {
		t.Username = u.User.Username()
		t.Password, _ = u.User.Password()
		if t.Password == "" {
			return Target{}, &fault{"has a user but no password", scheme + "://user:password@… logs in as a user, " + scheme + "://:password@… as the default one; upstream.username and upstream.password_file do so as well"}
		}
	}
	var f *fault
	switch scheme {
	case "unix":
		f = t.fromSocket(u)
	case "redis+sentinel":
		f = t.fromSentinels(hosts, u)
	default:
		f = t.fromHost(u)
	}
	return t, f
}

// fromHost reads redis://host[:port][/db].
func (t *Target) fromHost(u *url.URL) *fault {
	t.Network = "tcp"
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	switch {
	case u.Hostname() == "":
		return &fault{"names no host", "write redis://host:6379"}
	case !isPort(port, 1):
		return &fault{fmt.Sprintf("%q is not a port", port), "write a number from 1 to 65535"}
	case u.RawQuery != "":
		return &fault{"has options after a ?, and redis:// takes none", "remove them"}
	}
	t.Address = net.JoinHostPort(u.Hostname(), port)
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		return t.selectDB(db, "write its number after the host, as in redis://host:6379/2")
	}
	return nil
}

// fromSocket reads unix:///path[?db=N].
func (t *Target) fromSocket(u *url.URL) *fault {
	t.Network, t.Address = "unix", u.Path
	switch {
	case u.Host != "" || u.Path == "" || u.Path == "/":
		return &fault{"does not name a socket by its full path", "write three slashes, as in unix:///run/redis.sock"}
	case len(u.Path) > maxSocketPath:
		return longPath(u.Path)
	}
	return t.fromQuery(u, "write unix:///path?db=N")
}

// fromQuery reads what may stand behind the ?.
func (t *Target) fromQuery(u *url.URL, syntax string) *fault {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return &fault{"cannot be parsed after the ?", syntax}
	}
	for name, values := range query {
		if name != "db" || len(values) != 1 {
			return &fault{"has options after the ? other than one db", syntax}
		}
		return t.selectDB(values[0], "write its number, as in ?db=2")
	}
	return nil
}

func (t *Target) selectDB(text, remedy string) *fault {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return &fault{fmt.Sprintf("%q is not a database", text), remedy}
	}
	t.DB = int(n)
	return nil
}
