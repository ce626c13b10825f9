package proxy

import (
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
)

// logRefusal logs what a client was refused, with all that is needed to find out why; never a
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
		c.srv.metrics.Refused(fenced.Record.Rule, "FENCED")
		log.Warn("FENCED", "rule", fenced.Record.Rule, "session", fenced.Record.Session, "reason", string(fenced.Reason),
			"grant", fenced.Grant, "newest", fenced.Newest, "holder", holderText(fenced.Holder, time.Now()))
	case errors.As(err, &locked):
		c.srv.metrics.Refused(locked.Record.Rule, "LOCKED")
		log.Warn("LOCKED", "rule", locked.Record.Rule, "session", locked.Record.Session, "waiting", locked.Waiting,
			"waited", locked.Waited.Round(time.Millisecond), "grant", locked.Holder.Grant, "holder", holderText(locked.Holder, time.Now()))
	case errors.As(err, &denied):
		c.srv.metrics.Refused(c.ruleAtHand(), "FENCEDENIED")
		log.Warn("FENCEDENIED", "reason", denied.reason)
	case errors.As(err, &unknown):
		c.srv.metrics.Refused(c.ruleAtHand(), "FENCEUNKNOWN")
		log.Error("FENCEUNKNOWN", "sessions", unknown.sessions, "error", unknown.err)
	case errors.As(err, &down):
		c.srv.metrics.Refused(c.ruleAtHand(), "FENCEDOWN")
		log.Error("FENCEDOWN", "sessions", down.sessions, "error", down.err)
	default:
		log.Warn("refused", "error", err)
	}
}

// ruleAtHand names the rule of the first session that the command at hand touches, "" without one.
func (c *client) ruleAtHand() string {
	if len(c.parts) == 0 {
		return ""
	}
	return c.parts[0].sequence.Rule.Name
}
