//go:build kube

package provider_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// kubeInterposer is between a Locker and the API server, and knows the requests from each other.
type kubeInterposer struct {
	URL string

	forward *httputil.ReverseProxy

	mu       sync.Mutex
	silent   int                        // answers to changes that are to be lost
	stopped  chan struct{}              // changes wait until it is closed; nil: they don't
	waiting  int                        // changes that do
	deleted  int                        // attempts to delete
	changes  int                        // requests that would change a Lease
	refused  func(r *http.Request) bool // nil: none
	rewrites func(body []byte) []byte   // of all answers; nil: none
}

func startKubeInterposer(c *kubeCluster) *kubeInterposer {
	c.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.server.CA())
	target := &url.URL{Scheme: "https", Host: c.server.Addr}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	i := &kubeInterposer{}
	i.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+c.token) // client-go sends none without TLS
		},
		Transport:      transport,
		FlushInterval:  -1, // a watch
		ModifyResponse: i.answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(i)
	i.URL = server.URL
	c.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return i
}

func isKubeChange(r *http.Request) bool {
	return r.Method == http.MethodPost || r.Method == http.MethodPut
}

// ServeHTTP lets a change go through even when who asked has gone.
func (i *kubeInterposer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	refused := i.refused != nil && i.refused(r)
	stopped := i.stopped
	if stopped != nil && isKubeChange(r) {
		i.waiting++
	}
	if isKubeChange(r) {
		i.changes++
	}
	if r.Method == http.MethodDelete {
		i.deleted++
	}
	i.mu.Unlock()
	if refused {
		panic(http.ErrAbortHandler)
	}
	if isKubeChange(r) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if stopped != nil {
			<-stopped
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		r = r.WithContext(ctx)
	}
	i.forward.ServeHTTP(w, r)
}

// answer loses or edits an answer.
func (i *kubeInterposer) answer(r *http.Response) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if isKubeChange(r.Request) && i.silent > 0 {
		i.silent--
		return http.ErrAbortHandler
	}
	if i.rewrites == nil || r.Request.URL.Query().Get("watch") != "" {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	body = i.rewrites(body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return err
}

// lose loses the answers to the next n changes, which are made.
func (i *kubeInterposer) lose(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.silent = n
}

func (i *kubeInterposer) lost() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.silent == 0
}

// stop keeps all changes back until resume.
func (i *kubeInterposer) stop() (resume func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped, i.waiting = make(chan struct{}), 0
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		close(i.stopped)
		i.stopped = nil
	}
}

func (i *kubeInterposer) kept() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.waiting
}

func (i *kubeInterposer) changed() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.changes
}

func (i *kubeInterposer) deletions() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.deleted
}

func (i *kubeInterposer) refuse(which func(r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused = which
}

func (i *kubeInterposer) edit(rewrite func(body []byte) []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rewrites = rewrite
}

// anAnswerThatIsLostIsKnownByTheHolder loses the answer to each kind of change.
func (c *kubeCluster) anAnswerThatIsLostIsKnownByTheHolder() {
	path := startKubeInterposer(c)
	l, other := c.openAt(path.URL), c.open()
	session := c.session("lost")
	losing := func(what string, do func()) {
		path.lose(1)
		do()
		if !path.lost() {
			c.Fatalf("%s: no answer was lost", what)
		}
	}

	var h provider.Hold
	losing("create", func() { h = c.acquire(l, kubeRequest(session)) })
	c.isHolder(h, session)
	losing("renew", func() {
		if err := h.Renew(c.Context()); err != nil {
			c.Fatal(err)
		}
	})
	waiter := c.begin(c.Context(), l, kubeRequest(session))
	c.eventually("it waits", func() bool { return provider.KubernetesWaiters(l, session) == 1 })
	losing("pass on", func() { c.release(h) })
	h = c.granted(waiter)
	c.isHolder(h, session)
	losing("release", func() { c.release(h) })
	losing("take", func() { h = c.acquire(l, kubeRequest(session)) })
	c.isHolder(h, session)
	c.release(h)

	h = c.acquire(other, kubeRequest(session))
	losing("enter the line", func() {
		waiter = c.begin(c.Context(), l, kubeRequest(session))
		c.eventually("it is in line", func() bool { return len(c.line(session)) == 1 })
	})
	c.release(h)
	h = c.granted(waiter)
	c.isHolder(h, session)
	c.release(h)

	// A call that never hears anything fails, and what it was granted is given back.
	path.lose(2)
	if h, err := l.Acquire(c.Context(), kubeRequest(session)); err == nil {
		c.Fatalf("grant %d came although no answer did", h.Grant())
	}
	c.release(c.acquire(other, kubeRequest(session)))
}

// aHoldThatComesTooLateIsGivenBack keeps a question back until nobody waits for its answer any more.
func (c *kubeCluster) aHoldThatComesTooLateIsGivenBack() {
	path := startKubeInterposer(c)
	l, other := c.openAt(path.URL), c.open()
	for _, name := range []string{"created", "taken"} {
		session := c.session(name)
		if name == "taken" {
			c.release(c.acquire(l, kubeRequest(session)))
		}
		resume := path.stop()
		ctx, cancel := context.WithCancel(c.Context())
		late := c.begin(ctx, l, kubeRequest(session))
		c.eventually("the question is on its way", func() bool { return path.kept() > 0 })
		cancel()
		<-late.done
		if late.err == nil {
			c.Fatal("a session was granted without an answer")
		}
		resume()
		c.eventually("the hold that came too late is given back", func() bool {
			lease := c.lease(session)
			return lease != nil && kubeHolder(lease) == ""
		})
		c.release(c.acquire(other, kubeRequest(session)))
	}
}
