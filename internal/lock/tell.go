package lock

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// What is told of a sequence is told where its state changes, with mu held, so that it comes in the order in which it happens.
// Where nobody listens, nothing is put together.

// telling is what a sequence keeps for what is told of it.
type telling struct {
	number  uint64            // of what is told now; 0: the next step begins another
	told    bool              // the end of what it stands for was told
	last    time.Time         // of what was told last
	read    bool              // a read of the command at hand was told
	command string            // at hand
	trace   trace.SpanContext // of the application, that the command at hand is part of
	asked   time.Time         // when the store was asked last
	since   time.Time         // in line; zero: it is not
	behind  tokenstore.Holder // whom it waits for
	why     string            // the hold is about to end
	doomed  bool              // … as broken, though it is given back
	grants  bool              // a sequence apart that was acquired here
}

// Observe sets who is told of the manager's sequences, before it has any; nil: nobody.
func (m *Manager) Observe(to event.Sink) { m.sink = to }

// Tell tells of a step that belongs to no sequence of the manager's.
func (m *Manager) Tell(e event.Event) {
	if m.sink != nil {
		m.send(e)
	}
}

func (m *Manager) send(e event.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	p := m.events.Get().(*event.Event)
	*p = e
	m.sink.Event(p)
	*p = event.Event{}
	m.events.Put(p)
}

// Tell tells of a step of the sequence, and returns the sequence's number. What the sequence itself knows is filled in.
func (s *Sequence) Tell(e event.Event) uint64 {
	if s.manager.sink == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(e)
	return s.story.number
}

// tell is Tell, with mu held.
func (s *Sequence) tell(e event.Event) {
	m := s.manager
	if m.sink == nil {
		return
	}
	switch {
	case s.story.number == 0, s.story.told && begins(&e):
		s.anew()
	}
	e.Sequence, e.Rule, e.Mode, e.Kept = s.story.number, s.Rule.Name, string(s.Rule.Mode), string(s.Rule.Owner)
	e.Session, e.DB, e.Slot, e.Apart = s.Record.Session, s.Record.DB, string(s.Record.Slot), s.apart
	if e.Command == "" {
		e.Command = s.story.command
	}
	if !e.Trace.IsValid() {
		e.Trace = s.story.trace
	}
	if e.Grant == 0 && s.state != Free && s.state != Seen {
		e.Grant = s.grant
	}
	if e.Lease == 0 && e.Reason != event.Unasked && (e.Kind == event.Grant || e.Kind == event.Renew) {
		e.Lease = s.Claim.Lease
	}
	e.Owner = PartyOf(tokenstore.Holder{Identity: s.Claim.Identity, Owner: s.Claim.Owner, Grant: e.Grant})
	if s.state == Held {
		e.Owner.Since = s.since
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.At.Before(s.story.last) { // a read is answered before it is known what it was granted
		e.At = s.story.last
	}
	s.story.last = e.At
	m.send(e)
}

// begins reports whether a step is the first of what comes after another's end.
func begins(e *event.Event) bool {
	return e.Kind == event.Read || e.Kind == event.Commit || e.Kind == event.Refuse && (e.Reason == event.Held || e.Reason == event.Full)
}

// anew begins another story.
func (s *Sequence) anew() { s.story.number, s.story.told = s.manager.ids.Add(1), false }

// PartyOf is a holder as events have it.
func PartyOf(h tokenstore.Holder) event.Party {
	return event.Party{Proxy: h.Proxy, Client: h.Client, Name: h.Name, Owner: h.Owner, Grant: h.Grant, Since: h.Since}
}

// Serves notes which command is about to be carried out in the sequence, in upper case, and of which trace of the application
// it is part, if any.
func (s *Sequence) Serves(command string, in trace.SpanContext) {
	if s.manager.sink == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.story.command, s.story.trace = command, in
}

// served notes that it was.
func (s *Sequence) served() {
	if s.manager.sink == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit(event.Other)
	s.story.command, s.story.trace, s.story.read = "", trace.SpanContext{}, false
}

// Waits tells that the command at hand stands in line behind a holder. It is told once, until the line is left.
func (s *Sequence) Waits(behind tokenstore.Holder) {
	if s.manager.sink == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if behind.Held() || s.story.since.IsZero() {
		s.story.behind = behind
	}
	if !s.story.since.IsZero() {
		return
	}
	s.story.since = time.Now()
	s.anew()
	s.tell(event.Event{Kind: event.Wait, Other: PartyOf(behind)})
}

// Quits tells that the command at hand has left the line without a grant, if it stood in one.
func (s *Sequence) Quits(reason string) {
	if s.manager.sink == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit(reason)
}

func (s *Sequence) quit(reason string) {
	if s.story.since.IsZero() {
		return
	}
	took, behind := s.waited()
	s.tell(event.Event{Kind: event.Quit, Took: took, Reason: reason, Other: PartyOf(behind)})
	s.story.told = true
}

// waited ends the time in line, and returns it.
func (s *Sequence) waited() (time.Duration, tokenstore.Holder) {
	if s.story.since.IsZero() {
		return 0, tokenstore.Holder{}
	}
	took, behind := max(time.Since(s.story.since), 1), s.story.behind
	s.story.since, s.story.behind = time.Time{}, tokenstore.Holder{}
	return took, behind
}

// tellGrant tells of a hold that begins.
func (s *Sequence) tellGrant(b tokenstore.Begin) {
	m := s.manager
	if m.sink == nil {
		return
	}
	took, behind := s.waited()
	if took == 0 {
		s.anew()
	}
	e := event.Event{Kind: event.Grant, Took: took, Grant: b.Grant, Newest: b.Grant, Other: PartyOf(behind)}
	if b.RecordLost {
		e.Reason = event.RecordLost
	}
	s.tell(e)
	m.recent.note(s, b.Grant, s.since)
}

// tellRead tells of a read that was answered, once for each command.
func (s *Sequence) tellRead(now time.Time) {
	if s.manager.sink == nil || s.story.read {
		return
	}
	s.story.read = true
	s.tell(event.Event{Kind: event.Read, At: now, Took: max(now.Sub(s.story.asked), 0)})
}

// tellCommit tells of a write that was applied. What was given no token has no grant.
func (s *Sequence) tellCommit(grant, seq uint64, reason string) {
	m := s.manager
	if m.sink == nil {
		return
	}
	now := time.Now()
	s.tell(event.Event{Kind: event.Commit, At: now, Took: max(now.Sub(s.story.asked), 0), Grant: grant, Newest: grant, Seq: seq, Reason: reason})
	m.recent.note(s, grant, now)
	if s.state == Free {
		s.story.number = 0
	}
}

// tellEnd tells that a hold ends: it was released for the reason that was noted, or broken.
func (s *Sequence) tellEnd() {
	if s.manager.sink == nil {
		return
	}
	if s.story.why == "" {
		s.story.why = event.Other
	}
	s.tell(event.Event{Kind: event.Release, Took: time.Since(s.since), Reason: s.story.why})
}

// tellBreak tells that the hold was lost.
func (s *Sequence) tellBreak(reason Reason, newest uint64, holder tokenstore.Holder) {
	m := s.manager
	if m.sink == nil {
		return
	}
	s.tell(event.Event{
		Kind: event.Break, Took: time.Since(s.since), Grant: s.grant, Newest: newest, Reason: string(reason),
		Other: m.Against(s.Record, s.Claim.Owner, s.grant, newest, holder),
	})
}
