package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// complainEvery is how often it is logged that telemetry can't be sent, at most.
const complainEvery = time.Minute

// complaints takes what goes wrong with sending, which would be said for each batch.
type complaints struct {
	mu     sync.Mutex
	log    *slog.Logger // not the one that is sent: its records would make for more
	last   time.Time
	unsaid int
}

func newComplaints() *complaints { return &complaints{log: slog.New(slog.DiscardHandler)} }

func (c *complaints) logTo(h slog.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = slog.New(h)
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.last) < complainEvery {
		c.unsaid++
		return
	}
	c.log.Log(context.Background(), slog.LevelWarn, "telemetry was not sent", "error", err, "unsaid", c.unsaid)
	c.last, c.unsaid = time.Now(), 0
}
