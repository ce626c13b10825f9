package proxy

import (
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A proxy that observes tells of each command with keys that it passes, and lets the start of its
// reply be heard. Its clients have upstream connections of their own, so that replies come one by one
// and Redis sees each client as it is.

// watchOver tells the observer of a command that is about to be passed. It may wait for the command's turn.
func (c *client) watchOver(cmd *command.Command, name string, req resp.Request) error {
	switch {
	case name == "" || c.state.monitors || c.state.replica:
		return nil
	case c.state.subscribes && c.state.proto == 2:
		return nil // Redis refuses it, or the subscriptions have just ended
	case c.state.multi:
		switch {
		case name == "exec" && !c.state.refused:
			return c.hear(c.seen.Exec())
		case name == "exec", name == "discard", name == "reset", name == "quit":
			c.seen.Discard()
		default:
			if call := c.callOf(cmd, req); call != nil {
				c.seen.Queue(call, c.state.queued)
			}
		}
		return nil
	case name == "multi":
		c.seen.Discard() // of one that did not come to its end
	}
	call := c.callOf(cmd, req)
	if call == nil {
		return nil
	}
	return c.hear(c.seen.Send(call))
}

// hear lets an observed command wait for its turn, and its reply be heard.
func (c *client) hear(p *observe.Pending) error {
	if p == nil {
		return nil
	}
	if !p.Begin() {
		if err := c.up.Flush(); err != nil { // others may wait for what was not sent yet
			p.Lost()
			return err
		}
		p.Wait()
	}
	c.up.Ear = p
	return nil
}

// unheard ends the observation of a command that was not passed after all.
func (c *client) unheard() {
	if c.up != nil && c.up.Ear != nil {
		c.up.Ear.Lost()
		c.up.Ear = nil
	}
}

// callOf is what an observer is told of a command; nil if that is nothing.
func (c *client) callOf(cmd *command.Command, req resp.Request) *observe.Call {
	keys, complete := cmd.Keys(c.keys[:0], req.Args)
	c.keys = keys
	if !complete {
		c.srv.observer.Unread()
	}
	if len(keys) == 0 && cmd.Flags&command.FlagWrite == 0 {
		return nil
	}
	reading, _ := isReading(cmd, req.Args)
	return &observe.Call{
		DB: c.state.db, Command: cmd, Args: req.Args, Keys: keys,
		Atomic: isAtomic(cmd, req.Args), Look: isLook(cmd, req.Args) || reading, Touch: isTouch(cmd, req.Args), Blocks: blocks(cmd, req.Args),
	}
}

// tellWho tells the observer who the client is, after a command that may have changed it. What CLIENT SETINFO says
// counts also where Redis does not know it yet.
func (c *client) tellWho(name string, req resp.Request) {
	setInfo := len(req.Args) == 4 && isWord(req.Args[0], "CLIENT") && isWord(req.Args[1], "SETINFO")
	switch {
	case setInfo && isWord(req.Args[2], "LIB-NAME"):
		c.library.name = string(req.Args[3])
	case setInfo && isWord(req.Args[2], "LIB-VER"):
		c.library.version = string(req.Args[3])
	case name == "hello", name == "auth", name == "reset", name == "client|setname":
	default:
		return
	}
	c.tellUser()
}

// tellUser tells the observer who the client is.
func (c *client) tellUser() {
	if c.seen == nil {
		return
	}
	who := observe.Client{Address: c.address(), Name: c.state.name}
	if len(c.state.login) == 2 || c.account.Load() != nil {
		who.User = c.user()
	}
	who.Library = strings.TrimSpace(c.library.name + " " + c.library.version)
	c.seen.Identify(who)
}
