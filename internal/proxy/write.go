package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
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

// errRestless says that a record changed between each check and its EXEC.
var errRestless = errors.New("the fence record does not keep still: is something else writing to it?")

// write is a guarded write: check, the client's command and settle, in one round trip. Nothing is
// applied unless every session's check is good.
func (c *client) write(p plan, req resp.Request, start time.Time) error {
	for range presentMost {
		sent := time.Now()
		if err := c.present(p, sent); err != nil {
			return err
		}
		if err := c.sendWrite(p, req); err != nil {
			return &unknownError{p.sessions(), err}
		}
		if err := c.escaped(); err != nil {
			c.srv.log.Error("the store applied a write without its fence", "sessions", p.sessions(), "error", err)
			return &unknownError{p.sessions(), err}
		}
		if c.exchange.Opened && c.decideWrite(0) {
			c.settled(p, sent)
			return nil
		}
		if queued := c.exchange.Frame(c.commit.block.Command); isError(queued) && !c.exchange.Opened {
			giveUp(p.parts)
			return c.local(queued) // Redis refused the command itself, in its own words
		}
		if err := c.judge(p); err != nil {
			return err
		}
		if err := c.refused(p, start); err != nil {
			return err
		}
		// Nothing was applied, and the reason is gone: the session was taken, the write goes on
		// blindly, or another grant came between a good check and the EXEC. The next check tells.
	}
	return &downError{p.sessions(), errRestless}
}

// present asks the sequences which tokens to present.
func (c *client) present(p plan, sent time.Time) error {
	w := &c.commit
	w.parts, w.writes, w.blind = w.parts[:0], w.writes[:0], w.blind[:0]
	for i := range p.parts {
		q := &p.parts[i]
		write := lock.Write{Keys: q.keys, Atomic: p.atomic}
		token, err := q.sequence.BeforeWrite(context.Background(), write, sent)
		if err != nil {
			return err
		}
		w.writes = append(w.writes, write)
		w.blind = append(w.blind, token.OrBlind || q.taken)
		w.parts = append(w.parts, tokenstore.Commit{
			Record: q.sequence.Record, Claim: q.sequence.Claim, Grant: token.Grant, Seq: token.Seq,
			Keep: !q.taken && q.sequence.Keeps(),
		})
	}
	return nil
}

// sendWrite sends the block of a write and waits for its replies. Where the fence stands on the
// connection, the block needs no check.
func (c *client) sendWrite(p plan, req resp.Request) error {
	w := &c.commit
	stands := len(p.parts) == 1 && c.watched.stands(p.parts[0].sequence, w.parts[0].Grant)
	c.send, w.block = c.srv.store.AppendCommit(c.send[:0], w.parts, req.Raw, stands)
	c.watched.gone() // by the EXEC
	c.exchange.Reset(w.block.Frames, w.block.Exec, true, c.decideWrite)
	return c.roundTrip(c.exchange, c.send)
}

// decideWrite decides, when the client's reply arrives, whether it may have it: the checks say so.
func (c *client) decideWrite(byte) bool {
	for i := range c.commit.block.Checks {
		check, err := c.srv.store.ParseCheck(c.exchange.Frame(c.commit.block.Check(i)))
		if err != nil || check.Verdict != tokenstore.Good {
			return false
		}
	}
	return true
}

// judge reads the checks of a block that was not applied. The error says that one could not be
// made; nothing was written then, unless the store has applied the block all the same.
func (c *client) judge(p plan) error {
	w, x := &c.commit, c.exchange
	w.checks = w.checks[:0]
	for i := range w.block.Checks {
		check, err := c.srv.store.ParseCheck(x.Frame(w.block.Check(i)))
		switch {
		case err == nil:
			w.checks = append(w.checks, check)
		case x.Opened:
			c.srv.log.Error("the store applied a write whose check it had refused", "sessions", p.sessions(), "error", err)
			return &unknownError{p.sessions(), err}
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
func (c *client) refused(p plan, start time.Time) error {
	for i := range c.commit.checks {
		check, q := c.commit.checks[i], &p.parts[i]
		switch check.Verdict {
		case tokenstore.Good:
		case tokenstore.Held, tokenstore.Queued:
			giveUp(p.parts[i+1:]) // as a read does
			if err := c.take(q.sequence, start); err != nil {
				return err
			}
			q.taken = true
			return nil
		default:
			if !c.commit.blind[i] {
				return q.sequence.Refused(check)
			}
			q.sequence.Superseded()
			q.taken = false
		}
	}
	return nil
}

// settled takes an applied block into its sequences.
func (c *client) settled(p plan, sent time.Time) {
	w := &c.commit
	applied := c.exchange.StreamType != '-' && c.exchange.StreamType != '!'
	for i, q := range p.parts {
		grant, err := c.srv.store.ParseSettle(c.exchange.Frame(w.block.Settle(i)))
		if err != nil {
			grant = w.parts[i].Grant
			c.settleAgain(&w.parts[i], err)
		}
		q.sequence.Committed(w.parts[i], grant, w.writes[i], applied, sent)
	}
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
