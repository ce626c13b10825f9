package proxy

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A client may say of which trace of the application its sequences are part. FENCE.TRACE says it of the next guarded command
// and the sequences that it begins; a client's name says it until it has another.

// traceMark stands in a client's name before the traceparent, which is no part of the name as the proxy has it.
const traceMark = ";traceparent="

// traces are what a client has said; nil: nothing.
type traces struct {
	next  *trace.SpanContext // of the next guarded command
	named *trace.SpanContext // of those of which nothing was said
	now   *trace.SpanContext // of the guarded command at hand
}

// take returns the trace of the guarded command that comes now; not valid if there is none.
func (t *traces) take() trace.SpanContext {
	if t.now = t.named; t.next != nil {
		t.now, t.next = t.next, nil
	}
	return t.at()
}

// at returns the trace of the command at hand, be it guarded or refused before it could be.
func (t *traces) at() trace.SpanContext {
	for _, of := range [...]*trace.SpanContext{t.now, t.next, t.named} {
		if of != nil {
			return *of
		}
	}
	return trace.SpanContext{}
}

// within returns a context with the span of a sequence, or the application's.
func (s *Server) within(sequence uint64, application trace.SpanContext) context.Context {
	ctx := context.Background()
	if s.spans != nil {
		application = s.spans.Span(sequence, application)
	}
	if application.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, application)
	}
	return ctx
}

// traced is FENCE.TRACE.
func (c *client) traced(args [][]byte) error {
	if len(args) > 3 {
		return wordError("ERR syntax error")
	}
	of := parent(string(args[1]))
	if !of.IsValid() {
		return wordError("ERR the traceparent is not of the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits> (W3C Trace Context)")
	}
	if len(args) > 2 {
		state, err := trace.ParseTraceState(string(args[2]))
		if err != nil {
			return wordError("ERR the tracestate is not a list of key=value (W3C Trace Context)")
		}
		of = of.WithTraceState(state)
	}
	c.traces.next = &of
	return c.local(resp.AppendSimple(nil, "OK"))
}

// parent reads a traceparent; not valid if it is none.
func parent(text string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": text})
	return trace.SpanContextFromContext(ctx)
}

// named notes the name that a client has given itself.
func (c *client) named(name string) {
	c.traces.named = nil
	if plain, text, marked := strings.Cut(name, traceMark); marked {
		if of := parent(text); of.IsValid() {
			name, c.traces.named = plain, &of
		}
	}
	c.state.name = name
}
