package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// What Redis sends a client unasked (messages, invalidations, lines of MONITOR) is told from replies
// by the upstream connection (upstream.Mode). Here is what a client's commands change about it.

// changesSubscriptions reports whether a command is answered by confirmations in place of a reply.
func changesSubscriptions(name string) bool {
	switch name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return true
	}
	return false
}

// subscribe passes a command that changes subscriptions.
func (c *client) subscribe(name string, req resp.Request) {
	c.unwatch() // in RESP2 Redis takes no UNWATCH from then on
	c.state.subscribes, c.state.queuedSubscribe = true, c.state.multi
	c.state.miscounts = c.state.miscounts || c.state.multi && len(req.Args) != 2
	c.up.PassConfirmed(req.Raw, name, len(req.Args)-1)
}

// look is a command that every Redis refuses that refuses all commands with keys.
var look = resp.AppendCommandStrings(nil, "EXISTS", tokenstore.Prefix)

// isDeaf reports whether Redis refuses to the client all commands with keys, in its own words, until
// the client itself changes that: it speaks RESP2 and has subscriptions, or it monitors. Nothing need
// be guarded then. A server may be more liberal, so it is asked.
//
// Subscriptions of shards may also end by themselves: they count when the command can do no harm then.
func (c *client) isDeaf(shards bool) (bool, error) {
	if !c.state.monitors && (c.state.multi || !c.state.subscribes || c.state.proto != 2) { // it would not let MULTI be
		return false, nil
	}
	x := c.exchange
	x.Reset(0, -1, false, nil) // it is answered when all before it is
	if err := c.roundTrip(x, nil); err != nil {
		return false, err
	}
	if m := c.up.Mode(); !m.Monitors && !m.Listens() && !(shards && m.Subscribed()) {
		return false, nil
	}
	x, err := c.sync(look, false)
	return err == nil && isError(x.Frame(0)), err
}

// refusedByRedis passes a command that Redis itself refuses, and reports whether it is one.
func (c *client) refusedByRedis(cmd *command.Command, req resp.Request) (bool, error) {
	const withKeys = command.FlagReadOnly | command.FlagWrite | command.FlagMayReplicate
	deaf, err := c.isDeaf(false)
	if err != nil || !deaf || c.state.monitors && (cmd == nil || cmd.Flags&withKeys == 0) {
		return false, err
	}
	c.up.Pass(req.Raw, 1)
	return true, nil
}

// maySubscribe reports whether the client has subscriptions, or has asked for some.
func (c *client) maySubscribe() bool {
	if c.state.subscribes && !c.up.Outstanding() && !c.up.Mode().Subscribed() {
		c.state.subscribes = false
	}
	return c.state.subscribes
}

// hears reports whether the client is sent messages unasked. It is for when the upstream connection
// has ended.
func (c *client) hears() bool {
	m := c.up.Mode()
	return c.state.tracking || c.state.replica || c.state.monitors || m.Subscribed()
}

// monitor passes MONITOR. Redis does not answer a second one.
func (c *client) monitor(req resp.Request) error {
	if c.state.monitors {
		c.up.Pass(req.Raw, 0)
		return nil
	}
	if c.state.multi {
		c.up.Pass(req.Raw, 1)
		return nil
	}
	c.unwatch()
	x := c.exchange
	x.Reset(1, 0, false, always)
	x.After = func(m *upstream.Mode) { m.Monitors = x.StreamType == '+' }
	err := c.roundTrip(x, req.Raw)
	c.state.monitors = x.StreamType == '+'
	return err
}

// replicate passes SYNC or PSYNC: what follows is no RESP.
func (c *client) replicate(req resp.Request) {
	c.unwatch()
	c.state.replica = true
	c.up.Raw()
	c.up.Pass(req.Raw, 0)
}
