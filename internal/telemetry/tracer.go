package telemetry

import (
	"context"
	"math"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

const (
	// maxSequences bounds the sequences that are kept until they are over, and maxKept the steps of all of them.
	maxSequences = 16_384
	maxKept      = 4 * maxSequences
	// maxUnsent bounds those that are over and wait to be sent: more of them wait only if the collector does not answer.
	maxUnsent = 2048
	// maxOver bounds those that are remembered after that, for what may come late.
	maxOver = 16_384
	// maxNotes bounds what is to be noted at the store.
	maxNotes = 4096

	// grace is how long a sequence that seems to be over waits for what belongs to it: a release for its commit, say.
	grace = 250 * time.Millisecond
	// patience is how long one that has read without a hold waits for its write.
	patience = time.Minute
	// forlorn is how long one that holds its session, or waits for it, may be without an event.
	forlorn = time.Hour

	// atOnce is how many are sent before others have a turn at the processor, and endMost how many end while the guard can't tell of more.
	atOnce  = 16
	endMost = 64
	// pause is how often it is looked for what is due, at most.
	pause = 20 * time.Millisecond
)

// Tracer makes spans of the guard's events. What comes in is kept in memory until a sequence is over; then a goroutine of
// its own makes the spans. Nothing of that waits for the collector, and what is kept is bounded.
type Tracer struct {
	ids    ids
	tracer trace.Tracer
	notes  Notes // nil: there are none
	names  bool  // sessions and clients are named
	common []attribute.KeyValue

	mu     sync.Mutex
	open   map[uint64]*sequence
	holds  line        // those of open that hold their session, or wait for it
	reads  line        // those that have read without a hold
	last   line        // those that seem to be over
	over   []*sequence // to be sent
	kept   int         // steps of all those
	past   past
	noting []Note
	alone  uint64 // counts down for refusals that belong to no sequence

	dropped int64 // sequences

	next    time.Time // when the goroutine looks again by itself
	wake    chan struct{}
	stop    context.CancelFunc
	stopped chan struct{}

	restsUntil time.Time // the goroutine's: no notes until then
}

// begin has a tracer begin to work. The caller closes it.
func (t *Tracer) begin() *Tracer {
	t.open, t.past, t.alone = map[uint64]*sequence{}, newPast(), math.MaxUint64
	t.holds.after, t.reads.after, t.last.after = forlorn, patience, grace
	t.wake, t.stopped = make(chan struct{}, 1), make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go t.run(ctx)
	return t
}

// Event implements event.Sink.
func (t *Tracer) Event(e *event.Event) {
	if e.Kind == event.Renew && e.Reason == "" || e.Sequence == 0 && e.Kind != event.Refuse {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sequence(e)
	if s == nil {
		return
	}
	known := s.hold.grant != 0
	if s.add(e, t.kept < maxKept) {
		t.kept++
	}
	if !known && s.hold.grant != 0 && s.parent.IsSampled() && !s.late {
		t.note(s)
	}
	switch {
	case s.holding || s.waits:
		t.line(s, &t.holds)
	case e.Kind == event.Refuse: // what comes next is another
		t.end(s)
		t.rouse()
	case e.Kind == event.Read && s.hold.grant == 0:
		t.line(s, &t.reads)
	default:
		t.line(s, &t.last)
	}
}

// Span is by what the span of a sequence is or will be known. Of one that is not known it is the application's, if that has given
// a trace, and else not valid.
func (t *Tracer) Span(number uint64, application trace.SpanContext) trace.SpanContext {
	t.mu.Lock()
	defer t.mu.Unlock()
	var id identity
	if s := t.open[number]; s != nil {
		id = s.identify(t.ids)
	} else if p, was := t.past.find(number); was {
		id = p.identity
	} else {
		return application
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id.trace, SpanID: id.span})
}

// Dropped is how many sequences there was no room for.
func (t *Tracer) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// sequence finds the sequence that an event belongs to, or begins it; nil: there is no room.
func (t *Tracer) sequence(e *event.Event) *sequence {
	id := e.Sequence
	if id == 0 {
		id, t.alone = t.alone, t.alone-1
	}
	s := t.open[id]
	anew := e.Grant != 0 && (e.Kind == event.Grant || e.Kind == event.Commit)
	if s != nil && anew && s.hold.grant != 0 && s.hold.grant != e.Grant {
		t.end(s)
		s = nil
	}
	if s != nil {
		return s
	}
	if !t.room() {
		t.dropped++
		return nil
	}
	s = newSequence(e)
	s.id = id
	switch p, was := t.past.find(id); {
	case was && (!anew || e.Grant == p.grant):
		s.late, s.span = true, p.identity
		s.hold.grant = p.grant
	case was:
		s.before = p.identity
	case e.Apart && e.Grant != 0 && e.Kind != event.Grant: // who has acquired it sends the sequence
		s.hold.grant = e.Grant
		s.late, s.restores, s.span = true, true, t.ids.ofHold(s.hold)
	}
	t.open[id] = s
	return s
}

// room makes room for another sequence, if it has to and can: those that have only read without a hold may go early.
func (t *Tracer) room() bool {
	if len(t.open) >= maxSequences && t.reads.first != nil {
		t.end(t.reads.first)
	}
	return len(t.open) < maxSequences
}

// line has a sequence sent if nothing more comes of it for the line's time.
func (t *Tracer) line(s *sequence, l *line) {
	l.push(s, time.Now())
	if s.due.Before(t.next) {
		t.next = s.due
		t.rouse()
	}
}

// end has a sequence sent, if there is room. What comes of it from now on is late.
func (t *Tracer) end(s *sequence) {
	delete(t.open, s.id)
	s.leave()
	room := len(t.over) < maxUnsent
	if !s.late {
		t.past.add(s.id, over{s.identify(t.ids), s.hold.grant, room})
	}
	if !room {
		t.kept -= len(s.steps)
		t.dropped++
		return
	}
	t.over = append(t.over, s)
}

func (t *Tracer) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// note has it noted at the store in which trace a hold is, since nobody can work out that of an application.
func (t *Tracer) note(s *sequence) {
	if t.notes != nil && len(t.noting) < maxNotes {
		t.noting = append(t.noting, Note{DB: s.hold.db, Slot: s.hold.slot, Rule: s.hold.rule, Session: s.hold.session, Grant: s.hold.grant, Trace: s.parent.TraceID()})
		t.rouse()
	}
}

// run sends what is over until ctx ends, and then all there is.
func (t *Tracer) run(ctx context.Context) {
	defer close(t.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ending := ctx.Err() != nil
		batch, notes, next := t.take(ending)
		if len(notes) > 0 {
			t.keep(notes)
		}
		if len(batch) > 0 {
			t.send(batch)
			runtime.Gosched() // the proxy may have one thread only
			continue
		}
		if ending {
			return
		}
		timer.Reset(max(time.Until(next), pause))
		select {
		case <-ctx.Done():
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// take returns some of what is to be sent, what is to be noted, and when more is due.
func (t *Tracer) take(all bool) (batch []*sequence, notes []Note, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	notes, t.noting = t.noting, nil
	now := time.Now()
	t.next = now.Add(forlorn)
	ended := 0
	if all {
		ended = len(t.over) // at the end there is time for all of them
	}
	for _, l := range []*line{&t.holds, &t.reads, &t.last} {
		for ; ended < endMost && l.first != nil && (all || !now.Before(l.first.due)); ended++ {
			t.end(l.first)
		}
		if l.first != nil && l.first.due.Before(t.next) {
			t.next = l.first.due
		}
	}
	n := min(len(t.over), atOnce)
	batch = append(batch, t.over[:n]...)
	if t.over = t.over[n:]; len(t.over) == 0 {
		t.over = nil
	}
	for _, s := range batch {
		t.kept -= len(s.steps)
	}
	return batch, notes, t.next
}

// Close sends what there is. The guard sends no more events by then.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.stop()
	<-t.stopped
}
