// Package admin serves the status page, the proxy's health and metrics, and what is behind the page, over HTTP, apart
// from its clients.
//
//	/          the status page
//	/api/v1/   what it shows, as JSON, and a stream of it: docs/admin-api.md
//	/config    the configuration in force, without secrets
//	/healthz   200 as long as the process is up
//	/readyz    200 when clients can be served, else 503 and why not
//	/metrics   for Prometheus
//	/debug/pprof/  if asked for
//
// # Who may do what
//
// Whoever reaches the address may read; only who has the token may change something, and without a token in the
// configuration nobody. Reading is for people and programs, not for other pages in an operator's browser, so what has session names
// in it is refused under a host's name that is not known (a page that has had its own name point here) and to requests that
// other sites make. The token travels in a header that no other site can set, and the page keeps it in memory only.
package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/status"
)

// headTimeout bounds the head of a request.
const headTimeout = 5 * time.Second

// Guard is what of the proxy's guard can be asked and done from here.
type Guard interface {
	// Explain says which rule guards a key, and what the store says of its session.
	Explain(ctx context.Context, db int, key string) (Explanation, error)
	// Record is what the store says of a session.
	Record(ctx context.Context, session status.Name) (Record, error)
	// Break ends whatever hold there is on a session, or if grant is not 0 the hold with that grant. by is the address
	// of who asks. ErrOther: another grant holds.
	Break(ctx context.Context, session status.Name, grant uint64, by string) (Broken, error)
}

// Options are what a Server is made of. All but Guard, Hosts and Pprof are required.
type Options struct {
	Network, Address string // as net.Listen takes them
	Metrics          http.Handler
	Status           *status.Collector
	// Ready says why clients can't be served, or nil. This and the other functions may be called by several goroutines.
	Ready  func(context.Context) error
	About  func() About
	Config func() (Config, error)
	// Token returns what has to be presented to change something; "" lets nobody.
	Token func() (string, error)
	Guard Guard    // nil: there is none
	Hosts []string // under which browsers may come, besides addresses and localhost
	Pprof bool
}

// Server serves until it is closed.
type Server struct {
	http     http.Server
	listener net.Listener
	done     chan struct{}
	streams  context.CancelFunc // ends what would go on for ever
}

// Start listens and begins to serve. The caller closes the server.
func Start(ctx context.Context, o Options) (*Server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, o.Network, o.Address)
	if err != nil {
		return nil, fmt.Errorf(`admin: %w: give admin (FENCE_ADMIN, --admin) an address of its own, or "" to turn it off`, err)
	}
	streaming, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{listener: l, done: make(chan struct{}), streams: end}
	s.http = http.Server{Handler: handler(streaming, o), ReadHeaderTimeout: headTimeout, IdleTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // until Close
	}()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server; requests under way are answered until ctx ends, but streams.
func (s *Server) Close(ctx context.Context) {
	s.streams()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	<-s.done
}

// handler routes requests. streaming ends the streams.
func handler(streaming context.Context, o Options) http.Handler {
	mux := http.NewServeMux()
	health := &health{ask: o.Ready}
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", health.serve)

	known := newGate(o)
	a := &api{status: o.Status, guard: o.Guard, about: o.About, config: o.Config, token: o.Token, health: health, streaming: streaming}
	a.route(mux, known)
	mux.Handle("GET /config", known.reads(http.HandlerFunc(a.configFile)))
	routePage(mux, known)
	if o.Pprof {
		routeProfiles(mux, known)
	}
	return withHeaders(mux)
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
