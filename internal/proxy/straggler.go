package proxy

import (
	"errors"
	"hash/maphash"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Several tasks on one connection (ioredis, node-redis, rueidis, Lettuce) read the same session and write it one after the other:
//
//	GET(A) GET(B) SET(A) GET(A) SET(?)
//
// The second SET is B's, and would undo A's first, or it is A's, and is good. So A's second GET waits for B's SET, which
// is certain to be B's if it has come before that GET was answered; and it is refused. Nothing is carried out in another
// order than it was sent in. What waits for its reply behind that GET, waits as long: so where that is other tasks' commands, the GET is answered
// after a moment.

// holdUpMost is how long a read that waits for stragglers holds other commands of its connection up.
const holdUpMost = 100 * time.Millisecond

// errStragglers says that a read was not answered, since it has found that somebody else has written: what other tasks of
// its owner have read is stale, and they had better write first.
var errStragglers = errors.New("what other tasks have read is stale")

// letStragglersWrite waits, before a read, for the writes of those tasks of its owner that have read before the session's last one.
func (c *client) letStragglersWrite(p plan, b body, start time.Time) error {
	if p.writes || b.tx != nil || b.now {
		return nil
	}
	for i := range p.parts {
		q := &p.parts[i]
		q.sequence, _ = q.sequence.Present()
		if err := c.letThemWrite(q, start); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) letThemWrite(q *part, start time.Time) error {
	var heldUp time.Time // when others were first held up
	s, began, vain := q.sequence, time.Now(), false
	defer func() { s.StragglersOver(c, vain) }()
	for now := began; ; now = time.Now() {
		c.in.mark(now)
		writes, others := c.behindOf(s)
		wait, fewer := s.Stragglers(c, q.keys, writes, now)
		if wait == 0 {
			return nil
		}
		left := min(wait-now.Sub(began), s.Rule.Wait-now.Sub(start))
		if others {
			if heldUp.IsZero() {
				heldUp = now
			}
			left = min(left, holdUpMost-now.Sub(heldUp))
		}
		if left <= 0 {
			vain = true
			return nil
		}
		if err := c.standAside(s, len(writes), others, fewer, left); err != nil {
			return err
		}
	}
}

// standAside waits until there may be fewer stragglers, another write or others' commands have come, or left is over.
func (c *client) standAside(s *lock.Sequence, writes int, others bool, fewer <-chan struct{}, left time.Duration) error {
	w := c.watchFor(func() bool {
		now, more := c.behindOf(s)
		return len(now) > writes || more && !others
	})
	defer w.stop()
	c.timer.Reset(left)
	defer c.timer.Stop()
	select {
	case <-fewer:
	case <-w.more:
	case <-c.timer.C:
	case <-w.gone:
		return c.gone()
	}
	return nil
}

// behindOf looks at what has come behind a read of a session: the keys (as hashes) of the session's writes, and whether there is something that
// is about anything else.
func (c *client) behindOf(s *lock.Sequence) (writes []uint64, others bool) {
	c.ahead(func(args [][]byte) bool {
		keys, about := c.isAbout(args, s)
		writes = append(writes, keys...)
		others = others || !about
		return true
	})
	return writes, others || len(c.in.bytes()) > searchMost
}

// isAbout reports whether a call is about a session and nothing else, and which keys (as hashes) it writes that may have been read before.
func (c *client) isAbout(args [][]byte, s *lock.Sequence) (writes []uint64, about bool) {
	cmd, _ := c.srv.commands.table.Lookup(args)
	if cmd == nil || blocks(cmd, args) {
		return nil, false
	}
	keys, complete := cmd.Keys(nil, args)
	if !complete || len(keys) == 0 {
		return nil, false
	}
	for _, key := range keys {
		if key.Index >= len(args) {
			return nil, false
		}
		r := c.guardedBy(args[key.Index])
		if r == nil || r.Name != s.Record.Rule || string(r.AppendSession(nil, args[key.Index])) != s.Record.Session {
			return nil, false
		}
		if key.Access == command.Write && !isAtomic(cmd, args) && !isLook(cmd, args) {
			writes = append(writes, maphash.Bytes(hashSeed, args[key.Index]))
		}
	}
	return writes, true
}

// overlaps notes whether the client has sent a read command again before it was answered: several tasks share its connection, and maybe others.
func (c *client) overlaps(s *lock.Sequence, hash uint64, answered time.Time) {
	if !s.Overlaps(c.owner.ID, hash, c.in.taken, max(c.in.before(answered), c.seenTo+int64(c.unseen))) || c.owner.Crowded() && s.Crowded() {
		return
	}
	s.Crowd()
	c.owner.Crowd()
	for _, g := range c.groups {
		g.locks.Owner().Crowd()
	}
	c.srv.log.Debug("several tasks share a connection", "client", c.address(), "library", c.state.library, "name", c.state.name)
}

// foretold reports whether the write of the i-th session need not wait for the holder: it goes back to what was read without a hold, he will
// have written, and other tasks' commands would wait behind it.
func (c *client) foretold(i int) bool {
	w := &c.commit
	return c.owner.Crowded() && !w.blind[i] && !w.writes[i].Atomic && w.parts[i].Read != (tokenstore.Stamp{})
}
