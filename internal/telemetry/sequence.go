package telemetry

import (
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

const (
	// maxSteps is what is kept of one sequence; one that reads for hours has more.
	maxSteps = 32
	// maxApplications bounds the traces of the application that a sequence is linked to, besides the one it is in.
	maxApplications = 4
	// longText is beyond what is kept of a client's name or a reason, in bytes.
	longText = 128
)

// sequence is what has become of a sequence so far.
type sequence struct {
	id     uint64
	hold   hold // grant 0: it has none yet
	mode   string
	kept   string
	owner  event.Party
	apart  bool
	parent trace.SpanContext   // in the application's trace; not valid: it has given none
	others []trace.SpanContext // that commands of the sequence were part of as well

	span     identity // known already: it is part of a sequence whose span was sent
	late     bool     // … and consists of what has come since
	restores bool     // … in a trace that only a note at the store knows
	heir     uint64   // a hold that has come since, where the steps do not say it
	before   identity // of an earlier part with a span of its own; zero without one

	began   time.Time
	ended   time.Time
	steps   []step
	omitted int

	inLine  event.Party // for whom it waits
	since   time.Time   // from when
	waits   bool
	holding bool
	error   string // first word of the refusal, or the reason of a break

	place // where it waits to be sent
}

// step is one event of a sequence, as far as a span needs it.
type step struct {
	kind    event.Kind
	began   time.Time
	ended   time.Time
	command string
	grant   uint64
	seq     uint64
	newest  uint64
	error   string
	reason  string
	other   event.Party
}

func newSequence(e *event.Event) *sequence {
	s := &sequence{
		id:    e.Sequence,
		hold:  hold{db: e.DB, slot: e.Slot, rule: e.Rule, session: short(e.Session)},
		mode:  e.Mode,
		kept:  e.Kept,
		owner: party(e.Owner), apart: e.Apart,
		began: e.At.Add(-e.Took), ended: e.At,
	}
	return s
}

// add takes in an event and reports whether it has added a step.
func (s *sequence) add(e *event.Event, room bool) (added bool) {
	s.application(e.Trace)
	if e.Grant != 0 && s.hold.grant == 0 {
		s.hold.grant = e.Grant
	}
	began := e.At.Add(-e.Took)
	switch e.Kind {
	case event.Wait:
		s.waits, s.since, s.inLine = true, e.At, party(e.Other)
		s.widen(began, e.At)
		return false
	case event.Quit:
		if s.waits {
			began = s.since
		}
		s.waits = false
	case event.Grant:
		s.holding = !s.apart
		if s.waits {
			began = s.since
		}
		s.waits = false
	case event.Release, event.Break:
		s.holding = false
		began = e.At // Took is how long the session was held
	case event.Renew:
		if e.Reason == "" {
			return false
		}
	}
	s.widen(began, e.At)
	switch e.Kind {
	case event.Refuse:
		s.error = clip(e.Error)
	case event.Break:
		if s.error == "" {
			s.error = clip(e.Reason)
		}
	}
	if !room || len(s.steps) >= maxSteps {
		s.omitted++
		return false
	}
	other := party(e.Other)
	if e.Kind == event.Grant && e.Took > 0 && other.Grant == 0 || e.Kind == event.Quit {
		other = s.inLine
	}
	s.steps = append(s.steps, step{
		kind: e.Kind, began: began, ended: e.At, command: e.Command, grant: e.Grant, seq: e.Seq, newest: e.Newest,
		error: clip(e.Error), reason: clip(e.Reason), other: other,
	})
	return true
}

// widen makes the sequence's time include a step's.
func (s *sequence) widen(began, ended time.Time) {
	if began.Before(s.began) {
		s.began = began
	}
	if ended.After(s.ended) {
		s.ended = ended
	}
}

// application notes the trace of the application that a command was part of.
func (s *sequence) application(c trace.SpanContext) {
	switch {
	case !c.IsValid() || c.Equal(s.parent):
	case !s.parent.IsValid() && !s.late && s.hold.grant == 0: // later than that, others may have linked to it
		s.parent = c
	case len(s.others) < maxApplications:
		for _, o := range s.others {
			if o.Equal(c) {
				return
			}
		}
		s.others = append(s.others, c)
	}
}

// forsaken reports whether a step that tells of a lost hold does not tell who has the session since.
func (s *sequence) forsaken() bool {
	return s.hold.grant != 0 && slices.ContainsFunc(s.steps, func(p step) bool {
		return (p.kind == event.Break || p.kind == event.Refuse && p.error == event.Fenced) && p.newest == 0 && p.other.Grant == 0
	})
}

// identify returns by what the sequence's span is known.
func (s *sequence) identify(i ids) identity {
	if s.span != (identity{}) {
		return s.span
	}
	var id identity
	if s.hold.grant != 0 {
		id = i.ofHold(s.hold)
	} else {
		id = i.ofSequence(s.id)
	}
	if s.parent.IsValid() {
		id.trace = s.parent.TraceID()
	}
	return id
}

// party is one in a form that may be kept.
func party(p event.Party) event.Party {
	p.Name, p.Proxy, p.Client = clip(p.Name), clip(p.Proxy), clip(p.Client)
	p.Owner = "" // nobody is shown it
	return p
}

// clip keeps a short text as it is, and the beginning of a long one.
func clip(text string) string {
	if len(text) <= longText {
		return text
	}
	return strings.Clone(text[:longText])
}
