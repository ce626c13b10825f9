package proxy

import (
	"math"
	"time"
)

// A client may send commands faster than Redis answers them. What it sends goes on to Redis, where
// it waits, say behind a command that blocks; so beyond limits.pipeline no more is read from the client
// until half of it is answered.
//
// A client that does not take its replies is not held up by this: it may well be one that sends all it
// has to say before it listens, and it would never begin. Redis keeps its replies, as it does without
// the proxy; for what the proxy keeps there is limits.output_buffer.

// pace is called before each command. The error says that the client is to go.
func (c *client) pace() error {
	most := c.srv.limits.Load().Pipeline
	if c.ease > 0 {
		c.ease--
		return nil
	}
	if most <= 0 || c.up == nil {
		return nil
	}
	if open := c.up.Unanswered(); open < most {
		c.ease = most - open - 1
		return nil
	}
	if c.out.behind() {
		c.ease = most / 2
		return nil
	}
	return c.holdUp(most / 2)
}

// holdUp reads nothing from the client until no more than most of its commands are unanswered.
func (c *client) holdUp(most int) error {
	c.srv.metrics.PipelineStopped()
	if err := c.flush(); err != nil {
		return err
	}
	look := time.NewTicker(probeEvery)
	defer look.Stop()
	for room := c.up.Room(most); ; {
		select {
		case <-room:
			return nil
		case <-look.C:
		}
		switch {
		case c.stopping.Load():
			return c.gone()
		case c.out.behind():
			c.ease = most
			return nil
		case c.nc.HungUp():
			c.ease = math.MaxInt // it has sent its last: what is left to read is bounded by the socket
			return nil
		}
	}
}
