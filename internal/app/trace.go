package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/proxy"
	"github.com/fence-proxy/fence-proxy/internal/telemetry"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// trace begins to make spans of what the guard does, if they are sent.
func (p *Proxy) trace(ctx context.Context) error {
	if p.telemetry == nil || p.observer != nil || p.tracing {
		return nil
	}
	salt, err := p.store.Salt(ctx)
	if mayPass(err) {
		return p.ofUpstream(fmt.Errorf("the salt of traces: %w", err))
	}
	if err != nil {
		salt = rand.Text()
		p.log.Warn("traces of this proxy and of others will not be linked: the store does not give the salt that they share", "error", err)
	}
	to := telemetry.Tracing{Salt: salt, Notes: notes{p}, Server: p.endpoint.Options.Addr}
	if host, port, err := net.SplitHostPort(to.Server); err == nil {
		to.Server = host
		to.Port, _ = strconv.Atoi(port)
	}
	p.tracer, p.tracing = p.telemetry.Trace(to), true
	return nil
}

// sink and spans are the tracer, or really nil.

func (p *Proxy) sink() event.Sink {
	if p.tracer == nil {
		return nil
	}
	return p.tracer
}

func (p *Proxy) spans() proxy.Spans {
	if p.tracer == nil {
		return nil
	}
	return p.tracer
}

// notes keeps at the store in which traces of applications holds are.
type notes struct{ proxy *Proxy }

func (n notes) Keep(ctx context.Context, all []telemetry.Note) error {
	return n.proxy.store.KeepNotes(ctx, stored(all))
}

func (n notes) Find(ctx context.Context, all []telemetry.Note) error {
	found := stored(all)
	if err := n.proxy.store.FindNotes(ctx, found); err != nil {
		return err
	}
	for i := range all {
		all[i].Trace, _ = trace.TraceIDFromHex(found[i].Trace) // not valid: there is none
	}
	return nil
}

func (n notes) Next(ctx context.Context, all []telemetry.Note) error {
	found := stored(all)
	if err := n.proxy.store.FindNext(ctx, found); err != nil {
		return err
	}
	for i := range all {
		all[i].Next = found[i].Next
	}
	return nil
}

func stored(all []telemetry.Note) []tokenstore.Note {
	kept := make([]tokenstore.Note, len(all))
	for i, n := range all {
		kept[i] = tokenstore.Note{Area: tokenstore.Area{DB: n.DB, Slot: tokenstore.Slot(n.Slot)}, Rule: n.Rule, Session: n.Session, Grant: n.Grant}
		if n.Trace.IsValid() {
			kept[i].Trace = n.Trace.String()
		}
	}
	return kept
}
