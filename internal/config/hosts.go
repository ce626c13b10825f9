package config

import (
	"net"
	"net/url"
	"strings"
)

// A URL of several servers has their addresses where others have one: scheme://[user:password@]a:1,b:2,c/path.

// cutHosts takes the addresses out of a URL of several servers. rest is the URL with the first one only, as [url.Parse]
// takes it.
func cutHosts(text string) (hosts []string, rest string) {
	scheme, after, ok := strings.Cut(text, "://")
	if !ok {
		return nil, text
	}
	authority, path := after, ""
	if i := strings.IndexAny(after, "/?#"); i >= 0 {
		authority, path = after[:i], after[i:]
	}
	user := ""
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, authority = authority[:i+1], authority[i+1:]
	}
	hosts = strings.Split(authority, ",")
	return hosts, scheme + "://" + user + hosts[0] + path
}

// hostPorts gives each address that has none the usual port. A fault names the address.
func hostPorts(hosts []string, port string) ([]string, *fault) {
	addrs := make([]string, len(hosts))
	for i, host := range hosts {
		u, err := url.Parse("redis://" + host)
		switch {
		case host == "" || err != nil || u.Hostname() == "" || u.Path != "" || u.RawQuery != "":
			return nil, &fault{"has an address that is none among its servers", "write them with commas between and IPv6 addresses in brackets, as in host:" + port + ",[fd00::1]:" + port}
		case u.Port() == "":
			addrs[i] = net.JoinHostPort(u.Hostname(), port)
		case !isPort(u.Port(), 1):
			return nil, &fault{"\"" + u.Port() + "\" is not a port", "write a number from 1 to 65535"}
		default:
			addrs[i] = net.JoinHostPort(u.Hostname(), u.Port())
		}
	}
	return addrs, nil
}

// maskURL is a URL, of one or several servers, with the password masked; "" if it is none.
func maskURL(text string) string {
	hosts, rest := cutHosts(text)
	u, err := url.Parse(rest)
	if err != nil {
		return ""
	}
	if len(hosts) > 1 {
		u.Host = strings.Join(hosts, ",")
	}
	return u.Redacted()
}
