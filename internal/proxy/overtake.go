package proxy

import (
	"context"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// A client that sends more while a command of its waits in line has several tasks on one connection. The command
// that waits must not keep theirs from being carried out: least of all a commit, for which others
// may wait that hold the session it waits for. Replies have to keep their order, so the command gives way:
//
//	a read in mode auto   whatever comes, it goes on without a hold, as in mode fence; from then on no read of
//	                      the connection waits
//	otherwise             when a write comes to a session that the client's owner holds, it is refused
//
// Carrying the write out first, and keeping its reply back, would do without the refusal. But then the client's
// commands take effect in another order than it sent them in, which others can see.

// searchMost bounds what is searched for a write, in bytes.
const searchMost = 64 << 10

// reason is why a command must not wait in line any more.
type reason uint8

const (
	overtaken  reason = iota + 1 // by a command of its own connection
	deadlocked                   // the holder waits for its owner
)

// place is a client's place in a line.
type place struct {
	sequence *lock.Sequence
	writes   bool // the command at hand is a write
}

// stepsAside reports whether a read that finds its session held goes on without a hold: one that would wait while
// its connection holds another session, or keeps other tasks waiting.
func (c *client) stepsAside(s *lock.Sequence) bool {
	return s.Rule.Mode == rule.ModeAuto && (c.several || c.ownerOf(s.Rule) == c.owner && c.owner.Holds() > 0)
}

// overtaken reports whether what has come behind a command that waits for a session means that it must not wait on.
// It is called by the watcher, while the client's goroutine waits.
func (c *client) overtaken(p place) bool {
	if p.sequence.Rule.Mode == rule.ModeAuto && !p.writes {
		return len(c.in.bytes()) > 0
	}
	commits := false
	c.ahead(func(args [][]byte) bool { commits = c.commits(args); return !commits })
	return commits
}

// ahead yields the commands that have come behind the present one; not all if that is much.
func (c *client) ahead(yield func(args [][]byte) bool) {
	buf := c.in.bytes()
	parser := resp.NewRequestParser(c.srv.requests())
	for buf = buf[:min(len(buf), searchMost)]; len(buf) > 0; {
		req, n, err := parser.Next(buf)
		if err != nil || n == 0 {
			return
		}
		if buf = buf[n:]; len(req.Args) > 0 && !yield(req.Args) {
			return
		}
	}
}

// commits reports whether a call writes to a session that its owner holds, or that was acquired over the
// connection, or releases one.
func (c *client) commits(args [][]byte) bool {
	if w := wordOf(args[0]); w != nil && w.name == "fence.release" {
		return len(c.grants) > 0
	}
	cmd, _ := c.srv.commands.table.Lookup(args)
	if cmd == nil || !cmd.Is(command.FlagWrite) {
		return false
	}
	keys, _ := cmd.Keys(nil, args)
	for _, key := range keys {
		if key.Access != command.Write || key.Index >= len(args) {
			continue
		}
		r := c.guardedBy(args[key.Index])
		if r == nil {
			continue
		}
		session := r.AppendSession(nil, args[key.Index])
		s := c.underGrant(r, c.area(r, args[key.Index]), session)
		if s == nil {
			s = c.ownerOf(r).Find(c.area(r, args[key.Index]), r, session)
		}
		if s != nil && s.State() == lock.Held {
			return true
		}
	}
	return false
}

// giveWay ends the wait of a client that waits at the store.
func (c *client) giveWay(why reason) {
	s := c.inLine.sequence
	c.wayGiven = why
	c.several = c.several || why == overtaken
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	if err := c.srv.store.Unpark(ctx, s.Record, c.waiter.ID()); err != nil {
		c.srv.log.Warn("a command that should give way waits on", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}
