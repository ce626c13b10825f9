package upstream

import "time"

// timing is what is to be known of one batch of requests: how long the proxy keeps it, and its replies.
type timing struct {
	before time.Duration // until it is sent
	tell   func(time.Duration)
}

// Time tells, when all that is awaited has come and been passed on, how long that took from the last reply on, and before. It is
// for the sender, whose requests are about to be flushed.
func (c *Conn) Time(before time.Duration, tell func(time.Duration)) {
	c.timed.Store(&timing{before, tell})
}

// timedSince begins to time what has come, if that is wanted.
func (c *Conn) timedSince() (came time.Time) {
	if c.timed.Load() != nil {
		came = time.Now()
	}
	return came
}

// timedUntil ends it, if all has come.
func (c *Conn) timedUntil(came time.Time) {
	if came.IsZero() || c.Outstanding() {
		return
	}
	if t := c.timed.Swap(nil); t != nil {
		t.tell(t.before + time.Since(came))
	}
}
