package proxy

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// body is what a client wants done under the guard: a command, or all of a transaction.
type body struct {
	name  string // of the command
	verb  string // … in upper case
	raw   []byte // as it came
	count int    // how many commands
	tx    *transaction
	came  time.Time // when the client had sent it, at the latest; zero: not known
	now   bool      // a try: it waits for no holder, and a nil is no answer (blocking.go)
	once  *spoken   // it is to be carried out once: how its reply is said
	lists bool      // its reply lists keys, and is kept for the reserved ones to be left out
}

// guarded runs a guarded command inside its sequences: read.go and write.go say how.
func (c *client) guarded(p plan, b body, run func(plan, body, time.Time) error) error {
	if err := c.link(); err != nil {
		return &downError{p.sessions(), err}
	}
	if b.tx != nil {
		c.closeTry()
	}
	if err := c.identify(); err != nil {
		return &downError{p.sessions(), err}
	}
	switch refusal, err := c.prove(b); {
	case refusal != nil:
		return c.local(refusal)
	case err != nil && (p.writes || b.tx != nil || errors.Is(err, upstream.ErrLost)): // a read is refused together with its begin
		err := &downError{p.sessions(), err}
		if c.unfenced(p, b, err) {
			return nil
		}
		return err
	}
	if err := c.within(&p); err != nil {
		return &downError{p.sessions(), err}
	}
	start := time.Now()
	c.passing = nil
	c.traces.take()
	b.came = c.in.came()
	for {
		err := c.attempt(p, b, start, run)
		var kin *kinError
		switch {
		case errors.Is(err, errStragglers), errors.Is(err, errAnew):
			continue
		case !errors.As(err, &kin):
			return err
		}
		if err := c.together(kin, start); err != nil {
			return err
		}
	}
}

// attempt runs a command inside its sequences. A *kinError says that they have to be looked for again, errStragglers that a
// read is to be sent again, errAnew that all is to begin again.
func (c *client) attempt(p plan, b body, start time.Time, run func(plan, body, time.Time) error) error {
	defer leave(p.parts)
	if err := c.goIn(p, b, start); err != nil {
		giveUp(p.parts)
		return err
	}
	if !p.writes || p.reads || b.tx != nil {
		c.reading = p.parts
		c.reads()
	}
	c.readBy(p.reached)
	for i := range p.parts {
		p.parts[i].sequence.Serves(b.verb, c.traces.at())
	}
	err := run(p, b, start)
	c.waiter.Rest()
	c.reading = nil
	c.readBy(p.reached)
	switch {
	case errors.Is(err, errStragglers): // what was taken stays
	case errors.Is(err, errAnew): // so does what was given
		stepOut(p.parts, nil)
	case err != nil:
		quits(p, err)
		giveUp(p.parts)
		if c.unfenced(p, b, err) {
			return nil
		}
	}
	return err
}

// goIn waits for the client's turn on all its sequences.
func (c *client) goIn(p plan, b body, start time.Time) error {
	if err := c.whose(p, b, start); err != nil {
		return err
	}
	if err := c.letStragglersWrite(p, b, start); err != nil {
		return err
	}
	return c.turns(p.parts, start)
}

// reads tells other connections of the client that an answer may come at any time.
func (c *client) reads() {
	for i := range c.reading {
		c.reading[i].sequence.Reads()
	}
}

// rests tells them that none comes before a wait is over.
func (c *client) rests() {
	for i := range c.reading {
		c.reading[i].sequence.Rests()
	}
}

// probe is what a block stands on. It leaves nothing behind.
var probe = append(resp.AppendCommandStrings(nil, "WATCH", tokenstore.Prefix), "*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n"...)

// prove makes sure that Redis lets the client WATCH, MULTI and EXEC: without the first a stale write
// would be applied, without the second the command in a block would be carried out by itself. Its user
// may lack the right; refusal is what Redis says to one who has not logged in.
func (c *client) prove(b body) (refusal []byte, err error) {
	switch {
	case c.state.proved:
		return nil, nil
	case b.tx != nil: // it was tried before MULTI
		return nil, errUnproved
	}
	up, err := c.writesOn(b)
	if err != nil {
		return nil, err
	}
	c.unwatched(up)
	x := c.exchange
	x.Reset(3, -1, false, nil)
	if err := c.roundTripOn(up, x, probe); err != nil {
		return nil, err
	}
	for i := range x.Frames {
		switch f := x.Frame(i); {
		case !isError(f):
		case bytes.HasPrefix(f, []byte("-NOAUTH ")):
			return f, nil
		default:
			if i == x.Frames-1 { // a MULTI that can't be ended
				up.Drop([]byte(discard), 1)
			}
			return nil, &tokenstore.StoreError{Reply: string(f[1 : len(f)-2])}
		}
	}
	c.state.proved = true
	return nil, nil
}

// within leaves out the sessions of databases that the server does not have: it refuses what would reach into them. The
// error is its refusal to a user who may not SELECT, as what is about the other sessions needs.
func (c *client) within(p *plan) error {
	for i := len(p.parts) - 1; i >= 0; i-- {
		db := p.parts[i].sequence.Record.DB
		if db == c.state.db {
			continue
		}
		x := c.exchange
		x.Reset(2, -1, false, nil)
		there := resp.AppendCommandStrings(nil, "SELECT", strconv.Itoa(db))
		if err := c.roundTrip(x, append(there, resp.AppendCommandStrings(nil, "SELECT", strconv.Itoa(c.state.db))...)); err != nil {
			return err
		}
		switch f := x.Frame(0); {
		case !isError(f):
		case bytes.HasPrefix(f, []byte("-NOPERM ")):
			return replyError(f)
		default:
			p.parts = slices.Delete(p.parts, i, i+1)
		}
	}
	return nil
}

// stepBack gives back, before a wait, the sessions behind the one waited for that nothing is lost with: no two clients are to
// wait for each other.
func stepBack(parts []part) {
	giveUp(parts)
	for i := range parts {
		parts[i].sequence.Unlinger(context.Background())
	}
}

// giveUp gives back the sessions that a command took before it was refused.
func giveUp(parts []part) {
	for i := range parts {
		q := &parts[i]
		if !q.inside && !q.lookIn() {
			q.taken = false // somebody goes on with it
			continue
		}
		if q.taken {
			q.sequence.Abandon(context.Background())
			q.taken = false
		}
		q.sequence.Drop()
		if !q.inside {
			q.sequence.Leave()
		}
	}
}

// roundTrip sends a block and waits for its replies.
func (c *client) roundTrip(x *upstream.Exchange, block []byte) error {
	return c.roundTripOn(c.up, x, block)
}

func (c *client) roundTripOn(up *upstream.Conn, x *upstream.Exchange, block []byte) error {
	c.timing = time.Time{} // it is not a batch that is passed on
	up.Send(x, block)
	if cap(c.send) > keepLen {
		c.send = nil
	}
	if err := up.Flush(); err != nil {
		up.Break() // so that x is done
		if err := c.await(x); errors.Is(err, errGone) || errors.Is(err, errStopping) {
			return err
		}
		return err
	}
	return c.await(x)
}

// commandHash tells read commands apart.
func commandHash(raw []byte) uint64 { return maphash.Bytes(hashSeed, raw) }

// join notes the client's part in a sequence of an owner with several connections.
func (c *client) join(s *lock.Sequence) {
	if s.Shared() {
		s.Join(c)
		c.joined = true
	}
}

// sessions names a plan's sessions in messages.
func (p *plan) sessions() string {
	names := make([]string, len(p.parts))
	for i, q := range p.parts {
		names[i] = q.sequence.Record.String()
	}
	return strings.Join(names, ", ")
}

func isError(frame []byte) bool { return len(frame) > 0 && frame[0] == '-' }

// replyError is an error reply of the store.
func replyError(frame []byte) error {
	return &tokenstore.StoreError{Reply: string(frame[1 : len(frame)-2])}
}
