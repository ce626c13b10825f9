//go:build integration && kube

package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// lockProviders has Kubernetes alone under the kube tag: it needs an API server, which is no Debian package.
var lockProviders = []lockProvider{{"kubernetes", startKubernetesLocks}}

func startKubernetesLocks(t *testing.T) lockServers {
	t.Helper()
	const namespace = "agents"
	k := harness.StartKubernetes(t)
	k.CreateNamespace(namespace)
	k.Apply(namespace, "../docs/kubernetes-rbac.yaml")
	kubeconfig := k.Kubeconfig(t, "https://"+k.Addr, namespace, k.Token(namespace, "fence-proxy"))
	return lockServers{
		config: fmt.Sprintf("  kubernetes:\n    kubeconfig: %q\n    request_timeout: 500ms\n", kubeconfig),
		lease:  2 * time.Second, stop: k.Stop, start: k.Start,
	}
}
