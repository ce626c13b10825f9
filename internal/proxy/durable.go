package proxy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A write under a rule with durability is answered when enough replicas have it:
//
//	the commit's block | WAIT replicas timeout
//
// go in one write over one connection, and WAIT counts the replicas that have what was written over it. Until it is answered, the
// client's reply is kept, up to limits.output_buffer. What too few replicas have is carried out all the same, its token is stored, and
// the client hears FENCEUNKNOWN.

// notAsked says that it is not known how many replicas have a write.
const notAsked = -1

// durability is the most that one of a plan's rules asks for.
func (p *plan) durability() (most rule.Durability) {
	for i := range p.parts {
		r := p.parts[i].sequence.Rule
		if !r.Enforces() || r.Durability.Replicas == 0 {
			continue
		}
		most.Replicas = max(most.Replicas, r.Durability.Replicas)
		most.Timeout = max(most.Timeout, r.Durability.Timeout)
	}
	return most
}

// appendWait asks for it.
func appendWait(dst []byte, d rule.Durability) []byte {
	return resp.AppendCommandStrings(dst, "WAIT", strconv.Itoa(d.Replicas), strconv.FormatInt(d.Timeout.Milliseconds(), 10))
}

// roundTripDurably sends a block and WAIT, and waits for the replies of both. The error is the block's.
func (c *client) roundTripDurably(up *upstream.Conn, x *upstream.Exchange, block []byte, d rule.Durability) error {
	c.replicas = notAsked
	wait := upstream.NewExchange()
	wait.Reset(1, -1, false, nil)
	up.Send(x, block)
	if err := c.roundTripOn(up, wait, appendWait(nil, d)); err != nil && wait.Err == nil {
		return err // the client is gone
	}
	<-x.Done
	if wait.Err == nil {
		c.replicas = count(wait.Frame(0))
	}
	return x.Err
}

// count is what WAIT has answered.
func count(frame []byte) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(string(frame), ":"), "\r\n"))
	if err != nil {
		return notAsked
	}
	return n
}

// answerApplied gives the client the reply to a commit that was applied.
func (c *client) answerApplied(l lostWrite) error {
	x := c.exchange
	first := x.Frame(c.commit.block.Exec)
	if l.durability().Replicas == 0 {
		return c.answeredBy(l.body, first)
	}
	if refused := l.tx == nil && len(x.Failed) > 0 && x.Failed[0] == 0; !refused {
		whole := c.replicas != notAsked || c.replace(l)
		if err := c.replicated(l, whole); err != nil {
			return err
		}
	}
	if l.lists || l.once != nil || l.now {
		return c.answeredBy(l.body, first)
	}
	return c.local(c.kept(l.body))
}

// replicated reports with an error that too few replicas have a write that was applied. whole says that the client can have
// another connection, if the one that it was sent over broke.
func (c *client) replicated(l lostWrite, whole bool) error {
	d := l.durability()
	if d.Replicas == 0 {
		return nil
	}
	if c.replicas == notAsked && whole {
		c.askReplicas(l, d)
	}
	switch {
	case c.replicas >= d.Replicas:
		return nil
	case c.replicas == notAsked:
		return &unknownError{sessions: l.sessions(), err: fmt.Errorf("nobody knows whether replicas have it (durability.replicas: %d)", d.Replicas), applied: true}
	}
	c.srv.log.Warn("too few replicas have a write", "sessions", l.sessions(), "replicas", c.replicas, "durability", d.String())
	return &unknownError{sessions: l.sessions(), applied: true, err: fmt.Errorf("after %s only %d of %d replicas have it (durability.replicas): it is lost if Redis fails over now",
		rule.Text(d.Timeout), c.replicas, d.Replicas)}
}

// askReplicas asks over another connection. There WAIT counts the replicas that have all that Redis had written before that connection's
// own last write, so one is made. That may be another Redis by now, to which the write never came: only one whose record has the write's token stored
// can tell.
func (c *client) askReplicas(l lostWrite, d rule.Durability) {
	up, err := c.anew(l.body)
	if err != nil {
		return
	}
	part := &c.commit.parts[0] // the others are beside it
	x := upstream.NewExchange()
	x.Reset(3, -1, false, nil)
	ask := c.srv.store.AppendVerify(nil, part.Record)
	ask = tokenstore.AppendOwnWrite(ask, part.Record.Area) // in a cluster it also leads to the node that WAIT is for
	if err := c.roundTripOn(up, x, appendWait(ask, d)); err != nil {
		return
	}
	written := len(x.Frame(1)) > 0 && x.Frame(1)[0] == '+'
	if stored, err := c.srv.store.ParseVerify(x.Frame(0)); err == nil && written && part.IsStored(stored, c.commit.block.Floor) {
		c.replicas = count(x.Frame(2))
	}
}

// kept is the client's reply, which was not streamed.
func (c *client) kept(b body) []byte {
	at := c.commit.block.Exec
	if b.tx == nil {
		return c.exchange.Frame(at)
	}
	all := resp.AppendArray(nil, b.count)
	for i := range b.count {
		all = append(all, c.exchange.Frame(at+i)...)
	}
	return all
}
