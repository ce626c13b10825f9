package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// Logger returns a handler that logs to plain, with the ids of the context's span, and to the collector if logs are sent.
// A nil Telemetry returns plain.
func (t *Telemetry) Logger(plain slog.Handler) slog.Handler {
	if t == nil {
		return plain
	}
	t.errors.logTo(plain)
	h := &handler{plain: plain, of: t}
	if t.logs != nil {
		h.sent = otelslog.NewHandler("fence-proxy", otelslog.WithLoggerProvider(t.logs))
		if !t.settings.SessionNames {
			h.discreet = t
		}
	}
	return h
}

// handler logs to two places.
type handler struct {
	of       *Telemetry // knows the spans of sequences
	plain    slog.Handler
	sent     slog.Handler // nil: to plain only
	discreet *Telemetry   // makes the hashes that sessions are sent as; nil: all is sent as it is
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.plain.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	ctx = h.of.within(ctx)
	if h.sent != nil {
		if err := h.sent.Handle(ctx, h.sendable(r)); err != nil {
			return fmt.Errorf("send a log record: %w", err)
		}
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.plain.Handle(ctx, r)
}

// within returns a line's context with the span of the sequence that it is about, if it is known.
func (t *Telemetry) within(ctx context.Context) context.Context {
	number := event.AboutOf(ctx)
	if number == 0 {
		return ctx
	}
	t.mu.Lock()
	tracer := t.tracer
	t.mu.Unlock()
	if tracer == nil {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, tracer.Span(number, trace.SpanContext{}))
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.plain = h.plain.WithAttrs(attrs)
	if h.sent != nil {
		with.sent = h.sent.WithAttrs(h.discreetly(attrs))
	}
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.plain = h.plain.WithGroup(name)
	if h.sent != nil {
		with.sent = h.sent.WithGroup(name)
	}
	return &with
}

// sendable is a record without what would name a session, a key or a client.
func (h *handler) sendable(r slog.Record) slog.Record {
	if h.discreet == nil {
		return r
	}
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	sent := slog.NewRecord(r.Time, r.Level, unquoted(r.Message), r.PC)
	sent.AddAttrs(h.discreetly(attrs)...)
	return sent
}

// naming are the attributes that name sessions, keys or clients in other words.
var naming = []string{"sessions", "key", "node", "lease", "name"}

func (h *handler) discreetly(attrs []slog.Attr) []slog.Attr {
	if h.discreet == nil {
		return attrs
	}
	rule := ""
	for _, a := range attrs {
		if a.Key == "rule" {
			rule = a.Value.String()
		}
	}
	kept := make([]slog.Attr, 0, len(attrs))
	for _, a := range attrs {
		switch value := a.Value.Resolve(); {
		case slices.Contains(naming, a.Key):
		case a.Key == "session":
			if hash := h.discreet.hash(rule, value.String()); hash != "" {
				kept = append(kept, slog.String(keyHash, hash))
			}
		case a.Key == "holder":
			kept = append(kept, slog.String(a.Key, ofClient.ReplaceAllString(value.String(), "$1 of proxy")))
		case value.Kind() == slog.KindString:
			kept = append(kept, slog.String(a.Key, unquoted(value.String())))
		case value.Kind() == slog.KindAny:
			kept = append(kept, slog.String(a.Key, unquoted(fmt.Sprint(value.Any()))))
		default:
			kept = append(kept, slog.Attr{Key: a.Key, Value: value})
		}
	}
	return kept
}

var (
	// ofClient is how a message says who a holder is.
	ofClient = regexp.MustCompile(`(client \S+) \(.*\) of proxy`)
	// quoted is how messages say what they have from a client: sessions, keys, words of a command.
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\B'[^']*'`)
)

// unquoted leaves out what a text quotes.
func unquoted(text string) string { return quoted.ReplaceAllString(text, `"…"`) }
