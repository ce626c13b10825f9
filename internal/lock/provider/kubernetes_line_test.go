//go:build kube

package provider_test

import (
	"context"
	"net/http"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func (c *kubeCluster) proxiesTakeTurns() {
	session := c.session("busy")
	one, two, three := c.open(), c.open(), c.open()
	for _, l := range []provider.Locker{one, two, three} {
		provider.SetKubernetesTurn(l, time.Hour)
	}
	held := c.acquire(one, kubeRequest(session))
	var own []*kubeAttempt
	for n := 1; n <= 2; n++ {
		own = append(own, c.begin(c.Context(), one, kubeRequest(session)))
		c.eventually("it waits", func() bool { return provider.KubernetesWaiters(one, session) == n })
	}
	second := c.begin(c.Context(), two, kubeRequest(session))
	c.eventually("the second proxy is in line", func() bool { return len(c.line(session)) == 1 })
	third := c.begin(c.Context(), three, kubeRequest(session))
	c.eventually("the third proxy is in line", func() bool { return len(c.line(session)) == 2 })

	// The proxy that has released goes to the end of the line, for its waiters.
	order := []*kubeAttempt{second, third, own[0], own[1]}
	for i, next := range order {
		c.release(held)
		held = c.granted(next)
		for _, later := range order[i+1:] {
			if later.over() {
				c.Fatalf("waiter %d was served before its turn", i+1)
			}
		}
	}
	c.release(held)
	if line := c.line(session); len(line) != 0 {
		c.Errorf("the line is %v when everybody was served", line)
	}
}

// aTurnCostsTwoRequests, and one where the session is passed on.
func (c *kubeCluster) aTurnCostsTwoRequests() {
	const turns = 5
	session := c.session("counted")
	path := startKubeInterposer(c)
	l := c.openAt(path.URL)
	c.release(c.acquire(l, kubeRequest(session)))
	before := path.changed()
	for range turns {
		c.release(c.acquire(l, kubeRequest(session)))
	}
	if n := path.changed() - before; n != 2*turns {
		c.Errorf("%d turns cost %d requests", turns, n)
	}

	held := c.acquire(l, kubeRequest(session))
	var waiters []*kubeAttempt
	for n := 1; n <= turns; n++ {
		waiters = append(waiters, c.begin(c.Context(), l, kubeRequest(session)))
		c.eventually("it waits", func() bool { return provider.KubernetesWaiters(l, session) == n })
	}
	before = path.changed()
	for _, w := range waiters {
		c.release(held)
		held = c.granted(w)
	}
	if n := path.changed() - before; n != turns {
		c.Errorf("a session was passed on %d times with %d requests", turns, n)
	}
	c.release(held)
}

func (c *kubeCluster) whoDoesNotComeLosesItsTurn() {
	session := c.session("ghosts")
	held := c.acquire(c.open(), kubeRequest(session))
	network := harness.StartNetwork(c, []string{c.server.Addr})
	ghost := c.openAt("https://" + network.Addrs()[0])
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	c.begin(ctx, ghost, kubeRequest(session))
	c.eventually("the first proxy is in line", func() bool { return len(c.line(session)) == 1 })
	next := c.begin(c.Context(), c.open(), kubeRequest(session))
	c.eventually("the second proxy is in line", func() bool { return len(c.line(session)) == 2 })
	network.Cut()
	c.release(held)
	c.release(c.granted(next))
	if line := c.line(session); len(line) != 0 {
		c.Errorf("the line is %v, with one in it that did not come", line)
	}
	network.Restore()
}

// aWaiterBehindABrokenWatchIsServed has no watch at all, and every Locker needs its own look.
func (c *kubeCluster) aWaiterBehindABrokenWatchIsServed() {
	session := c.session("blind")
	path := startKubeInterposer(c)
	path.refuse(func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" })
	blind := c.openAt(path.URL)
	h := c.acquire(c.open(), kubeRequest(session))
	waiter := c.begin(c.Context(), blind, kubeRequest(session))
	c.eventually("it is in line", func() bool { return len(c.line(session)) == 1 })
	c.release(h)
	c.release(c.granted(waiter))
	if err := blind.Check(c.Context()); err == nil {
		c.Error("Check finds nothing amiss without a watch")
	}
}
