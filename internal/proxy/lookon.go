package proxy

import (
	"errors"
	"slices"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A rule in mode observe is carried out as in mode fence, except that nothing is enforced: a write that would be
// refused is counted, and presented again as a blind one. What can't be guarded, or when the fence can't be asked, is
// passed as it came.

// looksOn reports whether a plan enforces nothing.
func (p *plan) looksOn() bool {
	return !slices.ContainsFunc(p.parts, func(q part) bool { return q.sequence.Rule.Enforces() })
}

// lookedOn reports whether a refusal is to be counted only, and counts it.
func (c *client) lookedOn(s *lock.Sequence, err error) bool {
	var fenced *lock.FencedError
	if s.Rule.Enforces() || !errors.As(err, &fenced) {
		return false
	}
	ctx := c.tellFenced(fenced, event.Event{Kind: event.WouldRefuse})
	c.srv.log.WarnContext(ctx, "would be FENCED", "client", c.address(), "name", c.state.name, "rule", fenced.Record.Rule, "session", fenced.Record.Session,
		"reason", string(fenced.Reason))
	return true
}

// unguardable says what becomes of a command that can't be guarded, for this reason: under rules that only
// observe it is passed.
func (p plan) unguardable(reason error) (plan, error) {
	if reason != nil && p.looksOn() {
		p.parts = nil
		return p, nil
	}
	return p, reason
}

// unfenced passes a command whose fence could not be asked, and reports whether it has: nothing may be enforced, and
// nothing was written.
func (c *client) unfenced(p plan, b body, err error) bool {
	var down *downError
	if b.tx != nil || b.now || !p.looksOn() || !errors.As(err, &down) || errors.Is(err, upstream.ErrLost) || c.up == nil {
		return false
	}
	c.srv.log.Warn("not observed", "sessions", p.sessions(), "error", err)
	c.up.Pass(b.raw, 1)
	return true
}

// passUnobserved passes a transaction that only observes, and can't be held, with the command at hand.
func (c *client) passUnobserved(cmd *command.Command, req resp.Request) error {
	if err := c.passOn(); err != nil {
		return err
	}
	return c.pass(cmd, req)
}
