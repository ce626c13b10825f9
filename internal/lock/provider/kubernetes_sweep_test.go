//go:build kube

package provider_test

import (
	"net/http"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func (c *kubeCluster) leasesOutOfUseAreDeletedAndGrantsGoOn() {
	soon := func(s *provider.KubernetesSettings) { s.Keep, s.Prefix = time.Second, "swept" }
	l, other := c.open(soon), c.open(soon)
	path := func(session string) string {
		return strings.Replace(kubeLeasePath(session), "/fence-proxy.", "/swept.", 1)
	}
	there := func(session string) bool {
		status, _, err := c.server.Ask(http.MethodGet, path(session), nil)
		if err != nil {
			c.Fatal(err)
		}
		return status == http.StatusOK
	}
	held := c.acquire(l, kubeRequest(c.session("held")))
	network := harness.StartNetwork(c, []string{c.server.Addr})
	c.acquire(c.openAt("https://"+network.Addrs()[0], soon), provider.Request{Session: c.session("crashed"), Lease: time.Second})
	network.Cut()

	var last uint64
	for range 3 {
		h := c.acquire(l, kubeRequest(c.session("free")))
		if h.Grant() <= last {
			c.Fatalf("grant %d comes after %d when its Lease was deleted", h.Grant(), last)
		}
		last = h.Grant()
		c.release(h)
		c.eventually("a Lease that nobody holds is deleted", func() bool { return !there(c.session("free")) })
	}
	c.eventually("the Lease of a holder that is gone is deleted", func() bool { return !there(c.session("crashed")) })
	c.eventually("no proxy remembers them", func() bool { return provider.KubernetesLeases(l) == 1 && provider.KubernetesLeases(other) == 1 })
	if !there(c.session("held")) {
		c.Fatal("a Lease that is held was deleted")
	}
	if err := held.Renew(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// aSweepThatKnowsTooLittleDeletesNothing has a sweeper that does not see who has taken a Lease since.
func (c *kubeCluster) aSweepThatKnowsTooLittleDeletesNothing() {
	session := c.session("taken again")
	path := startKubeInterposer(c)
	path.refuse(func(r *http.Request) bool {
		return r.URL.Query().Get("watch") != "" || strings.HasSuffix(r.URL.Path, "/leases") && r.Method == http.MethodGet
	})
	sweeper := c.openAt(path.URL, func(s *provider.KubernetesSettings) { s.Keep = time.Second })
	c.release(c.acquire(sweeper, kubeRequest(session)))
	h := c.acquire(c.open(), kubeRequest(session))
	c.eventually("the sweeper tries to delete it", func() bool { return path.deletions() > 1 })
	if err := h.Renew(c.Context()); err != nil {
		c.Fatalf("a Lease was deleted while it was held: %v", err)
	}
	c.release(h)
}
