//go:build kube

package provider_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// kubeCluster is an API server and Lockers, as the tests use it.
type kubeCluster struct {
	*testing.T
	server *harness.Kubernetes
	token  string
}

func startKubeCluster(t *testing.T) *kubeCluster {
	t.Helper()
	server := startKube(t)
	return &kubeCluster{T: t, server: server, token: server.Token(kubeNamespace, "fence-proxy")}
}

// TestKubernetesCluster has what is told by the Lease objects themselves.
func TestKubernetesCluster(t *testing.T) {
	c := startKubeCluster(t)
	for _, test := range []struct {
		name string
		play func(*kubeCluster)
	}{
		{"EveryRightIsNeededAndNoOther", (*kubeCluster).everyRightIsNeededAndNoOther},
		{"AnAnswerThatIsLostIsKnownByTheHolder", (*kubeCluster).anAnswerThatIsLostIsKnownByTheHolder},
		{"AHoldThatComesTooLateIsGivenBack", (*kubeCluster).aHoldThatComesTooLateIsGivenBack},
		{"ProxiesTakeTurns", (*kubeCluster).proxiesTakeTurns},
		{"ATurnCostsTwoRequests", (*kubeCluster).aTurnCostsTwoRequests},
		{"WhoDoesNotComeLosesItsTurn", (*kubeCluster).whoDoesNotComeLosesItsTurn},
		{"ALeaseCountsByTheClockOfWhoWaits", (*kubeCluster).aLeaseCountsByTheClockOfWhoWaits},
		{"LeasesOutOfUseAreDeletedAndGrantsGoOn", (*kubeCluster).leasesOutOfUseAreDeletedAndGrantsGoOn},
		{"ADeletedLeaseIsNotMadeAnewByWhoHeldIt", (*kubeCluster).aDeletedLeaseIsNotMadeAnewByWhoHeldIt},
		{"WhatOthersHaveWrittenStays", (*kubeCluster).whatOthersHaveWrittenStays},
		{"AWaiterBehindABrokenWatchIsServed", (*kubeCluster).aWaiterBehindABrokenWatchIsServed},
		{"ASweepThatKnowsTooLittleDeletesNothing", (*kubeCluster).aSweepThatKnowsTooLittleDeletesNothing},
		{"ARenewalThatHangsIsGivenUpInTime", (*kubeCluster).aRenewalThatHangsIsGivenUpInTime},
		{"AStoreSetBackIsBelieved", (*kubeCluster).aStoreSetBackIsBelieved},
		{"AMissingNamespaceIsAnErrorAndNotTriedForEver", (*kubeCluster).aMissingNamespaceIsAnError},
		{"AProxyInAPodUsesItsServiceAccountAndItsNamespace", (*kubeCluster).aProxyInAPod},
		{"ResourceVersionsThatAreNoNumbersAreRefusedClearly", (*kubeCluster).oddVersionsAreRefused},
	} {
		t.Run(test.name, func(t *testing.T) { test.play(&kubeCluster{T: t, server: c.server, token: c.token}) })
	}
}

// open opens a Locker, closed when the test ends.
func (c *kubeCluster) open(edits ...func(*provider.KubernetesSettings)) provider.Locker {
	c.Helper()
	return c.openAt("https://"+c.server.Addr, edits...)
}

func (c *kubeCluster) openAt(url string, edits ...func(*provider.KubernetesSettings)) provider.Locker {
	c.Helper()
	l := openKube(c, c.server.Kubeconfig(c, url, kubeNamespace, c.token), edits...)
	c.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// session is a name of the test's own.
func (c *kubeCluster) session(part string) string { return c.Name() + ":" + part }

// kubeRequest is a request whose hold does not end by itself while a test lasts.
func kubeRequest(session string) provider.Request {
	return provider.Request{Session: session, Holder: "a test", Lease: 30 * time.Minute}
}

func (c *kubeCluster) acquire(l provider.Locker, r provider.Request) provider.Hold {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 60*time.Second)
	defer cancel()
	h, err := l.Acquire(ctx, r)
	if err != nil {
		c.Fatalf("acquire %q: %v", r.Session, err)
	}
	return h
}

// kubeAttempt is an Acquire under way.
type kubeAttempt struct {
	done chan struct{}
	hold provider.Hold
	err  error
}

func (c *kubeCluster) begin(ctx context.Context, l provider.Locker, r provider.Request) *kubeAttempt {
	a := &kubeAttempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.hold, a.err = l.Acquire(ctx, r)
	}()
	c.Cleanup(func() { <-a.done })
	return a
}

func (c *kubeCluster) granted(a *kubeAttempt) provider.Hold {
	c.Helper()
	select {
	case <-a.done:
	case <-time.After(60 * time.Second):
		c.Fatal("a session is not granted")
	}
	if a.err != nil {
		c.Fatal(a.err)
	}
	return a.hold
}

func (a *kubeAttempt) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (c *kubeCluster) release(h provider.Hold) {
	c.Helper()
	if err := h.Release(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// lease is the Lease as the API server has it; nil: there is none.
func (c *kubeCluster) lease(session string) map[string]any {
	c.Helper()
	status, lease, err := c.server.Ask(http.MethodGet, kubeLeasePath(session), nil)
	switch {
	case err != nil:
		c.Fatal(err)
	case status == http.StatusNotFound:
		return nil
	case status != http.StatusOK:
		c.Fatalf("read a Lease: %d %v", status, lease["message"])
	}
	return lease
}

func kubeField(object map[string]any, path ...string) any {
	var value any = object
	for _, field := range path {
		fields, _ := value.(map[string]any)
		value = fields[field]
	}
	return value
}

func kubeHolder(lease map[string]any) string {
	identity, _ := kubeField(lease, "spec", "holderIdentity").(string)
	return identity
}

func (c *kubeCluster) line(session string) []string {
	c.Helper()
	text, _ := kubeField(c.lease(session), "metadata", "annotations", "fence-proxy.github.io/line").(string)
	return strings.Fields(text)
}

func (c *kubeCluster) eventually(what string, condition func() bool) {
	c.Helper()
	harness.Eventually(c, 60*time.Second, condition, what)
}

// isHolder fails the test unless the Lease says what the hold does.
func (c *kubeCluster) isHolder(h provider.Hold, session string) {
	c.Helper()
	lease := c.lease(session)
	if got, want := kubeField(lease, "metadata", "resourceVersion"), fmt.Sprint(h.Grant()); kubeHolder(lease) == "" || got != want {
		c.Fatalf("grant %s, and the Lease of %q is at version %v", want, kubeHolder(lease), got)
	}
}
