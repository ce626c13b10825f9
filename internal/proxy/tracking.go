package proxy

import (
	"slices"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// track passes CLIENT TRACKING, after which the client is sent invalidations.
func (c *client) track(req resp.Request) error {
	on := len(req.Args) > 2 && isWord(req.Args[2], "ON")
	if c.state.multi {
		c.state.tracking = c.state.tracking || on
		c.up.Pass(req.Raw, 1)
		return nil
	}
	x, err := c.sync(req.Raw, true)
	if err == nil && x.StreamType == '+' {
		c.state.tracking = on
	}
	return err
}

// cache passes CLIENT CACHING, which Redis applies to the next command, or to a whole transaction. It
// is kept, to be said again behind what the proxy sends before that command.
func (c *client) cache(req resp.Request) error {
	if c.state.multi {
		c.up.Pass(req.Raw, 1)
		return nil
	}
	x, err := c.sync(req.Raw, true)
	if err == nil && x.StreamType == '+' {
		c.state.caching = slices.Clone(req.Raw)
	}
	return err
}

// arm begins a command: is it the one that CLIENT CACHING was about? Those of CLIENT are not.
func (c *client) arm(cmd *command.Command) {
	switch {
	case c.state.multi:
	case cmd != nil && strings.HasPrefix(cmd.Name, "client|"):
		c.armed = nil
	default:
		c.armed, c.state.caching = c.state.caching, nil
	}
}

// rearm says CLIENT CACHING again before a MULTI of the client's.
func (c *client) rearm() {
	if c.armed != nil {
		c.up.Drop(c.armed, 1)
	}
}
