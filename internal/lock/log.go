package lock

import (
	"context"
	"log/slog"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// log logs what becomes of the sequence by itself. Called with mu held.
func (s *Sequence) log(level slog.Level, message string, args ...any) {
	s.manager.log.With("rule", s.Record.Rule, "session", s.Record.Session, "grant", s.grant).
		Log(event.About(context.Background(), s.story.number), level, message, args...)
}

// warn logs a warning of what becomes of the sequence by itself.
func (s *Sequence) warn(message string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log(slog.LevelWarn, message, args...)
}
