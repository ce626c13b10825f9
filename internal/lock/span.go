package lock

import (
	"context"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A session whose keys are in several slots of a cluster (tokenstore.Area.Spans) is a sequence in each slot for its owner, with a record of its
// own. They stand under one hold of the session, which ends with the last of them, or as soon as one has committed:
//
//	sequence in slot 1 ─┐
//	sequence in slot 2 ─┼─ span: one hold at the lock provider, one grant, registered in each slot
//	sequence in slot 3 ─┘
//
// Each write is checked against its own slot's record. That one has lost the hold is told at the next command in any.

// spans are the holds that sequences share, by whose they are.
type spans struct {
	outside *outside // the lock provider of sessions that span slots where the store itself grants the others

	mu     sync.Mutex
	by     map[spanKey]*span
	formed map[spanKey]chan struct{} // closed when a span is formed for who waits for that
}

type spanKey struct{ owner, rule, session string }

// span is a hold that several sequences of one owner share.
type span struct {
	provider.Hold
	key    spanKey
	since  time.Time
	parts  int
	ending bool // it takes no more in
}

// share is one sequence's part in a span.
type share struct {
	*span
	spans *spans
	left  bool
	last  bool
}

func (s *Sequence) spanKey() spanKey {
	return spanKey{s.owner.Load().ID, s.Record.Rule, s.Record.Session}
}

// form makes a hold that was granted to a sequence one that its siblings can share.
func (p *spans) form(key spanKey, h provider.Hold) provider.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil {
		p.by = map[spanKey]*span{}
	}
	sp := &span{Hold: h, key: key, since: time.Now(), parts: 1}
	p.by[key] = sp
	if c := p.formed[key]; c != nil {
		close(c)
		delete(p.formed, key)
	}
	return &share{span: sp, spans: p}
}

// join returns a part of the hold that is there already, nil if there is none.
func (p *spans) join(key spanKey) provider.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	sp := p.by[key]
	if sp == nil || sp.ending || isOver(sp.Hold) {
		return nil
	}
	sp.parts++
	return &share{span: sp, spans: p}
}

// dissolve has the span of a hold take nobody in any more, so that another is asked for. It reports whether there is one.
func (p *spans) dissolve(h provider.Hold) bool {
	of, is := h.(*share)
	if is {
		p.mu.Lock()
		of.ending = true
		p.mu.Unlock()
	}
	return is
}

// Release implements provider.Hold: the last one to leave gives the hold back.
func (h *share) Release(ctx context.Context) error {
	h.spans.mu.Lock()
	if !h.left {
		h.left = true
		h.parts--
		if h.last = h.parts == 0; h.last && h.spans.by[h.key] == h.span {
			delete(h.spans.by, h.key)
		}
	}
	last := h.last
	h.spans.mu.Unlock()
	if last {
		return h.Hold.Release(ctx)
	}
	return nil
}

// Share gives the sequence a part in the hold that a sibling of its has, and reports whether there is one.
func (s *Sequence) Share() bool {
	if !s.Record.Spans || s.apart {
		return false
	}
	h := s.manager.spans.join(s.spanKey())
	if h == nil {
		return false
	}
	s.Give(h)
	return true
}

// Shareable returns a channel that is closed when a sibling is granted the session; nil if it has none.
func (s *Sequence) Shareable() <-chan struct{} {
	if !s.Record.Spans || s.apart {
		return nil
	}
	p, key := &s.manager.spans, s.spanKey()
	p.mu.Lock()
	defer p.mu.Unlock()
	if sp := p.by[key]; sp != nil && !sp.ending {
		now := make(chan struct{})
		close(now)
		return now
	}
	if p.formed == nil {
		p.formed = map[spanKey]chan struct{}{}
	}
	if p.formed[key] == nil {
		p.formed[key] = make(chan struct{})
	}
	return p.formed[key]
}

// spanned returns the hold as it is to be given to the sequence, and since when it stands.
func (s *Sequence) spanned(h provider.Hold) provider.Hold {
	if _, is := h.(*share); is || h == nil || !s.Record.Spans || s.apart {
		return h
	}
	return s.manager.spans.form(s.spanKey(), h)
}

// shares reports whether the sequence's hold is one that siblings share. Called with mu held.
func (s *Sequence) shares() bool {
	_, is := s.hold.(*share)
	return is
}

// spansSince is since when the hold stands that the sequence has a part in; the zero time: it has none.
func (s *Sequence) spansSince() time.Time {
	if h, is := s.hold.(*share); is {
		return h.since
	}
	return time.Time{}
}

// siblings are the owner's sequences of the session in other slots.
func (s *Sequence) siblings() []*Sequence {
	if !s.Record.Spans || s.apart {
		return nil
	}
	o := s.owner.Load()
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []*Sequence
	for at := range o.spanning[spanKey{o.ID, s.Record.Rule, s.Record.Session}] {
		if other := o.sequences[sequenceKey{at, s.Record.Rule, s.Record.Session}]; other != nil && other != s {
			all = append(all, other)
		}
	}
	return all
}

// spans notes that the owner has, or is about to have, a sequence in one more slot. Called with mu held.
func (o *Owner) spans(key sequenceKey) {
	of := spanKey{o.ID, key.rule, key.session}
	if o.spanning == nil {
		o.spanning = map[spanKey]map[tokenstore.Area]struct{}{}
	}
	if o.spanning[of] == nil {
		o.spanning[of] = map[tokenstore.Area]struct{}{}
	}
	o.spanning[of][key.at] = struct{}{}
}

// unspans takes that back. Called with mu held.
func (o *Owner) unspans(key sequenceKey) {
	of := spanKey{o.ID, key.rule, key.session}
	if delete(o.spanning[of], key.at); len(o.spanning[of]) == 0 {
		delete(o.spanning, of)
	}
}

// siblingBroken reports that a sibling was broken, once.
func (s *Sequence) siblingBroken() error {
	for _, other := range s.siblings() {
		other.mu.Lock()
		var err error
		if other.state == Broken {
			err = other.report()
		}
		other.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// settleSpan ends the siblings' holds: the session's sequence has committed.
func (s *Sequence) settleSpan() {
	siblings := s.siblings()
	if len(siblings) == 0 {
		return
	}
	p := &s.manager.spans
	p.mu.Lock()
	if sp := p.by[s.spanKey()]; sp != nil {
		sp.ending = true
	}
	p.mu.Unlock()
	for _, other := range siblings {
		other.mu.Lock()
		if other.state == Held {
			other.settled = true
			other.schedule(time.Now())
		}
		other.mu.Unlock()
	}
}
