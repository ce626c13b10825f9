package proxy

import (
	"context"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Since 7.2 Redis says nothing to a login that fails while replies to what came before are still to be written, nor in a
// transaction; whoever counts replies takes the next one for it. So a login waits for those replies, and one in a transaction
// is tried on a connection of its own before it is queued.

// credentials are those of a call that logs in, nil for any other.
func credentials(name string, args [][]byte) upstream.Login {
	switch name {
	case "auth":
		return login(args[1:])
	case "hello":
		for i := 2; i+2 < len(args); i++ {
			if isWord(args[i], "AUTH") {
				return login(args[i+1 : i+3])
			}
		}
	}
	return nil
}

// speakUp makes sure that Redis answers a call, whatever it is. refused says that the client has been told
// that it is not sent.
func (c *client) speakUp(name string, args [][]byte) (refused bool, err error) {
	as := credentials(name, args)
	if as == nil {
		return false, nil
	}
	if !c.state.multi {
		return false, c.catchUp()
	}
	if !c.srv.commands.since72() {
		return false, nil
	}
	nc, err := c.srv.upstream.DialAs(context.Background(), as, 0, 2)
	if err == nil {
		return false, nc.Close()
	}
	c.state.refused = true
	return true, c.refuse(&deniedError{reason: name + " can't be in a transaction unless it succeeds, since Redis would not answer it: " + err.Error()})
}

// catchUp waits until all that was sent on the client's connection has been answered. The error ends the client.
func (c *client) catchUp() error {
	if c.up.Unanswered() == 0 {
		return nil
	}
	if err := c.up.Flush(); err != nil {
		return c.broken(err)
	}
	answered := c.up.Room(0)
	w := c.watch()
	defer w.stop()
	select {
	case <-answered:
		return nil
	case <-w.gone:
	}
	if w.ended && !c.blocking && c.lastly(answered) {
		return nil
	}
	return c.gone()
}
