package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// logRefusal logs what a client was refused, with all that is needed to find out why, and tells of it; never a
// value of the data.
func (c *client) logRefusal(err error) {
	log := c.srv.log.With("client", c.address(), "name", c.state.name)
	var (
		fenced  *lock.FencedError
		locked  *lock.LockedError
		denied  *deniedError
		unknown *unknownError
		down    *downError
		word    wordError
	)
	switch {
	case errors.Is(err, errGone):
		log.Debug("command broken off", "error", err)
	case errors.As(err, &word):
		log.Debug("command not understood", "error", err)
	case errors.As(err, &fenced):
		ctx := c.tellFenced(fenced, event.Event{Kind: event.Refuse, Error: event.Fenced})
		log.WarnContext(ctx, "FENCED", "rule", fenced.Record.Rule, "session", fenced.Record.Session, "reason", string(fenced.Reason),
			"grant", fenced.Grant, "newest", fenced.Newest, "holder", holderText(fenced.Holder, time.Now()))
	case errors.As(err, &locked):
		ctx := c.tell(locked.Record, event.Event{
			Kind: event.Refuse, Error: event.Locked, Reason: locked.Why(), Newest: locked.Holder.Grant, Other: lock.PartyOf(locked.Holder),
		})
		log.WarnContext(ctx, "LOCKED", "rule", locked.Record.Rule, "session", locked.Record.Session, "waiting", locked.Waiting,
			"waited", locked.Waited.Round(time.Millisecond), "grant", locked.Holder.Grant, "holder", holderText(locked.Holder, time.Now()))
	case errors.As(err, &denied):
		ctx := c.tell(nil, event.Event{Kind: event.Refuse, Error: event.Denied})
		log.WarnContext(ctx, "FENCEDENIED", "reason", denied.reason)
	case errors.As(err, &unknown):
		ctx := c.tell(nil, event.Event{Kind: event.Refuse, Error: event.Unknown})
		log.ErrorContext(ctx, "FENCEUNKNOWN", "sessions", unknown.sessions, "error", unknown.err)
	case errors.As(err, &down):
		ctx := c.tell(nil, event.Event{Kind: event.Refuse, Error: event.Down})
		log.ErrorContext(ctx, "FENCEDOWN", "sessions", down.sessions, "error", down.err)
	default:
		log.Warn("refused", "error", err)
	}
}

// tellFenced tells of what a stale sequence comes to. The context is as tell's.
func (c *client) tellFenced(err *lock.FencedError, e event.Event) context.Context {
	owner := c.owner.ID
	if s := c.sequenceOf(err.Record); s != nil {
		owner = s.Claim.Owner
	}
	e.Reason, e.Grant, e.Newest = string(err.Reason), err.Grant, err.Newest
	if err.Newest > 0 || err.Holder.Held() || err.Reason == lock.ReasonSuperseded {
		e.Other = c.srv.locks.Against(err.Record, owner, err.Grant, err.Newest, err.Holder)
	}
	return c.tell(err.Record, e)
}

// tell tells of a step of the command at hand on a session; nil: on the first that it touches. The context has the span that the
// step is part of, for the log.
func (c *client) tell(r *tokenstore.Record, e event.Event) context.Context {
	e.Trace = c.traces.at()
	if c.cmd != nil {
		e.Command = c.cmd.Verb
	} else if c.word != nil {
		e.Command = strings.ToUpper(c.word.name)
	}
	if s := c.sequenceOf(r); s != nil {
		return c.srv.within(s.Tell(e), e.Trace)
	}
	e.Owner = lock.PartyOf(tokenstore.Holder{Identity: c.identity(), Owner: c.owner.ID, Grant: e.Grant})
	if r != nil {
		e.Rule, e.Session, e.DB = r.Rule, r.Session, r.DB
		ru := c.srv.rules.now().set.Named(r.Rule)
		if ru == nil {
			ru = c.srv.bare
		}
		e.Mode, e.Kept = string(ru.Mode), string(ru.Owner)
	}
	c.srv.locks.Tell(e)
	return c.srv.within(0, e.Trace)
}

// sequenceOf returns the sequence of the command at hand on a session, or on the first that it touches; nil without one.
func (c *client) sequenceOf(r *tokenstore.Record) *lock.Sequence {
	parts := c.parts
	if len(parts) == 0 && c.cmd != nil && c.cmd.Name == "exec" {
		parts = c.tx.plan.parts
	}
	for i := range parts {
		if s := parts[i].sequence; r == nil || s.Record.Is(r) {
			return s
		}
	}
	return nil
}

// quits tells of a plan's sessions that their lines were left, if there was one, for the reason of what the command comes to.
func quits(p plan, err error) {
	reason := event.Unasked
	var locked *lock.LockedError
	switch {
	case errors.As(err, &locked):
		reason = locked.Why()
	case errors.Is(err, errGone), errors.Is(err, errStopping):
		reason = event.Gone
	case errors.Is(err, errKin):
		reason = event.Other
	}
	for i := range p.parts {
		p.parts[i].sequence.Quits(reason)
	}
}
