package proxy

import (
	"bytes"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// state is what a client's upstream connection is in, as far as the guard must know.
type state struct {
	db       int
	name     string // CLIENT SETNAME
	multi    bool   // between MULTI and EXEC or DISCARD
	refused  bool   // a command of the transaction was refused: its EXEC must fail
	selected int    // the database of a SELECT queued in the transaction, or -1
	watching bool   // the client has keys under WATCH
	proto    int    // 2 or 3
	alone    bool   // keeps to an upstream connection of its own
	raw      bool   // replies go downstream unframed: nothing can be guarded any more
}

func newState(db int) state { return state{db: db, proto: 2, selected: -1} }

// endMulti is EXEC or DISCARD.
func (s *state) endMulti() {
	s.multi, s.refused, s.watching, s.selected = false, false, false, -1
}

// exec ends a transaction. One in which a command was refused must not be carried out.
func (c *client) exec(req resp.Request) error {
	refused, selected := c.state.refused && c.state.multi, c.state.selected
	c.state.endMulti()
	switch {
	case refused:
		if _, err := c.sync([]byte("*1\r\n$7\r\nDISCARD\r\n"), false); err != nil {
			return err
		}
		return c.local(resp.AppendError(nil, "EXECABORT Transaction discarded because of previous errors."))
	case selected >= 0:
		x, err := c.sync(req.Raw, false)
		if err != nil {
			return err
		}
		if _, null, _, ok := resp.ArrayHeader(x.Frame(0)); ok && !null {
			c.state.db = selected
		}
		return c.local(x.Frame(0))
	}
	c.up.Pass(req.Raw, 1)
	return nil
}

// selectDB notes which database the connection is in, since locks are per database.
func (c *client) selectDB(req resp.Request) error {
	db := -1
	if len(req.Args) == 2 {
		if n, err := strconv.Atoi(string(req.Args[1])); err == nil {
			db = n
		}
	}
	if c.state.raw {
		c.up.Pass(req.Raw, 0)
		return nil
	}
	x, err := c.sync(req.Raw, true)
	if err != nil || x.StreamType != '+' {
		return err
	}
	if c.state.multi {
		c.state.selected = db
	} else {
		c.state.db = db
	}
	return nil
}

// renamed notes what HELLO, RESET and CLIENT SETNAME change.
func (c *client) renamed(name string, req resp.Request) error {
	if c.state.raw || c.state.multi {
		c.up.Pass(req.Raw, 1)
		return nil
	}
	x, err := c.sync(req.Raw, true)
	if err != nil || x.StreamType == '-' {
		return err
	}
	switch name {
	case "reset":
		c.state = newState(0)
		c.state.alone = true // RESET has logged it out
		c.watched.gone()
	case "client|setname":
		c.state.name = string(req.Args[2])
	case "hello":
		if len(req.Args) > 1 {
			c.state.proto, _ = strconv.Atoi(string(req.Args[1]))
		}
		for i, a := range req.Args {
			c.state.alone = c.state.alone || bytes.EqualFold(a, []byte("AUTH"))
			if i+1 < len(req.Args) && bytes.EqualFold(a, []byte("SETNAME")) {
				c.state.name = string(req.Args[i+1])
			}
		}
	}
	c.owner.Identify(c.identity())
	return nil
}
