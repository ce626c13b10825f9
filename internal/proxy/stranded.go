package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A client whose upstream connection breaks is closed, as Redis would close it. Many client
// libraries then connect again without a word and send the next command: the write of a session
// that was read before would come as a blind one. So a client that has something read and not yet
// written is kept until its next command, which is refused, and closed then.

// strand reports whether the client is to be kept: it waits for nothing, and has something read.
func (c *client) strand() bool {
	if c.leaving.Load() || c.up.Owes() || c.hears() || !c.owner.Unwritten() {
		return false
	}
	c.owner.BreakOff(lock.ReasonUpstream)
	c.srv.log.Warn("upstream connection broke between read and write; the client's next command is refused", "client", c.address(), "name", c.state.name)
	return true
}

// refuseStranded answers a stranded client's next command and ends the client.
func (c *client) refuseStranded(p plan) error {
	err := upstream.ErrLost
	for _, q := range p.parts {
		if q.sequence.State() != lock.Free {
			err = &lock.FencedError{Record: q.sequence.Record, Reason: lock.ReasonUpstream}
			break
		}
	}
	_ = c.refuse(err)
	_ = c.out.Flush()
	return err
}
