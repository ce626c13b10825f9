// Package admin serves the proxy's health and metrics over HTTP, apart from its clients.
//
//	/healthz  200 as long as the process is up
//	/readyz   200 when clients can be served, else 503 and why not
//	/metrics  for Prometheus
package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// readyTimeout bounds asking whether clients can be served; probes commonly wait for a second.
	readyTimeout = 900 * time.Millisecond
	// headTimeout bounds the head of a request.
	headTimeout = 5 * time.Second
)

// Options are what a Server is made of. All are required.
type Options struct {
	Network, Address string // as net.Listen takes them
	Metrics          http.Handler
	// Ready says why clients can't be served, or nil. It may be called by several goroutines.
	Ready func(context.Context) error
}

// Server serves until it is closed.
type Server struct {
	http     http.Server
	listener net.Listener
	done     chan struct{}
}

// Start listens and begins to serve. The caller closes the server.
func Start(ctx context.Context, o Options) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, o.Network, o.Address)
	if err != nil {
		return nil, fmt.Errorf(`admin: %w: give admin (FENCE_ADMIN, --admin) an address of its own, or "" to turn it off`, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := o.Ready(ctx); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	s := &Server{http: http.Server{Handler: mux, ReadHeaderTimeout: headTimeout, IdleTimeout: time.Minute}, listener: l, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // until Close
	}()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server; requests under way are answered until ctx ends.
func (s *Server) Close(ctx context.Context) {
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	<-s.done
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
