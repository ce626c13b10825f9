package proxy

import (
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/metrics"
)

// What is counted of commands that pass unguarded costs next to nothing: a number that the client's goroutine alone changes, and
// an addition where nobody else adds, once for all commands that came at once (a batch). How long the proxy keeps them is looked at for
// one batch in some dozens:
//
//	read from the client ── before ──▶ sent to Redis ─ ─ ─ ▶ its last reply has come ── behind ──▶ written to the client
//
// What Redis and the wire take in between does not count; waiting for the connection that clients share does. Batches are left out that came
// before the one before them was answered, and those with commands for which the proxy asks Redis something by itself.

// timedEvery is of how many batches of a client one is timed.
const timedEvery = 64

// tallies count batches, each client in one of several places.
type tallies struct {
	places [16]tally
	turn   atomic.Uint32
}

// tally is one of these places.
type tally struct {
	sizes    [len(metrics.Batches{}.Sizes)]atomic.Uint64
	commands atomic.Uint64
	_        [48]byte
}

func (all *tallies) next() *tally { return &all.places[all.turn.Add(1)%uint32(len(all.places))] }

// sum returns what was counted so far.
func (all *tallies) sum() (b metrics.Batches) {
	for i := range all.places {
		for size := range b.Sizes {
			b.Sizes[size] += all.places[i].sizes[size].Load()
		}
		b.Commands += all.places[i].commands.Load()
	}
	return b
}

// Traffic returns what was counted of all clients so far: their batches of commands, and their bytes.
func (s *Server) Traffic() (batches metrics.Batches, received, sent int64) {
	received, sent = s.bytes.Bytes()
	return s.tallies.sum(), received, sent
}

// batch counts the commands that came at once.
func (c *client) batch() {
	if n := c.came; n > 0 {
		c.came = 0
		c.tally.sizes[metrics.BatchSize(n)].Add(1)
		c.tally.commands.Add(uint64(n))
	}
}

// sample decides, when a batch has come, whether it is timed.
func (c *client) sample() {
	if c.untimed--; c.untimed >= 0 {
		return
	}
	c.untimed = timedEvery
	if c.timing = (time.Time{}); c.up == nil || !c.up.Outstanding() {
		c.timing = time.Now()
	}
}

// time has the replies to a batch timed that is about to be sent over the client's own connection.
func (c *client) time() {
	if !c.timing.IsZero() && c.up.Outstanding() {
		c.up.Time(time.Since(c.timing), c.srv.metrics.LatencyAdded)
		c.timing = time.Time{}
	}
}

// timed ends the timing of a batch that was answered over a shared connection.
func (c *client) timed() {
	if c.timing.IsZero() {
		return
	}
	if x := c.call; x.Timed && !x.Came.IsZero() {
		c.srv.metrics.LatencyAdded(x.Sent.Sub(c.timing) + time.Since(x.Came))
	}
	c.call.Timed, c.call.Sent, c.call.Came, c.timing = false, time.Time{}, time.Time{}, time.Time{}
}
