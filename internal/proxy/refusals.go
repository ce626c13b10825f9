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
	)
	switch {
	case errors.Is(err, errGone):
		log.Debug("command broken off", "error", err)
	case errors.As(err, &fenced):
		log.Warn("FENCED", "rule", fenced.Record.Rule, "session", fenced.Record.Session, "reason", string(fenced.Reason),
			"grant", fenced.Grant, "newest", fenced.Newest, "holder", holderText(fenced.Holder, time.Now()))
	case errors.As(err, &locked):
		log.Warn("LOCKED", "rule", locked.Record.Rule, "session", locked.Record.Session,
			"waited", locked.Waited.Round(time.Millisecond), "grant", locked.Holder.Grant, "holder", holderText(locked.Holder, time.Now()))
	case errors.As(err, &denied):
		log.Warn("FENCEDENIED", "reason", denied.reason)
	case errors.As(err, &unknown):
		log.Error("FENCEUNKNOWN", "sessions", unknown.sessions, "error", unknown.err)
	case errors.As(err, &down):
		log.Error("FENCEDOWN", "sessions", down.sessions, "error", down.err)
	default:
		log.Warn("refused", "error", err)
	}
}
