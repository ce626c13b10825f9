package proxy

import (
	"errors"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A command that is not in the upstream's table, and names a guarded key, is not carried out: the table may be behind, a
// module loaded since. But if Redis does not know it either, it shall say so itself.

// deny answers a command that may not be carried out. The transaction that it is in fails.
func (c *client) deny(req resp.Request, err error) error {
	c.state.refused = c.state.multi
	var denied *deniedError
	if errors.As(err, &denied) && denied.unknown {
		switch words, lost := c.unknownToRedis(req); {
		case lost != nil:
			return c.broken(lost)
		case words != nil:
			return c.local(words)
		}
	}
	return c.refuse(err)
}

// unknownToRedis returns what Redis says of a command that it refuses, nil if it does not. It is asked to queue it, which
// carries nothing out.
func (c *client) unknownToRedis(req resp.Request) ([]byte, error) {
	up, err := c.queues()
	if up == nil || err != nil {
		return nil, err
	}
	ask, x := req.Raw, c.exchange
	if c.state.multi {
		x.Reset(1, -1, false, nil)
	} else {
		ask = append(append([]byte(multi), ask...), discard...)
		c.unwatched(up)
		x.Reset(3, -1, false, nil)
	}
	if err := c.roundTripOn(up, x, ask); err != nil {
		return nil, err
	}
	if words := x.Frame(x.Frames / 2); isError(words) {
		return words, nil
	}
	return nil, nil
}

// queues returns the connection over which Redis may be asked to queue something: where MULTI stands, if it does. nil: it
// can't be asked.
func (c *client) queues() (*upstream.Conn, error) {
	if err := c.link(); err != nil {
		return nil, err
	}
	switch {
	case c.holding() && !c.tx.open:
		return nil, nil
	case c.holding() && c.state.watching:
		return c.beside()
	case c.state.multi:
		return c.up, nil
	}
	if refusal, err := c.prove(body{}); refusal != nil || err != nil {
		return nil, nil //nolint:nilerr // so the command stays refused
	}
	return c.writesOn(body{})
}
