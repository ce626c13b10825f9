//go:build kube

package provider_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// The namespace has the documented rights, and the Lockers have no others.
const (
	kubeNamespace = "agents"
	kubeRights    = "../../../docs/kubernetes-rbac.yaml"
)

func TestKubernetes(t *testing.T) {
	server := startKube(t)
	token := server.Token(kubeNamespace, "fence-proxy")
	locktest.Run(t, locktest.Harness{
		Open: func(tb testing.TB) locktest.Proxy {
			tb.Helper()
			network := harness.StartNetwork(tb, []string{server.Addr})
			kubeconfig := server.Kubeconfig(tb, "https://"+network.Addrs()[0], kubeNamespace, token)
			return locktest.Proxy{Locker: openKube(tb, kubeconfig), Network: network}
		},
		Servers: server,
		End: func(tb testing.TB, session string) {
			tb.Helper()
			server.Do(http.MethodDelete, kubeLeasePath(session), nil)
		},
		Lease:     2 * time.Second,
		Gone:      3 * time.Second,
		OwnLeases: true,
	})
}

func startKube(t *testing.T) *harness.Kubernetes {
	t.Helper()
	server := harness.StartKubernetes(t)
	server.CreateNamespace(kubeNamespace)
	server.Apply(kubeNamespace, kubeRights)
	return server
}

// openKube opens a Locker, which the caller closes.
func openKube(tb testing.TB, kubeconfig string, edits ...func(*provider.KubernetesSettings)) provider.Locker {
	tb.Helper()
	settings := provider.Kubernetes.Settings().(*provider.KubernetesSettings)
	settings.Kubeconfig = kubeconfig
	settings.RequestTimeout = 10 * time.Second // of a busy machine
	for _, edit := range edits {
		edit(settings)
	}
	log := slog.New(slog.NewTextHandler(tb.Output(), nil))
	locker, err := provider.Kubernetes.Open(settings, provider.Environment{Proxy: provider.NewKubernetesProxy(), Log: log})
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	return locker
}

func kubeLeasePath(session string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + kubeNamespace + "/leases/" + provider.KubernetesLeaseName(session)
}
