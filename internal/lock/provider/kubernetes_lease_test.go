//go:build kube

package provider_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// aLeaseCountsByTheClockOfWhoWaits has holders whose clocks are hours behind or ahead.
func (c *kubeCluster) aLeaseCountsByTheClockOfWhoWaits() {
	for name, skew := range map[string]time.Duration{"behind": -3 * time.Hour, "ahead": 3 * time.Hour} {
		c.eventually("a holder renews in time", func() bool { return c.keptInSpiteOf(skew, c.session(name)) })
	}
}

// keptInSpiteOf holds a session for longer than its lease, and fails the test if it is taken too early, or never when it is renewed no
// more. It is false when a renewal came too late, through no fault of the provider.
func (c *kubeCluster) keptInSpiteOf(skew time.Duration, session string) bool {
	c.Helper()
	const lease, renewals = 2 * time.Second, 40
	c.release(c.acquire(c.open(), kubeRequest(session)))
	object := c.lease(session)
	write := func() bool {
		spec := kubeField(object, "spec").(map[string]any)
		spec["holderIdentity"], spec["leaseDurationSeconds"] = "somebody", lease/time.Second
		spec["renewTime"] = time.Now().Add(skew).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		status, answer, err := c.server.Ask(http.MethodPut, kubeLeasePath(session), object)
		if err != nil {
			c.Fatal(err)
		}
		if status == http.StatusConflict {
			object = c.lease(session)
			return false
		}
		object = answer
		return true
	}
	last := time.Now()
	write()
	waiter := c.begin(c.Context(), c.open(), kubeRequest(session))
	inTime := true
	for n := 0; n < renewals && inTime; n++ {
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		for !write() && inTime { // the waiter has entered the line
			inTime = time.Since(last) < lease
			if inTime && kubeHolder(object) != "somebody" {
				c.Fatalf("with a clock %v off, a Lease was taken %v after it was renewed", skew, time.Since(last))
			}
		}
		last = begun
	}
	c.release(c.granted(waiter))
	return inTime
}

// aDeletedLeaseIsNotMadeAnewByWhoHeldIt has a holder that hears of the deletion, and two that don't.
func (c *kubeCluster) aDeletedLeaseIsNotMadeAnewByWhoHeldIt() {
	path := startKubeInterposer(c)
	path.refuse(func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" })
	told, blind := c.open(), c.openAt(path.URL)
	renew := func(h provider.Hold) {
		if err := h.Renew(c.Context()); !errors.Is(err, provider.ErrLost) {
			c.Errorf("renew what was deleted: %v", err)
		}
		<-h.Lost()
	}
	for name, play := range map[string]struct {
		locker provider.Locker
		first  func(h provider.Hold)
	}{
		"told":                        {told, func(h provider.Hold) { c.eventually("the watch tells", func() bool { return kubeLost(h) }); renew(h) }},
		"not told, and it renews":     {blind, renew},
		"not told, and it gives back": {blind, func(provider.Hold) {}},
	} {
		session := c.session(name)
		h := c.acquire(play.locker, kubeRequest(session))
		c.server.Do(http.MethodDelete, kubeLeasePath(session), nil)
		play.first(h)
		if err := h.Release(c.Context()); err != nil {
			c.Errorf("%s: release what was deleted: %v", name, err)
		}
		if lease := c.lease(session); lease != nil {
			c.Errorf("%s: a Lease that was deleted is there again, for %q", name, kubeHolder(lease))
		}
	}
}

func kubeLost(h provider.Hold) bool {
	select {
	case <-h.Lost():
		return true
	default:
		return false
	}
}

func (c *kubeCluster) whatOthersHaveWrittenStays() {
	session := c.session("annotated")
	h := c.acquire(c.open(), kubeRequest(session))
	lease := c.lease(session)
	if got := kubeField(lease, "metadata", "annotations", "fence-proxy.github.io/session"); got != session {
		c.Errorf("the Lease says that it is of %v", got)
	}
	if got := kubeField(lease, "metadata", "annotations", "fence-proxy.github.io/holder"); got != "a test" {
		c.Errorf("the Lease says that its holder is %v", got)
	}
	kubeField(lease, "metadata", "annotations").(map[string]any)["example.com/note"] = "keep"
	kubeField(lease, "metadata", "labels").(map[string]any)["team"] = "one"
	c.server.Do(http.MethodPut, kubeLeasePath(session), lease)
	if err := h.Renew(c.Context()); err != nil {
		c.Fatalf("renew a Lease that has got a note: %v", err)
	}
	c.release(h)
	c.release(c.acquire(c.open(), kubeRequest(session)))
	lease = c.lease(session)
	if kubeField(lease, "metadata", "annotations", "example.com/note") != "keep" || kubeField(lease, "metadata", "labels", "team") != "one" {
		c.Errorf("what others have written has gone: %v", kubeField(lease, "metadata"))
	}
	if kubeField(lease, "metadata", "annotations", "fence-proxy.github.io/holder") != nil {
		c.Error("a Lease that was released still says who held it")
	}
}

// aRenewalThatHangsIsGivenUpInTime cuts one proxy off from the API server without a word. Case 38.
func (c *kubeCluster) aRenewalThatHangsIsGivenUpInTime() {
	session := c.session("hanging")
	network := harness.StartNetwork(c, []string{c.server.Addr})
	h := c.acquire(c.openAt("https://"+network.Addrs()[0]), provider.Request{Session: session, Lease: 20 * time.Second})
	network.Blackhole(true)
	if err := h.Renew(context.Background()); err == nil || errors.Is(err, provider.ErrLost) {
		c.Fatalf("renew in a black hole: %v", err)
	}
	if kubeLost(h) {
		c.Fatal("there was no time to try again")
	}
	network.Cut() // what hung is gone
	network.Blackhole(false)
	network.Restore()
	c.eventually("it is renewed over a new connection", func() bool { return h.Renew(c.Context()) == nil })
	c.release(h)
}

// aStoreSetBackIsBelieved shows a Locker later versions first, as a store that is then restored from a backup would.
func (c *kubeCluster) aStoreSetBackIsBelieved() {
	session := c.session("restored")
	path := startKubeInterposer(c)
	l := c.openAt(path.URL)
	c.release(c.acquire(l, kubeRequest(session)))
	c.eventually("the Lease is known", func() bool { return provider.KubernetesLeases(l) > 0 })
	provider.OutdateKubernetes(l, session)
	h := c.acquire(l, kubeRequest(session))
	c.isHolder(h, session)
	c.release(h)
}
