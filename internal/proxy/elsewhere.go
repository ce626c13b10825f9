package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A client's WAIT is about what the client has written; to Redis, it is about what its connection has. Where a client has written over
// another one than its own, its own makes a write ahead of the WAIT: Redis counts the replicas that have that, and so all before it.
// Any command would do before Redis 7.2; since then only a write does, and without one WAIT does not wait.
//
// Whose user may not write what is the fence's hears that no replica has it, and keeps to a connection of its own from then on.

// elsewhere is whether a client has written over another connection than its own: a shared one, one aside, or the one before.
type elsewhere struct {
	some bool
	slot tokenstore.Slot // of the last write, in a cluster; "" if it is not known
	mute bool            // the user may not make a write that shows it
}

// wroteElsewhere notes a write over another connection than the client's own.
func (c *client) wroteElsewhere(cmd *command.Command, args [][]byte) {
	c.elsewhere.some = true
	c.wroteIn(cmd, args)
}

// wroteHere notes one over its own.
func (c *client) wroteHere(cmd *command.Command, args [][]byte) {
	switch {
	case !c.elsewhere.some || cmd == nil || !cmd.Is(command.FlagWrite) || c.state.multi:
	case c.elsewhere.mute:
		c.elsewhere = elsewhere{}
	default:
		c.wroteIn(cmd, args)
	}
}

// wroteIn notes in which slot of a cluster a write was.
func (c *client) wroteIn(cmd *command.Command, args [][]byte) {
	if !c.srv.clustered {
		return
	}
	c.keys, _ = cmd.Keys(c.keys[:0], args)
	if c.elsewhere.slot = ""; len(c.keys) > 0 {
		c.elsewhere.slot = tokenstore.SlotOf(args[c.keys[0].Index])
	}
}

// wait passes a WAIT or WAITAOF.
func (c *client) wait(req resp.Request) error {
	if !c.elsewhere.some || c.state.multi {
		c.up.Pass(req.Raw, 1)
		return nil
	}
	shown, err := c.showWrite()
	if err != nil {
		return c.broken(err)
	}
	if shown {
		c.elsewhere = elsewhere{}
		c.up.Pass(req.Raw, 1)
		return nil
	}
	c.elsewhere.mute, c.state.alone = true, true
	x, err := c.sync(req.Raw, false)
	if err != nil {
		return c.broken(err)
	}
	return c.local(none(x.Frame(0)))
}

// showWrite makes a write over the client's own connection. It reports false if it can't be made.
func (c *client) showWrite() (bool, error) {
	if c.srv.clustered && c.elsewhere.slot == "" {
		return false, nil
	}
	at := tokenstore.Area{DB: c.state.db, Slot: c.elsewhere.slot}
	x, err := c.sync(tokenstore.AppendOwnWrite(nil, at), false)
	if err != nil {
		return false, err
	}
	return x.Frame(0)[0] == '+', nil
}

// none is an answer to WAIT or WAITAOF, with no replica in it, unless it is an error.
func none(frame []byte) []byte {
	switch frame[0] {
	case ':':
		return []byte(":0\r\n")
	case '*':
		return []byte("*2\r\n:0\r\n:0\r\n")
	}
	return frame
}
