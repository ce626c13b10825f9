package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// CLIENT REPLY never reaches Redis as OFF or SKIP, since what the fence sends over the client's
// connection needs its replies: the proxy withholds the client's.

// quiet is what CLIENT REPLY has set.
type quiet struct {
	off  bool // until ON or RESET
	skip bool // for the next command
}

// askReply has the rights and the restrictions of any CLIENT REPLY, and changes nothing at a Redis
// that is never told OFF.
var askReply = resp.AppendCommandStrings(nil, "CLIENT", "REPLY", "ON")

// hush begins a command: does the client hear of it?
func (c *client) hush() {
	q := &c.state.quiet
	c.skipped, q.skip = q.skip, false
	c.setSilent(q.off || c.skipped)
}

func (c *client) setSilent(silent bool) {
	c.silent = silent
	if c.up != nil {
		c.up.Quiet = silent
	}
}

// clientReply carries out CLIENT REPLY.
func (c *client) clientReply(req resp.Request) error {
	q, how := c.state.quiet, req.Args[2]
	on := isWord(how, "ON")
	switch {
	case on:
		q = quiet{}
	case isWord(how, "OFF"):
		q.off = true
	case isWord(how, "SKIP"):
		q.skip = !q.off
	default:
		c.up.Pass(req.Raw, 1)
		return nil
	}
	if c.state.multi {
		if on {
			c.up.Pass(req.Raw, 1)
			return nil
		}
		c.state.refused = true
		return c.refuse(&deniedError{reason: "CLIENT REPLY can't be turned off inside MULTI: half of EXEC's reply would be missing"})
	}
	x, err := c.sync(askReply, false)
	if err != nil {
		return err
	}
	if isError(x.Frame(0)) {
		return c.local(x.Frame(0))
	}
	c.state.quiet = q
	if !on {
		return nil
	}
	c.setSilent(false)
	return c.local(x.Frame(0))
}
