package proxy

import (
	"errors"
	"fmt"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A write that is to be carried out once runs in a script, which keeps its reply with it in one step. On
// guarded keys that script stands in the place of the command in a commit: the token is presented as for any
// other write. Whoever says it again gets the kept reply, before any token is asked for: what was applied is not
// refused as stale.

const (
	onceIDMost  = 256                 // bytes of an id
	onceMost    = 30 * 24 * time.Hour // how long an id may last
	onceArgs    = 4096                // arguments that Lua takes at once, with room to spare
	onceRefused = "can't be carried out once: "
)

// once is FENCE.ONCE.
func (c *client) once(args [][]byte) error {
	id, inner := args[1], args[3:]
	ttl, err := period("ttl", args[2], time.Millisecond, onceMost)
	if err != nil {
		return err
	}
	if len(id) == 0 || len(id) > onceIDMost {
		return wordError(fmt.Sprintf("ERR an id has 1 to %d bytes", onceIDMost))
	}
	cmd, err := c.commandOf(inner)
	if err != nil {
		return err
	}
	if why := notOnce(cmd, inner); why != "" {
		return &deniedError{reason: cmd.Name + " " + onceRefused + why}
	}
	p, err := c.plan(cmd, inner)
	if err != nil {
		return err
	}
	key, ok := c.firstKey(cmd, inner)
	if !ok {
		return &deniedError{reason: cmd.Name + " " + onceRefused + "it touches no key"}
	}
	sub, err := c.subjectOf(key)
	if err != nil {
		return err
	}
	_, typed := typedReplies[cmd.Name]
	o := tokenstore.NewOnce(sub.record, id, ttl, typed, inner)
	speaks := c.speaks(cmd, inner)
	switch kept, refusal, err := c.keptReply(key, o); {
	case refusal != nil || err != nil:
		return c.inItsWords(refusal, err)
	case kept != nil:
		return c.local(speaks.reply(kept))
	}
	raw := c.srv.store.AppendOnce(nil, o)
	if len(p.parts) == 0 {
		x, err := c.sync(raw, false)
		if err != nil {
			return &unknownError{sessions: sub.record.String(), err: err}
		}
		return c.onceReply(x.Frame(0), speaks)
	}
	err = c.guarded(p, body{verb: "FENCE.ONCE", raw: raw, count: 1, once: &speaks}, c.write)
	var fenced *lock.FencedError
	var locked *lock.LockedError
	var unknown *unknownError
	switch {
	case errors.As(err, &unknown) && !fatal(err): // its connection broke, and it has another one
		if lost := c.link(); lost != nil {
			return err
		}
		fallthrough
	case errors.As(err, &fenced), errors.As(err, &locked): // perhaps by who carried it out meanwhile
		if kept, refusal, again := c.keptReply(key, o); kept != nil && refusal == nil && again == nil {
			return c.local(speaks.reply(kept))
		}
	}
	return err
}

// notOnce says why a command can't be carried out once, "" if it can.
func notOnce(cmd *command.Command, args [][]byte) string {
	switch {
	case !cmd.Is(command.FlagWrite):
		return "it is no write"
	case blocks(cmd, args):
		return "it blocks"
	case cmd.Flags&(command.FlagNoScript|command.FlagBlocking) != 0:
		return "Redis does not let a script call it"
	case len(args) > onceArgs:
		return fmt.Sprintf("it has more than %d arguments", onceArgs)
	}
	return ""
}

// firstKey returns the first key of a call.
func (c *client) firstKey(cmd *command.Command, args [][]byte) ([]byte, bool) {
	keys, _ := cmd.Keys(nil, args)
	for _, key := range keys {
		if key.Index < len(args) {
			return args[key.Index], true
		}
	}
	return nil, false
}

// keptReply asks for the reply that was kept. refusal is what Redis says to a user that may not touch the key.
func (c *client) keptReply(key []byte, o *tokenstore.Once) (kept, refusal []byte, err error) {
	refusal, at, err := c.mayTouch(key, o.AppendLook(nil), 1)
	if refusal != nil || err != nil {
		return nil, refusal, err
	}
	kept, err = o.ParseLook(c.exchange.Frame(at))
	return kept, nil, onceError(err)
}

// onceError says what has become of a question for a kept reply. Nothing was written.
func onceError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tokenstore.ErrOtherCommand):
		return wordError("ERR FENCE.ONCE: the id was used for another command")
	}
	return &downError{"FENCE.ONCE", err}
}

// onceReply gives the client what the script has answered.
func (c *client) onceReply(frame []byte, speaks spoken) error {
	reply, err := c.srv.store.ParseOnce(frame)
	if err != nil {
		return onceError(err)
	}
	return c.local(speaks.reply(reply))
}
