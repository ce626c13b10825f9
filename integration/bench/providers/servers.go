package providers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// servers are those of one provider.
type servers struct {
	addrs []string // "host:port" of each
	// settings are the lines below lock: of a proxy that finds the servers at other addresses.
	settings func(addrs []string) string
}

// starters start the servers of each provider.
var starters = map[string]func(tb testing.TB) servers{
	"etcd":       startEtcd,
	"redlock":    startRedlock,
	"zookeeper":  startZooKeeper,
	"consul":     startConsul,
	"kubernetes": startKubernetes,
}

func startEtcd(tb testing.TB) servers {
	tb.Helper()
	e := harness.StartEtcd(tb, 1)
	return servers{e.Addrs(), func(addrs []string) string {
		return "  etcd:\n    endpoints: " + list(addrs) + "\n"
	}}
}

func startRedlock(tb testing.TB) servers {
	tb.Helper()
	var addrs []string
	for range 3 {
		addrs = append(addrs, harness.StartRedis(tb).Addr)
	}
	return servers{addrs, func(addrs []string) string {
		var urls []string
		for _, addr := range addrs {
			urls = append(urls, "redis://"+addr)
		}
		return "  redlock:\n    nodes: " + list(urls) + "\n    restart_delay: 0s\n"
	}}
}

func startZooKeeper(tb testing.TB) servers {
	tb.Helper()
	z := harness.StartZooKeeper(tb)
	return servers{[]string{z.Addr}, func(addrs []string) string {
		return "  zookeeper:\n    servers: " + list(addrs) + "\n"
	}}
}

func startConsul(tb testing.TB) servers {
	tb.Helper()
	c := harness.StartConsul(tb)
	return servers{[]string{c.Addr}, func(addrs []string) string {
		return "  consul:\n    address: http://" + addrs[0] + "\n"
	}}
}

func startKubernetes(tb testing.TB) servers {
	tb.Helper()
	const namespace = "agents"
	k := harness.StartKubernetes(tb)
	k.CreateNamespace(namespace)
	k.Apply(namespace, "../../../docs/kubernetes-rbac.yaml")
	token := k.Token(namespace, "fence-proxy")
	return servers{[]string{k.Addr}, func(addrs []string) string {
		return "  kubernetes:\n    kubeconfig: " + k.Kubeconfig(tb, "https://"+addrs[0], namespace, token) + "\n"
	}}
}

// list is a list in YAML.
func list(texts []string) string {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
