package proxy

import (
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/metrics"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// What a client is owed costs memory until the client takes it. Replies over the client's own
// connection to Redis are passed on as they come, and no more are received before it has taken them: a slow
// client holds up nobody but itself, and they wait in Redis, which has limits of its own. Replies over a shared
// connection, the proxy's own, and those of guarded commands are kept, up to limits.output_buffer. A
// client that takes nothing of them for limits.output_timeout is closed.

// upstream are the limits of an upstream connection.
func (l Limits) upstream() upstream.Limits {
	return upstream.Limits{Nesting: l.Nesting, Kept: int(l.OutputBuffer)}
}

// owed counts and logs a client that has to go for the replies it is owed.
func (c *client) owed(err error) {
	if err == nil {
		return
	}
	var protocol *resp.ProtocolError
	switch {
	case errors.Is(err, upstream.ErrTooMuch):
		c.dropped(metrics.DroppedOutputBuffer, "it is owed more replies than limits.output_buffer")
	case errors.As(err, &protocol) && protocol.Limit == resp.LimitNesting:
		c.dropped(metrics.DroppedNesting, "it is owed a reply that is nested deeper than limits.nesting")
	}
}

func (c *client) dropped(reason, why string) {
	c.srv.metrics.ClientDropped(reason)
	c.srv.log.Warn("client dropped: "+why, "client", c.address(), "reason", reason,
		"output_buffer", c.srv.limits.Load().OutputBuffer, "output_timeout", c.srv.limits.Load().OutputTimeout, "nesting", c.srv.limits.Load().Nesting)
}

// stuck is a write to a client that was under way when it was looked.
type stuck struct {
	progress uint64
	since    time.Time
}

// watchOutputs looks now and then which clients take nothing of what is written to them. The
// function that it returns ends that.
func (s *Server) watchOutputs() (stop func()) {
	if s.limits.Load().OutputTimeout <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(max(s.limits.Load().OutputTimeout/10, time.Millisecond))
		defer look.Stop()
		seen := map[*client]stuck{}
		for {
			select {
			case now := <-look.C:
				seen = s.lookAtOutputs(seen, now)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// lookAtOutputs drops the clients that have been in the same write for too long, and returns those
// that are in one now.
func (s *Server) lookAtOutputs(seen map[*client]stuck, now time.Time) map[*client]stuck {
	still := map[*client]stuck{}
	s.mu.Lock()
	for c := range s.clients {
		progress := c.out.progress.Load()
		if progress%2 == 0 {
			continue
		}
		still[c] = stuck{progress, now}
		if before, ok := seen[c]; ok && before.progress == progress {
			still[c] = before
		}
	}
	s.mu.Unlock()
	for c, w := range still {
		if now.Sub(w.since) < s.limits.Load().OutputTimeout {
			continue
		}
		delete(still, c)
		c.dropped(metrics.DroppedOutputTimeout, "it took none of its replies for limits.output_timeout")
		_ = c.nc.Close()
	}
	return still
}
