package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// reviewTimeout bounds reading and answering one review; the API server waits for 30 s at most.
	reviewTimeout = 30 * time.Second
	// closeTimeout bounds waiting for reviews that are being answered, at the end.
	closeTimeout = 10 * time.Second
)

// Options are what a Server is made of.
type Options struct {
	// Listen is where the API server, and the kubelet with its probes, connect: host:port, TLS. Required.
	Listen string
	// Certificate and Key are paths of PEM files, which are read again when they change. Required.
	Certificate, Key string
	// Template is the path of the template, which is read again when it changes. Required.
	Template string
	// Events has an event stored for each pod that is skipped, as the pod's service account or whom Kubeconfig names.
	Events     bool
	Kubeconfig string
	// Drain is how long, once it is to stop, it goes on serving while it says that it is not ready: so long the API server
	// may go on sending.
	Drain time.Duration
	Log   *slog.Logger
}

// Server answers admission reviews over HTTPS:
//
//	POST /inject   AdmissionReview v1
//	GET  /healthz  200 as long as the process is up
//	GET  /readyz   200 until it drains, then 503
type Server struct {
	http     http.Server
	listener net.Listener
	events   *events // nil without
	drain    time.Duration
	draining atomic.Bool
	log      *slog.Logger
}

// Start reads certificate and template and listens. The caller runs Serve, which also cleans up.
func Start(ctx context.Context, o Options) (*Server, error) {
	certificate, err := watch(o.Log, "certificate", parsePair, o.Certificate, o.Key)
	if err != nil {
		return nil, err
	}
	template, err := watch(o.Log, "template", func(texts [][]byte) (*Template, error) { return ParseTemplate(texts[0]) }, o.Template)
	if err != nil {
		return nil, err
	}
	s := &Server{drain: o.Drain, log: o.Log}
	h := &handler{template: template.get, log: o.Log}
	if o.Events {
		if s.events, err = startEvents(o.Kubeconfig, o.Log); err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		h.reporter = s.events
	}
	mux := http.NewServeMux()
	mux.Handle("POST /inject", h)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
	s.http = http.Server{
		Handler: mux, ReadTimeout: reviewTimeout, WriteTimeout: reviewTimeout, IdleTimeout: 2 * time.Minute,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate.get(), nil },
		},
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // of handshakes that come to nothing
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.Listen); err != nil {
		s.close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return s, nil
}

func parsePair(texts [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	return &pair, err
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until ctx ends, and then for as long as it drains.
func (s *Server) Serve(ctx context.Context) error {
	defer s.close()
	s.log.Info("serving", "address", s.Addr().String())
	served := make(chan error, 1)
	go func() { served <- s.http.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	s.log.Info("draining", "time", s.drain)
	select {
	case err := <-served:
		return err
	case <-time.After(s.drain):
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(closing)
	if err != nil {
		_ = s.http.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	s.log.Info("stopped")
	return err
}

func (s *Server) close() {
	if s.events != nil {
		s.events.stop()
	}
}
