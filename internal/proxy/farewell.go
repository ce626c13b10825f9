package proxy

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A client may close the half of its connection that it speaks over and listen on the other, as
// "printf … | nc -N" does. Redis carries out what it has read before it reads the end, and closes then;
// who waits in a command that blocks is let go at once. Nobody can tell such a client from one that has left.

// lastWords is how long a client that says no more is answered. It is for a Redis that does not answer.
const lastWords = 30 * time.Second

// hearOut lets the replies to all that a client has sent reach it. Redis is told the end as the client has
// told it, and so makes the end itself.
func (c *client) hearOut() {
	if c.up == nil || !c.up.Outstanding() {
		return
	}
	c.leaving.Store(true)
	if c.up.CloseWrite() == nil {
		c.lastly(c.received)
	}
}

// awaitLast waits for an exchange whose client says no more.
func (c *client) awaitLast(x *upstream.Exchange) error {
	if c.lastly(x.Done) {
		return x.Err
	}
	return c.gone()
}

// lastly waits for done, but not for ever, nor when the proxy stops.
func (c *client) lastly(done <-chan struct{}) bool {
	look := time.NewTicker(probeEvery)
	defer look.Stop()
	for end := time.Now().Add(lastWords); time.Now().Before(end) && !c.stopping.Load(); {
		select {
		case <-done:
			return true
		case <-look.C:
		}
	}
	return false
}
