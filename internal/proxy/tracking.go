package proxy

import (
	"slices"

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
// is kept, to be said again behind what the fence sends before that command.
func (c *client) cache(req resp.Request) error {
	x, err := c.sync(req.Raw, true)
	if err == nil && x.StreamType == '+' {
		c.state.caching = slices.Clone(req.Raw)
	}
	return err
}

// arm begins a command: is it the one that CLIENT CACHING was about?
func (c *client) arm() {
	if !c.state.multi {
		c.armed, c.state.caching = c.state.caching, nil
	}
}
