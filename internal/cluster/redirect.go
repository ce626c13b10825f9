package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// hindrance is why a command was not carried out where it was sent.
type hindrance uint8

const (
	none     hindrance = iota
	moved              // its slot is at another node
	ask                // its slot is on its way, and its keys are at another node
	tryAgain           // its slot is on its way, and its keys are at both
	down               // nobody serves its slot
	noScript           // the node does not know the script
	unsent             // its node can't be reached
	overtook           // what came before it was sent again
)

// redirect says that a command was not carried out, and what can be done about it.
type redirect struct {
	what hindrance
	slot int    // of moved and ask
	addr string // of the other node
	line string // the reply, if it has to be handed on
	last bool   // it has to be, at once
}

// redirected takes an error line of a node for what it says of slots.
func redirected(line []byte, asked string) redirect {
	word, rest, _ := bytes.Cut(bytes.TrimRight(line[1:], "\r\n"), []byte(" "))
	switch string(word) {
	case "MOVED", "ASK":
		number, addr, _ := bytes.Cut(rest, []byte(" "))
		slot, err := strconv.Atoi(string(number))
		if err != nil || len(addr) == 0 || slot < 0 || slot >= len(topology{}.owner) {
			return redirect{}
		}
		r := redirect{what: moved, slot: slot, addr: beside(asked, string(addr)), line: string(line)}
		if word[0] == 'A' {
			r.what = ask
		}
		return r
	case "TRYAGAIN":
		return redirect{what: tryAgain, line: string(line)}
	case "CLUSTERDOWN":
		return redirect{what: down, line: string(line)}
	case "NOSCRIPT":
		return redirect{what: noScript, addr: asked, line: string(line)}
	}
	return redirect{}
}

// trials are the attempts to carry out one command.
type trials struct {
	count int
	since time.Time // the first hindrance
	line  string    // the last error that says something to who knows of no nodes
}

// said is the error that the client gets.
func (t *trials) said(r redirect) string {
	switch {
	case t.line != "":
		return t.line
	case r.what == noScript:
		return r.line
	}
	return "-TRYAGAIN fence-proxy: the nodes say of each other that they have the command's slot\r\n"
}

const (
	// pauseLeast and pauseMost bound the growing pause between two attempts.
	pauseLeast = time.Millisecond
	pauseMost  = 100 * time.Millisecond
	// turnsMost is how many redirects are followed without a pause.
	turnsMost = 3
)

// recover sees to it that what nodes have sent elsewhere is carried out, in the order in which it was asked for: nothing new
// is sent before all that is under way has been answered, each command being sent again when its turn has come. Those of
// one slot are all at one node when it moves. But a node may carry out what comes behind a command that it does not carry out,
// since it does not know the script, or has some of the keys only; see overtaken.
func (f *front) recover() error {
	if !f.trouble.Load() {
		return nil
	}
	for {
		f.mu.Lock()
		if f.queue.len == 0 {
			f.trouble.Store(false)
			if f.err == nil && !f.nudged.Load() {
				_ = f.pair.SetReadDeadline(time.Time{})
			}
			f.mu.Unlock()
			return f.recovered()
		}
		e := f.queue.first()
		stuck := e.again.what != none
		f.mu.Unlock()
		var err error
		if stuck {
			err = f.retry(e) // the router alone takes it on from here
		} else {
			err = f.await(0, func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.queue.len == 0 || f.queue.first().again.what != none
			})
		}
		if err != nil {
			return err
		}
	}
}

// retry tries the first entry again, or gives it up.
func (f *front) retry(e *entry) error {
	r := e.again
	if r.what == ask && (e.watches || e.tx != nil) {
		// Its other keys may still be where the slot was, and would come over what is written here.
		r = redirect{what: tryAgain, line: "-TRYAGAIN fence-proxy: the slot is on its way to another node\r\n"}
	}
	if e.trials.since.IsZero() {
		e.trials.since = time.Now()
	}
	e.trials.count++
	if e.raw == nil && e.tx == nil {
		return f.giveUp(e, "-CLUSTERDOWN fence-proxy: the command's slot has moved, and it was too long ago that it was sent to send it again: nothing was applied\r\n")
	}
	since := e.trials.since
	switch r.what {
	case down:
		since = f.c.down.since()
	case unsent:
		since = f.c.node(r.addr).down.since()
	}
	if r.what == tryAgain || r.what == down || r.what == unsent {
		e.trials.line = r.line
	}
	if r.last || time.Since(since) > Patience && e.trials.count > 1 {
		return f.giveUp(e, e.trials.said(r))
	}
	if pause := e.trials.pause(r.what); pause > 0 {
		if err := f.await(pause, func() bool { return false }); err != nil {
			return err
		}
	}
	switch r.what {
	case moved:
		f.c.moved(r.slot, f.c.node(r.addr))
	case down, unsent:
		f.c.refresh()
	}
	return f.resend(e, r)
}

// pause is how long it is waited before another attempt.
func (t *trials) pause(what hindrance) time.Duration {
	n := t.count
	if what != tryAgain && what != down && what != unsent {
		n -= turnsMost
	}
	if n <= 0 {
		return 0
	}
	return min(pauseLeast<<min(n-1, 10), pauseMost)
}

// resend sends the first entry to where its slot is now.
func (f *front) resend(e *entry, r redirect) error {
	n := f.c.topology.Load().of(int(max(e.slot, 0)))
	switch {
	case r.what == ask, r.what == overtook && e.slot == elsewhere:
		n = f.c.node(r.addr)
	case r.what == noScript:
		n = f.c.node(r.addr)
		f.c.scripts.load(f.c, n, e.raw)
	case e.slot < 0:
		n = f.another(e.trials.count)
	}
	if n == nil {
		return f.hinder(e, redirect{what: down, line: "-CLUSTERDOWN Hash slot not served\r\n"})
	}
	c, err := f.spare(n)
	if err != nil {
		if f.over() {
			return f.why()
		}
		return f.hinder(e, unreached(n, err))
	}
	var requests []byte
	skip := 0
	if r.what == ask {
		requests = resp.AppendCommandStrings(requests, "ASKING")
		skip++
	}
	var pieces [][]byte
	if e.tx != nil && e.kind == executed {
		for _, raw := range e.tx.sent {
			pieces = append(pieces, raw.raw)
			skip++
		}
		if e.tx.forgotten {
			return f.giveUp(e, "-CLUSTERDOWN fence-proxy: the transaction's slot has moved, and it is too large to be sent again: nothing was applied\r\n")
		}
	}
	f.mu.Lock()
	e.c, e.again, e.skip = c, redirect{}, skip
	if e.watches && e.kind == passed {
		f.rewatched(e, c)
	}
	f.overtaken(e)
	c.pending++
	c.since = time.Now()
	raw := e.raw
	f.mu.Unlock() // from here on the entry may be answered
	c.box.add(requests)
	for _, p := range pieces {
		c.box.add(p)
	}
	c.box.add(raw)
	return c.send()
}

// unreached is a redirect for a node that can't be reached.
func unreached(n *node, err error) redirect {
	var refusal *refusal
	if errors.As(err, &refusal) {
		return redirect{what: unsent, addr: n.addr, line: refusal.line, last: true}
	}
	return redirect{what: unsent, addr: n.addr, line: string(resp.AppendError(nil, fmt.Sprintf("CLUSTERDOWN fence-proxy: %v", err)))}
}

// hinder says what is in the first entry's way now.
func (f *front) hinder(e *entry, r redirect) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.again = r
	return nil
}

// giveUp answers the first entry with an error.
func (f *front) giveUp(e *entry, line string) error {
	f.mu.Lock()
	e.again = redirect{}
	if e.under != nil {
		e.under.failed = true
	}
	if e.kind == part {
		e.job.take(e.at, []byte(line), true)
		line = ""
		if e.job.complete() {
			line = string(e.job.result())
		}
	}
	e.kind, e.text = local, []byte(line)
	f.mu.Unlock()
	f.kick()
	return nil
}

// spare returns a connection to a node on which no replies are to come.
func (f *front) spare(n *node) (*conn, error) {
	if c := f.main[n]; c != nil && !c.lost.Load() && f.rests(c) {
		return c, nil
	} else if c == nil {
		return f.at(n)
	}
	f.mu.Lock()
	conns := f.conns
	f.mu.Unlock()
	for _, c := range conns {
		if c.side && c.n == n && !c.lost.Load() && f.rests(c) {
			return c, nil
		}
	}
	c, err := f.connect(n)
	if err == nil {
		c.side = true
	}
	return c, err
}

func (f *front) rests(c *conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return c.pending == 0
}

// recovered puts connections in order after recover: what was begun on a spare one goes on there, and the others are closed.
func (f *front) recovered() error {
	f.mu.Lock()
	var closing []*conn
	for _, c := range f.conns {
		switch old := f.main[c.n]; {
		case !c.side && !c.stale:
		case c.side && f.stands(c) && (old == nil || !f.stands(old)):
			if old != nil {
				closing = append(closing, old)
			}
			f.main[c.n], c.side = c, false
		default:
			closing = append(closing, c)
		}
	}
	f.mu.Unlock()
	for _, c := range closing {
		f.leave(c)
	}
	return f.tidy()
}
