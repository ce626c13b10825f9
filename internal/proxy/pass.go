package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// pass sends an unguarded command as it came. Those that change what the guard must know of the
// connection are waited for.
func (c *client) pass(cmd *command.Command, req resp.Request) error {
	name := ""
	c.introduced(req.Args)
	switch {
	case cmd != nil && cmd.Fits(len(req.Args)):
		name = cmd.Name
	case cmd != nil: // Redis refuses it
		c.unfit(cmd)
	case isWord(req.Args[0], "QUIT"):
		name = "quit" // which Redis knows without its table
	}
	if _, ok := sticky[name]; ok || cmd == nil {
		c.state.alone = true
	}
	switch shared, err := c.share(cmd, req); {
	case err != nil:
		return c.broken(err)
	case shared:
		return nil
	}
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	if refused, err := c.speakUp(name, req.Args); refused || err != nil {
		return err
	}
	if c.seen != nil {
		if err := c.watchOver(cmd, name, req); err != nil {
			return c.broken(err)
		}
		defer c.unheard()
		defer c.tellWho(name, req)
	}
	if c.state.multi {
		c.state.queue(name)
	}
	if name == "publish" || name == "spublish" {
		c.state.miscounts = c.state.miscounts || c.state.queuedSubscribe // it may be sent to itself, between the replies
	}
	if c.state.miscounts && (name == "select" || name == "auth" || name == "hello") {
		c.state.refused = true
		return c.refuse(&deniedError{reason: name + " can't be in a transaction behind a subscription to several channels or to none, or with a PUBLISH: Redis sends " +
			"more or fewer replies than it says, and the proxy can't tell which is whose"})
	}
	c.blocking = c.blocking || cmd != nil && cmd.Is(command.FlagBlocking)
	switch {
	case c.state.replica:
		c.up.Pass(req.Raw, 0)
		return nil
	case changesSubscriptions(name):
		c.subscribe(name, req)
		return nil
	}
	switch name {
	case "ping":
	case "hello", "reset", "client|setname":
		return c.renamed(name, req)
	case "quit":
		return c.quit(req)
	default:
		return c.change(cmd, name, req)
	}
	c.up.Pass(req.Raw, 1)
	return nil
}

// unfit notes what a command changes that Redis refuses for the number of its arguments: EXEC ends the
// transaction, and takes every WATCH away.
func (c *client) unfit(cmd *command.Command) {
	if cmd.Name != "exec" {
		return
	}
	c.unwatch()
	c.state.endMulti()
}

// change passes a command that may change the connection's state.
func (c *client) change(cmd *command.Command, name string, req resp.Request) error {
	if !c.state.monitors {
		switch deaf, err := c.isDeaf(true); {
		case err != nil:
			return c.broken(err)
		case deaf:
			c.up.Pass(req.Raw, 1) // it changes nothing
			return nil
		}
	}
	switch name {
	case "multi":
		switch {
		case c.state.multi || !cmd.Fits(len(req.Args)):
		case c.hold(req):
			return nil
		default:
			c.unwatch()
			c.state.multi, c.tx.passed = true, true
		}
	case "exec":
		if c.state.multi {
			return c.passExec(req)
		}
		c.unwatch() // Redis may refuse it so that it takes every WATCH away
	case "discard":
		if c.state.multi {
			c.state.endMulti()
		}
	case "auth":
		if !c.state.multi {
			return c.auth(req)
		}
		c.state.switches = append(c.state.switches, switched{at: c.state.queued - 1, args: deepClone(req.Args)})
	case "watch":
		c.unwatch()
		if !c.state.multi {
			c.watches.add(req.Args[1:], !c.state.watching)
			c.state.watching = true
		}
	case "unwatch":
		c.watched.gone()
		c.state.watching = c.state.multi && c.state.watching
	case "select":
		return c.selectDB(req)
	case "acl|whoami":
		if a := c.account.Load(); a != nil && !c.state.multi {
			return c.local(resp.AppendBulkString(nil, a.Name))
		}
	case "client|tracking":
		return c.track(req)
	case "client|caching":
		return c.cache(req)
	case "client|setinfo":
		return c.inform(req)
	case "client|id":
		c.state.known = true
	case "client|kill":
		c.srv.kills.seen()
		c.state.known = true
	case "client|reply":
		return c.clientReply(req)
	case "monitor":
		return c.monitor(req)
	case "sync", "psync":
		c.replicate(req)
		return nil
	case "wait", "waitaof":
		return c.wait(req)
	default:
		if listsKeys(name) && !c.state.multi {
			return c.list(name, req)
		}
	}
	c.wroteHere(cmd, req.Args)
	c.up.Pass(req.Raw, 1)
	return nil
}

// quit passes QUIT, after which Redis closes.
func (c *client) quit(req resp.Request) error {
	if _, err := c.sync(req.Raw, true); err != nil {
		return err
	}
	return errQuit
}
