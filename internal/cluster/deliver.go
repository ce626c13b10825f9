package cluster

import (
	"bytes"
	"fmt"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Replies come from several nodes and go to the client in the order of its requests. Whoever has received something delivers
// what can be delivered: the replies whose turn it is, from whichever connection. What a connection has beyond that waits in
// its stash, and when there is much of it, in the node.

// deliver takes what has come, on c or before on others, to the client as far as its turn has come. The caller holds out.
func (f *front) deliver(c *conn) error {
	f.mu.Lock()
	if c != nil && c.pending > 0 {
		c.since = time.Now()
	}
	err := f.merge(c)
	empty := f.queue.len == 0
	f.mu.Unlock()
	if err == nil {
		err = f.emit()
	}
	if err != nil {
		f.end(err)
		return err
	}
	if f.crowded > 0 {
		f.room.Broadcast()
	}
	if empty || f.trouble.Load() {
		f.changed()
	}
	return nil
}

// emit writes what was delivered.
func (f *front) emit() error {
	for _, piece := range f.box.pieces() {
		if _, err := f.pair.Write(piece); err != nil {
			return err
		}
	}
	f.box.empty()
	return nil
}

// unlock gives out up, and delivers what the router could not meanwhile.
func (f *front) unlock() {
	f.out.Unlock()
	if f.kicked.Load() {
		f.kick()
	}
}

// kick delivers what waits for nobody, replies of the front's own. It does not wait for the client to take them.
func (f *front) kick() {
	f.kicked.Store(true)
	for f.kicked.Load() && f.out.TryLock() {
		f.kicked.Store(false)
		f.mu.Lock()
		err := f.merge(nil)
		f.mu.Unlock()
		pieces := f.box.pieces()
		for err == nil && len(pieces) > 0 {
			var n int
			n, err = f.pair.TryWrite(pieces[0])
			if pieces[0] = pieces[0][n:]; len(pieces[0]) > 0 {
				break
			}
			pieces = pieces[1:]
		}
		if err != nil {
			f.out.Unlock()
			f.end(err)
			return
		}
		if len(pieces) > 0 {
			f.work.Go(func() {
				defer f.unlock()
				if err := f.emit(); err != nil {
					f.end(err)
				}
			})
			return
		}
		f.box.empty()
		f.out.Unlock()
		f.changed()
	}
}

// merge collects what can be delivered. The caller holds out and mu.
func (f *front) merge(c *conn) error {
	if c != nil && f.queue.len == 0 || f.hearing {
		if err := f.messages(c); err != nil {
			return err
		}
	}
	for f.queue.len > 0 && f.err == nil {
		e := f.queue.first()
		if e.again.what != none {
			return nil // the router's
		}
		if e.kind == local {
			if f.midst != nil {
				return nil
			}
			f.box.add(e.text)
			f.answered(e)
			continue
		}
		on := e.c
		more, err := f.reply(e, on)
		if err != nil || !more {
			return err
		}
		if f.hearing {
			if err := f.messages(on); err != nil {
				return err
			}
		}
	}
	return nil
}

// answered takes the first entry out of the queue.
func (f *front) answered(e *entry) {
	if e.c != nil {
		e.c.pending--
	}
	if e.kind == executed {
		e.tx.forget()
	}
	closes := e.closes
	f.free(e)
	f.queue.pop()
	if closes && f.err == nil {
		f.work.Go(func() { // behind what is being written
			f.out.Lock()
			defer f.out.Unlock()
			f.end(nil)
		})
	}
}

// reply takes the reply to the first entry, or a part of it. more says that it is complete.
func (f *front) reply(e *entry, c *conn) (more bool, err error) {
	if len(c.view) == 0 || f.midst != nil && f.midst != c {
		return false, nil
	}
	if c.unasked {
		return f.message(c)
	}
	if !c.framer.Partial() {
		for c.view[0] == '>' || c.hears(e) {
			switch what, _ := kindOf(c.view); {
			case what == undecided:
				return false, nil
			case what == message:
				if done, err := f.message(c); err != nil || !done {
					return false, err
				}
				if len(c.view) == 0 {
					return false, nil
				}
				continue
			case what == confirmation && e.kind == confirms:
				return f.confirmation(e, c)
			case what == confirmation: // of a shard's subscription, whose slot has gone
				if done, err := f.message(c); err != nil || !done || len(c.view) == 0 {
					return false, err
				}
				continue
			}
			break
		}
		if e.overtook {
			done, err := c.skip()
			if !done || err != nil {
				return false, err
			}
			e.overtook = false
			if e.kind == executed && e.tx.watched {
				f.box.add(f.noTransaction())
				f.answered(e)
			} else {
				f.stuck(e, redirect{what: overtook, addr: c.n.addr})
			}
			return true, nil
		}
		if c.view[0] == '-' {
			end := bytes.IndexByte(c.view, '\n')
			if end < 0 {
				return false, nil
			}
			if f.refused(e, c, c.view[:end+1]) {
				c.view = c.view[end+1:]
				return true, nil
			}
		}
	}
	if e.kind == executed && e.tx.watching != nil && e.tx.watching.failed && !c.framer.Partial() && c.view[0] == '*' {
		if len(c.view) == 1 {
			return false, nil
		}
		if c.view[1] != '-' {
			return false, errUnwatched
		}
	}
	if e.skip > 0 {
		done, err := c.skip()
		if done {
			e.skip--
		}
		return done, err
	}
	c.framer.Interposed = true
	n, done, err := c.framer.Scan(c.view)
	if err != nil {
		return false, fmt.Errorf("%s does not speak RESP: %w", c.n.addr, err)
	}
	data := c.view[:n]
	c.view = c.view[n:]
	switch {
	case e.kind == dropped, e.quiet:
	case e.kind == told:
		c.told = append(c.told, data...)
	case e.kind == part:
		e.job.take(e.at, data, done)
		if done && e.job.complete() {
			f.box.add(e.job.result())
		}
	default:
		f.box.add(data)
		if f.midst = c; done {
			f.midst = nil
		}
	}
	if done {
		if e.trials.count > 0 {
			f.c.down.over()
		}
		f.answered(e)
	}
	return done, nil
}

// skip drops a reply, or a part of it.
func (c *conn) skip() (done bool, err error) {
	n, done, err := c.framer.Scan(c.view)
	if err != nil {
		return false, fmt.Errorf("%s does not speak RESP: %w", c.n.addr, err)
	}
	c.view = c.view[n:]
	return done, nil
}

var (
	queuedReply = []byte("+QUEUED\r\n")
	nilArray    = []byte("*-1\r\n")
	nilValue    = resp.AppendNull(nil, true)
)

// refused takes an error in the place of a reply; line is all of it. It reports whether there is nothing else to be done
// with it.
func (f *front) refused(e *entry, c *conn, line []byte) bool {
	r := redirected(line, c.n.addr)
	if e.skip > 0 || e.kind == queued || e.kind == dropped && e.tx != nil {
		if r.what == none || r.what == noScript {
			return false
		}
		if e.tx != nil {
			e.tx.redirect = r
		}
		switch {
		case e.skip > 0:
			e.skip--
			return true
		case e.kind == queued:
			f.box.add(queuedReply)
		}
		f.answered(e)
		return true
	}
	if e.kind == executed {
		if r.what == none && bytes.HasPrefix(line, []byte("-EXECABORT")) {
			r = e.tx.redirect
		}
		switch {
		case r.what == none || r.what == noScript:
			return false
		case e.tx.watched:
			f.box.add(f.noTransaction())
			f.answered(e)
			return true
		}
		e.tx.redirect = redirect{}
	}
	switch {
	case r.what == noScript && (!e.scripted || !f.c.scripts.has(e.raw)):
		return false
	case r.what == none, e.slot == elsewhere, e.slot == noKeys && (r.what == tryAgain || r.what == down), e.kind == confirms && !e.watches, e.kind == dropped:
		return false
	}
	if e.slot == noKeys && (r.what == moved || r.what == ask) {
		e.slot = int32(r.slot) // of a command that the server has learned since
	}
	f.stuck(e, r)
	return true
}

// stuck leaves the first entry to the router.
func (f *front) stuck(e *entry, r redirect) {
	e.again = r
	if r.what != overtook { // which is where it was sent, and a read
		f.misses(e)
	}
	if r.what != noScript && r.what != overtook {
		f.c.disturb()
	}
	if e.c != nil {
		e.c.pending--
		e.c = nil
	}
	f.trouble.Store(true)
	if f.err == nil {
		_ = f.pair.SetReadDeadline(past)
	}
}
