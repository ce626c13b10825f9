package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Whenever a client waits for answers before it has sent EXEC, Redis is asked to queue what is held of its transaction
// (try), and the client hears in Redis's own words what is queued and what is refused. That
// happens on the client's own connection, where a DISCARD takes it back before the block; but on a
// second one (aside.go) when the client has keys under WATCH, which a DISCARD would drop.

// try asks Redis to queue what is held and not yet answered.
func (c *client) try() error {
	tx := &c.tx
	switch {
	case !c.holding() || tx.begun && tx.heard == tx.count:
		return nil
	case c.state.watching:
		return c.tryAside()
	}
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	if !tx.open {
		c.unwatch()
		c.rearm()
		x, err := c.sync(tx.multi, !tx.begun)
		switch {
		case err != nil:
			_ = c.refuse(err)
			return err
		case !tx.begun && x.StreamType != '+':
			return c.notBegun()
		}
		tx.open, tx.begun = true, true
		tx.errors = c.up.Errors()
	}
	c.up.Pass(tx.raw[tx.tried:], tx.count-tx.heard)
	tx.heard, tx.tried = tx.count, len(tx.raw)
	return nil
}

// tried is try, and reports whether the transaction still stands: Redis may have refused MULTI.
func (c *client) tried() (begun bool, err error) {
	err = c.try()
	return c.state.multi, err
}

// alone carries out a command that turns out not to be in a transaction.
func (c *client) alone(req resp.Request, err error) error {
	if err != nil {
		return err
	}
	return c.handle(req)
}

// tryAside is try for a client that has keys under WATCH.
func (c *client) tryAside() error {
	tx := &c.tx
	up, err := c.beside()
	if err != nil {
		return c.broken(err)
	}
	n := tx.count - tx.heard
	c.send = c.send[:0]
	if !tx.open {
		c.send = append(c.send, tx.multi...)
		n++
	}
	c.send = append(c.send, tx.raw[tx.tried:]...)
	x := c.exchange
	x.Reset(n, -1, false, nil)
	if err := c.roundTripOn(up, x, c.send); err != nil {
		_ = c.refuse(err)
		return err
	}
	for i := range n {
		if i > 0 || tx.open || !tx.begun {
			if err := c.local(x.Frame(i)); err != nil {
				return err
			}
		}
		if !isError(x.Frame(i)) {
			continue
		}
		if i == 0 && !tx.open && !tx.begun {
			c.dropAside()
			return c.notBegun()
		}
		tx.failed = true
	}
	tx.open, tx.begun, tx.heard, tx.tried = true, true, tx.count, len(tx.raw)
	return nil
}

// heardAlone passes a command that Redis answers at once, on the connection for tries.
func (c *client) heardAlone(raw []byte) error {
	if !c.state.watching {
		_, err := c.sync(raw, true)
		return err
	}
	up, err := c.beside()
	if err != nil {
		return c.broken(err)
	}
	c.exchange.Reset(1, -1, false, nil)
	if err := c.roundTripOn(up, c.exchange, raw); err != nil {
		return err
	}
	return c.local(c.exchange.Frame(0))
}

// notBegun goes on after Redis has refused MULTI: what was held behind it are commands by themselves.
func (c *client) notBegun() error {
	raw, watching := c.tx.raw, c.state.watching
	c.tx = transaction{}
	c.state.endMulti()
	c.state.watching = watching
	parser := resp.NewRequestParser(resp.Limits{})
	for len(raw) > 0 {
		req, n, err := parser.Next(raw)
		if err != nil {
			return err
		}
		raw = raw[n:]
		if err := c.handle(req); err != nil {
			return err
		}
	}
	return nil
}

// closeTry takes back what Redis has queued for a try.
func (c *client) closeTry() {
	if !c.tx.open {
		return
	}
	c.tx.open = false
	if !c.state.watching {
		c.up.Drop([]byte(discard), 1)
		return
	}
	if up, err := c.beside(); err == nil {
		up.Drop([]byte(discard), 1)
		_ = up.Flush()
	}
}
