package admin

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// readyTimeout bounds asking whether clients can be served; probes commonly wait for a second.
	readyTimeout = 900 * time.Millisecond
	// readyFresh is how long an answer counts for those who look at the page.
	readyFresh = 2 * time.Second
)

// health knows whether clients can be served.
type health struct {
	ask func(context.Context) error

	mu    sync.Mutex
	last  error
	until time.Time // the last answer counts
}

func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	if err := h.now(r.Context()); err != nil {
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	say(w, http.StatusOK, "ok")
}

func (h *health) now(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return h.ask(ctx)
}

// lately is an answer that may be some seconds old. However many look, one asks.
func (h *health) lately(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().After(h.until) {
		h.last = h.now(context.WithoutCancel(ctx))
		h.until = time.Now().Add(readyFresh)
	}
	return h.last
}
