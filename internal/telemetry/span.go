package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// Why a span is linked to another, as its attribute fence.link has it.
const (
	linkWaitedFor    = "waited_for"    // the hold that it waited for
	linkSupersededBy = "superseded_by" // the hold that has taken the session since
	linkContinues    = "continues"     // an earlier part of the sequence
	linkApplication  = "application"   // another trace of the application that a command was part of
)

// send makes the spans of sequences.
func (t *Tracer) send(batch []*sequence) {
	t.successors(batch)
	traces := map[hold]trace.TraceID{}
	for _, s := range batch {
		for _, l := range s.against() {
			traces[l.hold] = trace.TraceID{}
		}
		if s.restores {
			traces[s.hold] = trace.TraceID{}
		}
	}
	t.traces(traces)
	for _, s := range batch {
		if s.late {
			t.sendLate(s, traces)
		} else {
			t.sendWhole(s, traces)
		}
	}
}

// sendWhole makes the span of a sequence and those of its steps.
func (t *Tracer) sendWhole(s *sequence, traces map[hold]trace.TraceID) {
	id := s.identify(t.ids)
	ctx := context.WithValue(context.Background(), wanted{}, id)
	if s.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.parent)
	}
	_, span := t.tracer.Start(ctx, "sequence "+s.hold.rule, trace.WithTimestamp(s.began), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(t.attributes(s)...), trace.WithLinks(t.links(s, traces)...))
	if s.id != 0 {
		t.mu.Lock()
		t.past.settle(s.id, span.SpanContext().IsSampled())
		t.mu.Unlock()
	}
	if !span.IsRecording() {
		return
	}
	t.sendSteps(trace.ContextWithSpan(context.Background(), span), s, traces)
	if s.error != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(s.error))
		span.SetStatus(codes.Error, s.error)
	}
	span.End(trace.WithTimestamp(s.ended))
}

// sendLate makes the spans of what has come of a sequence after its span was sent, or elsewhere.
func (t *Tracer) sendLate(s *sequence, traces map[hold]trace.TraceID) {
	id, sampled := s.span, true
	if s.restores {
		if noted := traces[s.hold]; noted.IsValid() {
			id.trace = noted
		} else { // whether it is sent follows from its trace
			_, probe := t.tracer.Start(context.WithValue(context.Background(), wanted{}, id), "")
			sampled = probe.SpanContext().IsSampled()
		}
	} else {
		t.mu.Lock()
		o, _ := t.past.find(s.id)
		t.mu.Unlock()
		sampled = o.sampled
	}
	if !sampled {
		return
	}
	of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id.trace, SpanID: id.span, TraceFlags: trace.FlagsSampled, Remote: true})
	t.sendSteps(trace.ContextWithRemoteSpanContext(context.Background(), of), s, traces)
}

// sendSteps makes the spans of a sequence's steps. Those that have to do with another hold are linked to it, as the sequence is.
func (t *Tracer) sendSteps(ctx context.Context, s *sequence, traces map[hold]trace.TraceID) {
	for i := range s.steps {
		p := &s.steps[i]
		var links []trace.Link
		if r, ok := s.beside(p); ok {
			links = []trace.Link{t.link(r, traces)}
		}
		switch p.kind {
		case event.Grant:
			began := p.began
			if p.other.Grant != 0 || p.ended.After(began) {
				t.sendStep(ctx, "wait", p, began, links, t.holder(p.other)...)
			} else if i+1 < len(s.steps) && s.steps[i+1].began.Before(began) {
				began = s.steps[i+1].began // it went with the command
			}
			t.sendStep(ctx, "acquire", p, began, nil, attribute.Int64(keyGrant, int64(p.grant)))
		case event.Quit:
			t.sendStep(ctx, "wait", p, p.began, links, t.holder(p.other)...)
		case event.Read:
			t.sendCommand(ctx, "read", p)
		case event.Commit:
			t.sendCommand(ctx, "commit", p, attribute.Int64(keyGrant, int64(p.grant)), attribute.Int64(keySeq, int64(p.seq)))
		case event.Refuse, event.WouldRefuse, event.Break:
			attributes := t.holder(p.other)
			if p.newest != 0 {
				attributes = append(attributes, attribute.Int64(keyNewest, int64(p.newest)))
			}
			t.sendStep(ctx, string(p.kind), p, p.began, links, attributes...)
		default:
			t.sendStep(ctx, string(p.kind), p, p.began, nil)
		}
	}
}

// sendCommand makes the span of a command that Redis has answered.
func (t *Tracer) sendCommand(ctx context.Context, name string, p *step, attributes ...attribute.KeyValue) {
	attributes = append(attributes, t.common...)
	t.start(ctx, name, p, p.began, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...)).End(trace.WithTimestamp(p.ended))
}

// sendStep makes the span of another step.
func (t *Tracer) sendStep(ctx context.Context, name string, p *step, began time.Time, links []trace.Link, attributes ...attribute.KeyValue) {
	span := t.start(ctx, name, p, began, trace.WithAttributes(attributes...), trace.WithLinks(links...))
	wrong := p.error
	switch p.kind {
	case event.Quit, event.Break, event.Renew:
		wrong = p.reason
	}
	if wrong != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(wrong))
		span.SetStatus(codes.Error, wrong)
	}
	span.End(trace.WithTimestamp(p.ended))
}

func (t *Tracer) start(ctx context.Context, name string, p *step, began time.Time, more ...trace.SpanStartOption) trace.Span {
	attributes := make([]attribute.KeyValue, 0, 2)
	if p.command != "" {
		attributes = append(attributes, semconv.DBOperationName(p.command))
	}
	if p.reason != "" {
		attributes = append(attributes, attribute.String(keyReason, p.reason))
	}
	_, span := t.tracer.Start(ctx, name, append(more, trace.WithTimestamp(began), trace.WithAttributes(attributes...))...)
	return span
}

// The keys of what the conventions have no name for.
const (
	keyRule      = "fence.rule"
	keyMode      = "fence.mode"
	keyOwnerKind = "fence.owner.kind"
	keyGrant     = "fence.grant"
	keySeq       = "fence.seq"
	keyNewest    = "fence.newest"
	keyReason    = "fence.reason"
	keySession   = "fence.session"      // only if names are wanted
	keyHash      = "fence.session.hash" // with a salt that all proxies of a Redis share
	keyClient    = "fence.client.name"  // only if names are wanted
	keyHolder    = "fence.holder.grant"
	keyHoldsAt   = "fence.holder.proxy"
	keyLink      = "fence.link"
	keyOmitted   = "fence.steps_omitted"
)

// attributes are those of a sequence's span.
func (t *Tracer) attributes(s *sequence) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, 16), t.common...)
	all = append(all,
		semconv.DBNamespace(strconv.Itoa(s.hold.db)),
		attribute.String(keyRule, s.hold.rule), attribute.String(keyMode, s.mode), attribute.String(keyOwnerKind, s.kept),
		attribute.String(keyHash, t.ids.session(s.hold.rule, s.hold.session)))
	if s.hold.grant != 0 {
		all = append(all, attribute.Int64(keyGrant, int64(s.hold.grant)))
	}
	if host, port, err := net.SplitHostPort(s.owner.Client); err == nil {
		n, _ := strconv.Atoi(port)
		all = append(all, semconv.ClientAddress(host), semconv.ClientPort(n))
	}
	if t.names {
		all = append(all, attribute.String(keySession, s.hold.session))
		if s.owner.Name != "" {
			all = append(all, attribute.String(keyClient, s.owner.Name))
		}
	}
	if s.omitted > 0 {
		all = append(all, attribute.Int(keyOmitted, s.omitted))
	}
	return all
}

// holder says who holds a session.
func (t *Tracer) holder(p event.Party) []attribute.KeyValue {
	var all []attribute.KeyValue
	if p.Grant != 0 {
		all = append(all, attribute.Int64(keyHolder, int64(p.Grant)))
	}
	if p.Proxy != "" {
		all = append(all, attribute.String(keyHoldsAt, p.Proxy))
	}
	return all
}

// related is a hold that has to do with a sequence.
type related struct {
	hold
	link  string
	proxy string // "" if it is not known
}

// against are the holds that a sequence waited for or was superseded by, each once.
func (s *sequence) against() []related {
	var all []related
	for i := range s.steps {
		r, ok := s.beside(&s.steps[i])
		if ok && !slices.ContainsFunc(all, func(o related) bool { return o.hold == r.hold && o.link == r.link }) {
			all = append(all, r)
		}
	}
	return all
}

// beside is the hold that a step waited for or was superseded by.
func (s *sequence) beside(p *step) (related, bool) {
	r := related{hold: s.hold, proxy: p.other.Proxy, link: linkWaitedFor}
	switch p.kind {
	case event.Grant, event.Quit:
		r.grant = p.other.Grant
	case event.Refuse, event.WouldRefuse, event.Break:
		if r.grant = p.other.Grant; p.error == event.Locked {
			break
		}
		r.link = linkSupersededBy
		if p.newest > r.grant {
			r.grant, r.proxy = p.newest, ""
		}
		if r.grant == 0 {
			r.grant = s.heir
		}
	default:
		return r, false
	}
	return r, r.grant != 0 && r.grant != s.hold.grant
}

// links are those of a sequence's span.
func (t *Tracer) links(s *sequence, traces map[hold]trace.TraceID) []trace.Link {
	var all []trace.Link
	for _, r := range s.against() {
		all = append(all, t.link(r, traces))
	}
	if s.before != (identity{}) {
		all = append(all, linkTo(s.before, linkContinues))
	}
	for _, o := range s.others {
		all = append(all, linkTo(identity{o.TraceID(), o.SpanID()}, linkApplication))
	}
	return all
}

// link is one to the span of a hold.
func (t *Tracer) link(r related, traces map[hold]trace.TraceID) trace.Link {
	id := t.ids.ofHold(r.hold)
	if noted := traces[r.hold]; noted.IsValid() {
		id.trace = noted
	}
	attributes := []attribute.KeyValue{attribute.Int64(keyGrant, int64(r.grant))}
	if r.proxy != "" {
		attributes = append(attributes, attribute.String(keyHoldsAt, r.proxy))
	}
	return linkTo(id, r.link, attributes...)
}

func linkTo(id identity, why string, attributes ...attribute.KeyValue) trace.Link {
	return trace.Link{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: id.trace, SpanID: id.span, Remote: true}),
		Attributes:  append(attributes, attribute.String(keyLink, why)),
	}
}

// wanted is the context's key of the identity that the next span is to have.
type wanted struct{}

// generator gives sequences' spans their identities, and others any.
type generator struct{}

func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if id, ok := ctx.Value(wanted{}).(identity); ok {
		return id.trace, id.span
	}
	var id identity
	_, _ = rand.Read(id.trace[:]) // it does not fail
	id.trace[0] |= 1
	return id.trace, g.NewSpanID(ctx, id.trace)
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if id, ok := ctx.Value(wanted{}).(identity); ok {
		return id.span
	}
	_, _ = rand.Read(span[:])
	if binary.NativeEndian.Uint64(span[:]) == 0 {
		span[0] = 1
	}
	return span
}
