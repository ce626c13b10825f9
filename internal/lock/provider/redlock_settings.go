package provider

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedlockSettings say which nodes there are, and how they are asked. All proxies of a store must have the same nodes, prefix and
// restart_delay: change the nodes only while every proxy is stopped, for longer than a lease.
type RedlockSettings struct {
	// Nodes are the independent Redis servers, at least three, none a replica of another:
	// redis://[[user]:password@]host[:port][/db], or rediss:// for TLS. A majority of them has to answer.
	Nodes []string `yaml:"nodes"`
	// Username and Password are for all nodes whose URL has none.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
	// TLSCA, TLSCert and TLSKey are files in PEM, for nodes of rediss://: whom to believe (default: the system's authorities), and who the
	// proxy is (default: nobody). Certificate and key are read again for each connection.
	TLSCA   string `yaml:"tls_ca"`
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`
	// Prefix begins the name of each key and channel. Default: "fence-redlock:".
	Prefix string `yaml:"prefix"`
	// NodeTimeout is how long one node may take for one answer, at most a fifth of the lease. Default: 250ms.
	NodeTimeout time.Duration `yaml:"node_timeout"`
	// DriftPercent of the lease, and 2 ms, are taken off the time that a hold counts as valid, since clocks run at
	// different rates. Default: 1.
	DriftPercent int `yaml:"drift_percent"`
	// BackoffMin and BackoffMax bound how long a waiter waits before it asks again: from the one, doubling, to the other,
	// each time at random between a half and all of it. Default: 20ms and 1s.
	BackoffMin time.Duration `yaml:"backoff_min"`
	BackoffMax time.Duration `yaml:"backoff_max"`
	// RestartDelay is how long a node takes no part after it has lost what it knew (it is new, was restarted empty or flushed): at least
	// the longest lease, or two owners can hold one session after a restart. 0s is for nodes that never forget. Default: 30s.
	RestartDelay time.Duration `yaml:"restart_delay"`
	// CounterTTL is how long a node remembers the newest grant of a session that is not used any more. Default: 24h.
	CounterTTL time.Duration `yaml:"counter_ttl"`
}

func redlockDefaults() Settings {
	return &RedlockSettings{
		Prefix: "fence-redlock:", NodeTimeout: 250 * time.Millisecond, DriftPercent: 1,
		BackoffMin: 20 * time.Millisecond, BackoffMax: time.Second, RestartDelay: 30 * time.Second, CounterTTL: 24 * time.Hour,
	}
}

// Validate says what can't be.
func (s *RedlockSettings) Validate() (setting, remedy string) {
	if len(s.Nodes) < 3 {
		return "nodes", fmt.Sprintf("name at least three independent Redis servers, there are %d; an odd number is best", len(s.Nodes))
	}
	var seen []string
	secure := false
	for i, node := range s.Nodes {
		o, err := redis.ParseURL(node)
		switch {
		case err != nil || o.Network != "tcp" || strings.Contains(node, "?"):
			return fmt.Sprintf("nodes[%d]", i), "write redis://[[user]:password@]host[:port][/db], or rediss:// for TLS"
		case slices.Contains(seen, o.Addr):
			return fmt.Sprintf("nodes[%d]", i), fmt.Sprintf("name %s once: a server has one vote", o.Addr)
		}
		seen = append(seen, o.Addr)
		secure = secure || o.TLSConfig != nil
	}
	switch {
	case s.Username != "" && s.Password == "":
		return "password", "give the password of " + s.Username
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return "tls_cert", "give both tls_cert and tls_key, or none"
	case (s.TLSCA != "" || s.TLSCert != "") && !secure:
		return "nodes", "begin each with rediss://, since TLS files are given"
	case s.Prefix == "":
		return "prefix", `give the keys a name of their own, as "fence-redlock:"`
	case s.NodeTimeout <= 0:
		return "node_timeout", "say how long a node may take for an answer, as 250ms"
	case s.DriftPercent < 0 || s.DriftPercent > 50:
		return "drift_percent", "choose 0 to 50; clocks seldom drift by more than 1"
	case s.BackoffMin < time.Millisecond:
		return "backoff_min", "choose at least 1ms"
	case s.BackoffMax < s.BackoffMin:
		return "backoff_max", "choose at least backoff_min"
	case s.RestartDelay < 0:
		return "restart_delay", "choose at least the longest lease, or 0s for nodes that never forget"
	case s.CounterTTL < time.Minute || s.CounterTTL < s.RestartDelay:
		return "counter_ttl", "choose at least a minute, and at least restart_delay"
	}
	return "", ""
}
