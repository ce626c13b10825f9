package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// commit is what a write presents to the store, and what the store says.
type commit struct {
	parts  []tokenstore.Commit // one a session
	writes []lock.Write
	blind  []bool // the write may go on blindly if its grant is superseded
	checks []tokenstore.Check
	block  tokenstore.Block
}

// presentMost bounds how often a write is presented. More than a few times takes a record that is
// changed by something else all the time.
const presentMost = 100

// errUngranted says that a write came to the store without a grant: a mistake of this program.
var errUngranted = errors.New("the write was sent without a grant")

// errRestless says that a record changed between each check and its EXEC.
var errRestless = errors.New("the fence record does not keep still: is something else writing to it?")

// write is a guarded write: check, the client's command and settle, in one round trip. Nothing is
// applied unless every session's check is good.
func (c *client) write(p plan, b body, start time.Time) error {
	up, err := c.writesOn(b)
	if err != nil {
		return &downError{p.sessions(), err}
	}
	for range presentMost {
		sent := time.Now()
		if err := c.present(p, b, sent, start); err != nil {
			return err
		}
		if err := c.sendWrite(p, b, up); err != nil {
			again, err := c.findOut(lostWrite{p, b, up, sent, start, err})
			if !again {
				return err
			}
			if up, err = c.anew(b); err != nil {
				return &downError{p.sessions(), err}
			}
			continue
		}
		if err := c.escaped(); err != nil {
			c.srv.log.Error("the store applied a write without its fence", "sessions", p.sessions(), "error", err)
			return &unknownError{sessions: p.sessions(), err: err}
		}
		if c.exchange.Opened && c.decideWrite(0) {
			c.settled(p, b, sent)
			return c.answerApplied(lostWrite{p, b, up, sent, start, nil})
		}
		if refusal := c.notQueuedBy(b); refusal != nil {
			giveUp(p.parts)
			return c.local(refusal) // Redis refused the command itself, in its own words
		}
		if err := c.judge(p); err != nil {
			return err
		}
		if b.watches(c) {
			return c.nilOrRefused(p)
		}
		if err := c.refused(p, b, start); err != nil {
			return err
		}
		// Nothing was applied, and the reason is gone: the session was taken, the write goes on
		// blindly, or another grant came between a good check and the EXEC. The next check tells.
	}
	return &downError{p.sessions(), errRestless}
}

// watches reports whether a body is carried out under a WATCH of the client's own.
func (b body) watches(c *client) bool { return b.tx != nil && c.state.watching }

// writesOn returns the connection for a write: a command that the client sends while it has keys
// under WATCH must not take them away.
func (c *client) writesOn(b body) (*upstream.Conn, error) {
	if b.tx != nil || !c.state.watching {
		return c.up, nil
	}
	if err := c.answeredAll(); err != nil {
		return nil, err
	}
	return c.beside()
}

// present asks the sequences which tokens to present. A blind write under the client's own WATCH
// takes its session first: a check that found it held would use the WATCH up.
func (c *client) present(p plan, b body, sent, start time.Time) error {
	w := &c.commit
	w.parts, w.writes, w.blind = w.parts[:0], w.writes[:0], w.blind[:0]
	for i := range p.parts {
		q := &p.parts[i]
		write := lock.Write{Keys: q.keys, Unnamed: q.unnamed, Atomic: p.atomic || q.atomic, Came: b.came}
		ask := c.presentOwn
		if q.sequence.Elsewhere() {
			ask = c.presentGiven
		}
		token, passed, err := ask(p, i, b, write, sent, start)
		if err == nil {
			err = c.fit(&p)
		}
		if err != nil {
			return err
		}
		seq := token.Seq
		if token.Grant == 0 {
			seq = tokenstore.Mark()
		}
		w.writes = append(w.writes, write)
		w.blind = append(w.blind, token.OrBlind || q.taken)
		w.parts = append(w.parts, tokenstore.Commit{
			Record: q.sequence.Record, Claim: q.sequence.Claim, Grant: token.Grant, Read: token.Read, Seq: seq, Apart: q.sequence.IsApart(),
			Keep:   !passed && (q.reading && q.sequence.Locks() || !q.taken && q.sequence.Keeps()),
			Passed: passed,
		})
	}
	return nil
}

// presentOwn is what the i-th session of a write presents where the store itself grants.
func (c *client) presentOwn(p plan, i int, b body, write lock.Write, sent, start time.Time) (token lock.Token, passed bool, err error) {
	q := &p.parts[i]
	token, err = c.beforeWrite(q, &write, sent)
	if err != nil || !b.watches(c) || q.sequence.State() == lock.Held || token.Grant > 0 && !token.OrBlind {
		return token, false, err
	}
	if err := c.takePart(p.parts, i, start); err != nil {
		return token, false, err
	}
	token, err = c.beforeWrite(q, &write, sent)
	return token, false, err
}

// sendWrite sends the block of a write and waits for its replies. Where the fence stands on the
// connection, the block needs no check.
func (c *client) sendWrite(p plan, b body, up *upstream.Conn) error {
	w, x := &c.commit, c.exchange
	stands := up == c.up && len(p.parts) == 1 && c.watched.stands(p.parts[0].sequence, w.parts[0].Grant) || len(p.parts) == 0
	var caching []byte
	if up == c.up {
		if c.srv.clustered && !stands {
			c.unwatch() // it may stand at another node
		}
		caching = c.armed
	}
	c.send, w.block = c.srv.store.AppendCommit(c.send[:0], c.state.db, w.parts, caching, b.raw, b.count, stands)
	c.unwatched(up)
	if up != c.up {
		c.elsewhere.some = true
	}
	if len(w.parts) > 0 {
		c.elsewhere.slot = w.parts[0].Record.Slot
	}
	x.Reset(w.block.Frames, w.block.Exec, true, c.decideWrite)
	x.Makes = true
	switch {
	case b.tx != nil:
		if x.Whole, x.Tail = !b.lists, w.block.Tail; b.lists {
			x.Stream = -1
		}
		b.hears(c, w.block.Command)
	case b.now, b.once != nil:
		x.Stream = -1
	}
	if d := p.durability(); d.Replicas > 0 {
		x.Stream, x.Whole = -1, false
		return c.roundTripDurably(up, x, c.send, d)
	}
	return c.roundTripOn(up, x, c.send)
}

// hears makes the client hear of a transaction's commands what it has not heard yet; first is the
// index of the first command's reply, behind MULTI's.
func (b body) hears(c *client, first int) {
	x, tx := c.exchange, b.tx
	tx.first = first
	c.closeTry()
	x.From, x.To = first+tx.heard, first+tx.count
	if !tx.begun {
		x.From = first - 1
	}
	tx.begun, tx.heard, tx.tried, tx.spent = true, tx.count, len(tx.raw), true
}

// decideWrite decides, when the client's reply arrives, whether it may have it: the checks say so, and the records are under
// WATCH since.
func (c *client) decideWrite(byte) bool {
	if c.unwatchedBy(c.commit.block) {
		return false
	}
	for i := range c.commit.block.Checks {
		check, err := c.srv.store.ParseCheck(c.exchange.Frame(c.commit.block.Check(i)))
		if err != nil || check.Verdict != tokenstore.Good {
			return false
		}
	}
	return true
}

// notQueuedBy returns what the client hears when Redis has refused to queue a command of its own, or
// nil if it has not.
func (c *client) notQueuedBy(b body) []byte {
	x, block := c.exchange, c.commit.block
	if x.Opened {
		return nil
	}
	refused := x.Refused
	for i := range block.Commands {
		refused = refused || isError(x.Frame(block.Command+i))
	}
	switch {
	case !refused:
		return nil
	case b.tx == nil:
		return x.Frame(block.Command)
	}
	if changed := b.changed(x, block.Command); changed != nil {
		return changed
	}
	return x.Frame(block.Exec)
}

// nilOrRefused ends a transaction that was not applied, under a WATCH of the client's own: if the
// checks are good, it was that WATCH, and the client gets the nil.
func (c *client) nilOrRefused(p plan) error {
	for i := range c.commit.checks {
		if c.commit.checks[i].Verdict == tokenstore.Good || c.commit.blind[i] {
			continue
		}
		if err := p.parts[i].sequence.Refused(c.commit.checks[i]); !c.lookedOn(p.parts[i].sequence, err) {
			return err
		}
	}
	giveUp(p.parts)
	return c.local(c.exchange.Frame(c.commit.block.Exec))
}

// judge reads the checks of a block that was not applied. The error says that one could not be
// made; nothing was written then, unless the store has applied the block all the same.
func (c *client) judge(p plan) error {
	w, x := &c.commit, c.exchange
	w.checks = w.checks[:0]
	for i := range w.block.Checks {
		check, err := c.srv.store.ParseCheck(x.Frame(w.block.Check(i)))
		switch {
		case err == nil && check.Verdict == tokenstore.Ungranted:
			return &downError{p.sessions(), errUngranted}
		case err == nil:
			w.checks = append(w.checks, check)
		case x.Opened:
			c.srv.log.Error("the store applied a write whose check it had refused", "sessions", p.sessions(), "error", err)
			return &unknownError{sessions: p.sessions(), err: err}
		default:
			return &downError{p.sessions(), err}
		}
	}
	for i := range w.block.Frames {
		if f := x.Frame(i); isError(f) {
			return &downError{p.sessions(), replyError(f)}
		}
	}
	return nil
}

// refused acts on the checks: nil means present again.
func (c *client) refused(p plan, b body, start time.Time) error {
	for i := range c.commit.checks {
		check, q := c.commit.checks[i], &p.parts[i]
		switch check.Verdict {
		case tokenstore.Good:
		case tokenstore.Held, tokenstore.Queued:
			if b.now {
				return errNotNow
			}
			if err := q.kin(check.Holder); err != nil {
				return err
			}
			if c.foretold(i) {
				return q.sequence.Refused(check)
			}
			return c.takePart(p.parts, i, start)
		default:
			if !c.commit.blind[i] {
				if err := q.sequence.Refused(check); !c.lookedOn(q.sequence, err) {
					return err
				}
			}
			q.sequence.Superseded()
			q.taken = false
		}
	}
	return nil
}

// settled takes an applied block into its sequences.
func (c *client) settled(p plan, b body, sent time.Time) {
	w := &c.commit
	for i := range p.parts {
		q := &p.parts[i]
		if w.parts[i].Passed {
			c.passed(q, b, &w.writes[i])
			continue
		}
		grant, err := c.srv.store.ParseSettle(c.exchange.Frame(w.block.Settle(i)))
		if err != nil {
			grant = w.parts[i].Grant
			c.settleAgain(&w.parts[i], err)
		}
		switch {
		case q.reading && w.parts[i].Keep:
			held := q.sequence.State() == lock.Held && !q.taken
			q.sequence.Granted(tokenstore.Begin{
				Granted: true, Grant: grant, Seq: w.parts[i].Seq, Continuous: w.parts[i].Grant > 0,
			}, sent)
			q.taken = !held
			continue
		case q.reading:
			q.sequence.Committed(w.parts[i], grant, w.writes[i], false, sent) // it has changed no value
			w.parts[i].Grant = grant
			continue
		}
		write, applied := b.applied(c.exchange, q.sequence, w.writes[i])
		q.sequence.Committed(w.parts[i], grant, write, applied, sent)
		c.srv.blocked.written(write.Keys)
		w.parts[i].Grant = grant
	}
	c.readBeside(p, b)
}

// answeredBy gives the client what was kept for it: a transaction's reply that lists keys, or that to a try, unless
// there was nothing for it.
func (c *client) answeredBy(b body, reply []byte) error {
	switch {
	case b.lists:
		return c.listed(b)
	case b.once != nil:
		return c.onceReply(reply, *b.once)
	case !b.now:
		return nil // it was streamed
	case isNil(reply):
		return errNothing
	}
	return c.local(reply)
}

// applied returns what was written of a session, without the commands that failed.
func (b body) applied(x *upstream.Exchange, s *lock.Sequence, write lock.Write) (lock.Write, bool) {
	switch {
	case len(x.Failed) == 0:
		return write, true
	case b.tx == nil:
		return write, x.Failed[0] > 0
	}
	applied := false
	write.Keys = nil
	for i := range b.tx.touches {
		t := &b.tx.touches[i]
		if _, failed := slices.BinarySearch(x.Failed, t.index); t.writes && !failed && t.sequence.Record.Is(s.Record) {
			write.Keys = append(write.Keys, t.keys...)
			applied = true
		}
	}
	return write, applied
}

// readBeside notes what a body has read beside its writes. A command that failed has read nothing.
func (c *client) readBeside(p plan, b body) {
	now := time.Now()
	switch {
	case b.tx != nil:
		for t := range b.tx.unwritten {
			i, _ := p.find(t.sequence)
			c.readIn(p, i, t.command, t.keys, now)
		}
	case !p.reads:
	case len(c.exchange.Failed) > 0 && c.exchange.Failed[0] == 0:
		giveUp(p.parts)
	default:
		hash := commandHash(b.raw)
		for i := range p.parts {
			c.readIn(p, i, hash, p.parts[i].keys, now)
		}
	}
}

// readIn notes what was read of the i-th session.
func (c *client) readIn(p plan, i int, command uint64, keys []uint64, now time.Time) {
	q, part := &p.parts[i], &c.commit.parts[i]
	if part.Passed {
		return
	}
	if q.reading && part.Keep {
		q.taken = false
		q.sequence.Read(command, keys, now)
	} else {
		q.sequence.ReadBeside(command, keys, part.Grant, part.Seq, now)
	}
	c.join(q.sequence)
}

// settleAgain repeats a settlement that failed behind an applied write: its hold still stands.
func (c *client) settleAgain(part *tokenstore.Commit, err error) {
	log := c.srv.log.With("rule", part.Record.Rule, "session", part.Record.Session, "grant", part.Grant)
	log.Warn("write applied, settling again", "error", err)
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	if err := c.srv.store.Settle(ctx, part); err != nil {
		log.Error("write applied but not settled; its lease will end", "error", err)
	}
}
