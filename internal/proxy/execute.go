package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// execAborted is what Redis answers to EXEC when a command was not queued.
const execAborted = "EXECABORT Transaction discarded because of previous errors."

// exec ends a transaction by EXEC.
func (c *client) exec(req resp.Request) error {
	tx := &c.tx
	err := c.replan()
	if err == nil && !tx.guarded() && !c.state.refused && !tx.failed {
		c.readBy(tx.plan.reached)
		if err := c.passOn(); err != nil {
			return err
		}
		return c.passExec(req)
	}
	if c.state.refused {
		if begun, err := c.tried(); !begun || err != nil {
			return c.alone(req, err)
		}
	}
	covered := c.covered()
	if err == nil {
		err = c.execute()
	}
	if err != nil && !fatal(err) {
		begun, lost := c.tried() // what was not answered comes first
		if !begun || lost != nil {
			return c.alone(req, lost)
		}
	}
	c.closeTry()
	if c.state.watching && !tx.spent {
		c.up.Drop([]byte(unwatch), 1)
	}
	c.state.endMulti()
	if cap(c.send) > 4*sharedMost {
		c.send = nil
	}
	if says(covered, err) {
		c.tellNil(err)
		return c.local(resp.AppendNullArray(nil, c.state.proto == 3))
	}
	return c.answerError(err)
}

// execute carries a guarded transaction out, unless one of its commands was refused.
func (c *client) execute() error {
	tx := &c.tx
	failed, err := c.notAllQueued()
	if err == nil && failed {
		err = c.try() // what was not answered comes first
	}
	switch {
	case err != nil:
		return err
	case failed || c.state.refused:
		return c.abort()
	}
	run := c.read
	if tx.plan.writes {
		run = c.write
	}
	return c.guarded(tx.plan, body{name: "exec", verb: "EXEC", raw: tx.raw, count: tx.count, tx: tx, lists: len(c.state.listings) > 0}, run)
}

// unfit is a command that Redis does not queue, whatever its state.
const unfit = "*1\r\n$3\r\nGET\r\n"

// abort answers EXEC when one of the commands was refused: in Redis's words where it is asked to queue, and a
// command that it surely refuses keeps it from carrying out the rest.
func (c *client) abort() error {
	if !c.tx.open {
		return c.local(resp.AppendError(nil, execAborted))
	}
	up := c.up
	if c.state.watching {
		var err error
		if up, err = c.beside(); err != nil {
			return err
		}
	}
	c.exchange.Reset(2, -1, false, nil)
	if err := c.roundTripOn(up, c.exchange, []byte(unfit+exec)); err != nil {
		return err
	}
	c.tx.open = false
	return c.local(c.exchange.Frame(1))
}

// changed is what EXEC answers when Redis refuses in the block what it had queued for the client before; nil if it
// does not. first is the index of the first command's reply.
func (b body) changed(x *upstream.Exchange, first int) []byte {
	for i := first; b.tx != nil && i < x.From; i++ {
		if f := x.Frame(i); isError(f) {
			return resp.AppendError(nil, "EXECABORT Transaction discarded because of: "+string(f[1:len(f)-2]))
		}
	}
	return nil
}

// notAllQueued reports whether Redis has refused to queue a command.
func (c *client) notAllQueued() (bool, error) {
	tx := &c.tx
	if !tx.open || c.state.watching {
		return tx.failed, nil
	}
	if c.up.Outstanding() {
		if _, err := c.sync([]byte(discard), false); err != nil {
			return false, err
		}
		tx.open = false
	}
	return tx.failed || c.up.Errors() != tx.errors, nil
}
