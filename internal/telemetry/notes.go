package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Note says in which trace of an application a hold's sequence is.
type Note struct {
	DB            int
	Slot          string // of the keys, in a cluster; else ""
	Rule, Session string
	Grant         uint64
	Trace         trace.TraceID
	Next          uint64 // a hold that has come since; 0: none is known
}

// Notes are kept where all proxies see them. What is not there any more is no error.
type Notes interface {
	// Keep keeps notes for a while.
	Keep(ctx context.Context, notes []Note) error
	// Find fills in Trace of those notes that somebody has kept.
	Find(ctx context.Context, notes []Note) error
	// Next fills in Next.
	Next(ctx context.Context, notes []Note) error
}

const (
	// noteTime bounds a call for notes.
	noteTime = 500 * time.Millisecond
	// noteRest is how long there are none after one that failed.
	noteRest = 5 * time.Second
)

// keep keeps notes, or not: links to their holds point nowhere then.
func (t *Tracer) keep(notes []Note) {
	t.noted(func(ctx context.Context) error { return t.notes.Keep(ctx, notes) })
}

// traces finds in which traces holds are, where that can't be worked out.
func (t *Tracer) traces(of map[hold]trace.TraceID) {
	if t.notes == nil || len(of) == 0 {
		return
	}
	notes := make([]Note, 0, len(of))
	for h := range of {
		notes = append(notes, Note{DB: h.db, Slot: h.slot, Rule: h.rule, Session: h.session, Grant: h.grant})
	}
	t.noted(func(ctx context.Context) error { return t.notes.Find(ctx, notes) })
	for _, n := range notes {
		of[hold{n.DB, n.Slot, n.Rule, n.Session, n.Grant}] = n.Trace
	}
}

// successors finds out which holds have come after those that were lost, where their refusals do not say it: a proxy that ends a
// hold itself, at max_hold, does not ask who comes next.
func (t *Tracer) successors(batch []*sequence) {
	if t.notes == nil {
		return
	}
	var notes []Note
	var of []*sequence
	for _, s := range batch {
		if s.forsaken() {
			notes, of = append(notes, Note{DB: s.hold.db, Slot: s.hold.slot, Rule: s.hold.rule, Session: s.hold.session, Grant: s.hold.grant}), append(of, s)
		}
	}
	if len(notes) == 0 {
		return
	}
	t.noted(func(ctx context.Context) error { return t.notes.Next(ctx, notes) })
	for i, s := range of {
		s.heir = notes[i].Next
	}
}

// noted makes a call for notes, unless one has failed lately. It is the goroutine's alone.
func (t *Tracer) noted(call func(context.Context) error) {
	if time.Now().Before(t.restsUntil) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	if err := call(ctx); err != nil {
		t.restsUntil = time.Now().Add(noteRest)
	}
}
