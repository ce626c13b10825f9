package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/silence"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A commit whose connection breaks before its answer is there may have been applied or not, and its bytes may still be on
// their way. So the proxy finds out:
//
//	silence   Redis closes its end of the connection: what it has not carried out by then, it never will
//	record    has the commit's token for the last one stored, or one from before it
//	go on     what was applied counts, and the client gets the reply where it is known without Redis (answer.go);
//	          what was not is presented again over another connection, with a check
//
// Where the record does not tell, since somebody else has written or it is gone, the client hears FENCEUNKNOWN.

const (
	// findOutLeast is how long finding out may take though the rule's wait is over.
	findOutLeast = time.Second
	// askAgainFirst and askAgainMost are the pauses before Redis is asked again that can't be.
	askAgainFirst, askAgainMost = 10 * time.Millisecond, 250 * time.Millisecond
)

// errParted ends a client that has heard all that there was to say: its upstream connection broke, and a new one can't be
// as the old one was.
var errParted = errors.New("the upstream connection broke, with state that can't be said again")

// lostWrite is a commit whose connection broke.
type lostWrite struct {
	plan
	body
	up    *upstream.Conn
	sent  time.Time
	start time.Time
	err   error
}

// findOut goes on with a commit that was lost. again says that it was not applied and is to be presented again. Errors:
// *unknownError, *downError (nothing was written), errParted, or why the client is gone.
func (c *client) findOut(l lostWrite) (again bool, err error) {
	x := c.exchange
	var a tokenstore.Aftermath
	switch {
	case x.Streamed: // the EXEC was answered
		a, _ = c.aftermath(l)
		a.Fate = tokenstore.Applied
		return false, c.wasApplied(l, a)
	case !errors.Is(l.err, upstream.ErrLost) || c.out.failed() || l.passes(c) || l.up.Owes():
		return false, c.doubt(l, l.err)
	}
	c.hearQueued(l.body)
	if a, err = c.aftermath(l); err != nil {
		c.srv.log.Warn("commit lost, and its outcome can't be found out", "sessions", l.sessions(), "error", err)
		return false, c.doubt(l, fmt.Errorf("%w: %w", l.err, err))
	}
	c.srv.log.Info("commit lost, outcome found", "sessions", l.sessions(), "client", c.address(), "applied", a.Fate == tokenstore.Applied,
		"known", a.Fate != tokenstore.Untold)
	switch a.Fate {
	case tokenstore.Applied:
		return false, c.wasApplied(l, a)
	case tokenstore.Skipped:
		switch whole := c.replace(l); {
		case !whole:
			return false, &downError{l.sessions(), l.err}
		case l.watches(c): // which is gone
			return false, &downError{l.sessions(), errors.New(l.err.Error())}
		}
		return true, nil
	}
	return false, c.doubt(l, l.err)
}

// passes reports whether some of it was sent without a token.
func (l *lostWrite) passes(c *client) bool {
	return len(c.commit.parts) == 0 || slices.ContainsFunc(c.commit.parts, func(t tokenstore.Commit) bool { return t.Passed })
}

// aftermath silences the connection and asks the record, until wait is over.
func (c *client) aftermath(l lostWrite) (a tokenstore.Aftermath, err error) {
	ctx, cancel := context.WithDeadline(context.Background(), l.until())
	defer cancel()
	q := tokenstore.Question{Parts: c.commit.parts, Floor: c.commit.block.Floor, Probe: l.probe()}
	for pause := askAgainFirst; ; pause = min(2*pause, askAgainMost) {
		if q.Silence, err = c.srv.upstream.Silence(ctx, l.up); err == nil {
			a, err = c.srv.store.Aftermath(ctx, q)
		}
		if err == nil || inVain(err) || ctx.Err() != nil || c.stopping.Load() {
			return a, err
		}
		within(ctx.Done(), pause)
	}
}

// inVain reports whether it is no use to ask again: the server or the proxy's user there can't do it.
func inVain(err error) bool {
	var refusal *tokenstore.StoreError
	return errors.Is(err, silence.ErrImpossible) || errors.As(err, &refusal) && strings.HasPrefix(refusal.Reply, "EXECABORT ")
}

// until is when finding out ends.
func (l *lostWrite) until() time.Time {
	until, least := l.start.Add(l.wait()), time.Now().Add(findOutLeast)
	if until.Before(least) {
		return least
	}
	return until
}

// wait is the longest time that one of a plan's rules has a command wait.
func (p *plan) wait() (longest time.Duration) {
	for i := range p.parts {
		longest = max(longest, p.parts[i].sequence.Rule.Wait)
	}
	return longest
}

// wasApplied takes a commit that was applied into its sequences, and gives the client its reply.
func (c *client) wasApplied(l lostWrite, a tokenstore.Aftermath) error {
	c.settledAs(l, a.Grants)
	x := c.exchange
	switch {
	case x.Heard():
		if c.replace(l) {
			return nil
		}
		return errParted
	case x.Streamed:
		return l.err // the client has got a part of its reply
	}
	whole := c.replace(l)
	if err := c.replicated(l, whole); err != nil {
		return err
	}
	reply := l.answer(a.Probe)
	switch {
	case reply == nil && whole:
		return &unknownError{sessions: l.sessions(), err: fmt.Errorf("the reply to it is lost: %v", l.err), applied: true} //nolint:errorlint // it does not end the client
	case reply == nil:
		return &unknownError{sessions: l.sessions(), err: fmt.Errorf("the reply to it is lost: %w", l.err), applied: true}
	}
	if err := c.local(reply); err != nil {
		return err
	}
	if !whole {
		return errParted
	}
	return nil
}

// settledAs is settled for a commit whose answer is not there, but the grants under which it was applied.
func (c *client) settledAs(l lostWrite, grants []uint64) {
	w := &c.commit
	for i := range l.parts {
		q := &l.parts[i]
		if w.parts[i].Passed {
			c.passed(q, l.body, &w.writes[i])
			continue
		}
		grant := w.parts[i].Grant
		if i < len(grants) && grants[i] > 0 {
			grant = grants[i]
		}
		if q.reading && w.parts[i].Keep { // what it has read is lost: attempt gives it back
			q.sequence.Granted(tokenstore.Begin{Granted: true, Grant: grant, Seq: w.parts[i].Seq, Continuous: w.parts[i].Grant > 0}, l.sent)
			q.taken = true
			continue
		}
		q.sequence.Committed(w.parts[i], grant, w.writes[i], !q.reading, l.sent)
		c.srv.blocked.written(w.writes[i].Keys)
	}
}

// doubt ends the sequences of a commit of which nobody knows whether it was applied.
func (c *client) doubt(l lostWrite, why error) error {
	records := make([]*tokenstore.Record, len(l.parts))
	for i := range l.parts {
		records[i] = l.parts[i].sequence.Record
		l.parts[i].sequence.Doubted(context.Background())
		l.parts[i].taken = false
	}
	if errors.Is(l.err, upstream.ErrLost) && !l.up.Owes() && c.replace(l) {
		why = errors.New(why.Error()) // it does not end the client
	}
	return &unknownError{sessions: l.sessions(), err: why, records: records}
}

// replace has the client go on without the connection that broke, and reports whether it can: a new one is made when it is
// needed, and is as the old one was.
func (c *client) replace(l lostWrite) bool {
	switch {
	case l.up != c.up:
		c.dropAside()
		return true
	case !c.replaceable(l.body):
		return false
	}
	c.leave()
	return true
}

// leave has the client go on without its own connection.
func (c *client) leave() {
	_ = c.up.Close()
	c.up = nil
	c.carried, c.identified, c.blocks = true, false, false
	c.elsewhere.some = true
	c.watched.gone()
}

// replaceable is canBeCarried for a client in the middle of a guarded command. A transaction is the proxy's until it is sent, and over then.
func (c *client) replaceable(b body) bool {
	s := &c.state
	return !c.leaving.Load() && !c.hears() && !s.alone && !s.known && !c.srv.kills.lately() && (b.tx != nil || !s.multi && !s.watching)
}

// anew returns another connection for a write, in the place of one that broke.
func (c *client) anew(b body) (*upstream.Conn, error) {
	if err := c.link(); err != nil {
		return nil, err
	}
	if err := c.identify(); err != nil {
		return nil, err
	}
	return c.writesOn(b)
}

// hearQueued makes up for what the client has not heard of its transaction's commands: they were queued, or will be.
func (c *client) hearQueued(b body) {
	if b.tx == nil {
		return
	}
	from, to := c.exchange.Unheard()
	for i := from; i < to; i++ {
		reply := queuedReply
		if i < b.tx.first {
			reply = okReply // to MULTI
		}
		_, _ = c.out.Write([]byte(reply))
	}
}
