// Package telemetry sends traces, metrics and logs to an OpenTelemetry collector.
//
//	guard ─ event ─▶ Tracer ─▶ sequence (open … over) ─ goroutine ─▶ spans ─▶ SDK's batches ─▶ OTLP
//	                                      └▶ Notes: in which trace of an application it is
//	metrics ─ reader ──────────────────────────────────────────────────────────────────────▶ OTLP
//	slog ─ handler: adds trace_id ─▶ log file
//	             └──────────────────────────────────────────── bridge ─▶ SDK's batches ─▶ OTLP
//
// # Spans
//
// A sequence's span and those of its steps are made when it is over, all at once and by a goroutine of the [Tracer]'s own:
// the guard's events only add to what is kept of a sequence, under a lock that nobody holds for long. What comes late (the
// refusal of a holder that slept past its hold) becomes a child of the span that was sent.
//
// # Identity
//
// The ids of a sequence's span are not drawn but worked out from its session and grant, with a salt that is kept at the
// store. So a proxy links to the span of a hold of another proxy, of which it knows the grant from the fence record, with
// neither asking. Where the application has given a trace (FENCE.TRACE), the span's id is the same and the trace is the
// application's, which nobody can work out: the holder's proxy notes it at the store ([Notes]), behind the client's back, and who links looks there.
//
// # Bounds
//
// At most maxSequences are open, maxUnsent over and not sent, with maxKept steps; beyond that they are dropped and
// counted. The SDK's queues have bounds of their own (OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BLRP_MAX_QUEUE_SIZE). Nothing of
// that waits for the collector but the Tracer's goroutine.
package telemetry
