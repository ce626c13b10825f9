package config

import (
	"slices"
	"strings"
)

const clusterScheme = "redis+cluster://"

// How a Redis Cluster shows to clients: Upstream.Cluster.
const (
	// ClusterHidden shows one Redis.
	ClusterHidden = "hidden"
	// ClusterPassthrough shows a cluster of one node, which is the proxy.
	ClusterPassthrough = "passthrough"
)

// Clustered reports whether the URL names a Redis Cluster.
func (u Upstream) Clustered() bool {
	plain, _ := unsecured(u.URL)
	return strings.HasPrefix(plain, clusterScheme)
}

// parseCluster takes redis+cluster://[[user]:password@]host[:port][,host[:port]…] apart.
func parseCluster(text string) (Target, *fault) {
	rest := strings.TrimPrefix(text, clusterScheme)
	login, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		login, hosts = rest[:at+1], rest[at+1:]
	}
	hosts, path, _ := strings.Cut(hosts, "/")
	if strings.Trim(path, "0") != "" {
		return Target{}, &fault{"names a database, and a cluster has database 0 only", "remove what is behind the hosts"}
	}
	if strings.ContainsAny(hosts, "?#") {
		return Target{}, &fault{"has options after the hosts, and " + clusterScheme + " takes none", "remove them"}
	}
	var t Target
	for host := range strings.SplitSeq(hosts, ",") {
		one, f := parseURL("redis://" + login + host)
		if f != nil {
			f.remedy = strings.ReplaceAll(f.remedy, "redis://", clusterScheme)
			return Target{}, f
		}
		one.Cluster = slices.Concat(t.Cluster, []string{one.Address})
		one.Address = one.Cluster[0]
		t = one
	}
	return t, nil
}
