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

// part ends the wait for an exchange whose client is to go; ended says that the client says no more. The
// client gets its reply, or what the error says, but never both.
func (c *client) part(x *upstream.Exchange, ended bool) error {
	in := false
	switch {
	case c.blocks, c.blocking:
	case c.stopping.Load(), c.lost.Load():
		in = within(x.Done, lastReplies)
	case ended:
		in = c.lastly(x.Done)
	}
	if !in && x.Withdraw() {
		return c.gone()
	}
	if !in && !within(x.Done, lastReplies) { // a part of the reply has been sent
		c.cut()
		<-x.Done
	}
	c.blocking = false
	return x.Err
}

// cut breaks the client's upstream connections.
func (c *client) cut() {
	_ = c.up.Close()
	if c.aside != nil {
		_ = c.aside.up.Close()
	}
}

// lastly waits for done, but not for ever, nor when the proxy stops.
func (c *client) lastly(done <-chan struct{}) bool {
	for end := time.Now().Add(lastWords); time.Now().Before(end) && !c.stopping.Load(); {
		if within(done, probeEvery) {
			return true
		}
	}
	return false
}

// within waits for done, for d at most.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
