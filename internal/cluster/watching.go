package cluster

import (
	"errors"
	"slices"
	"time"
)

// watching is what a client has put under WATCH, from the first WATCH to what uses it up. A transaction relies on it, and on
// what was said behind it, since a pipeline may have a WATCH, a command that touches a key if the transaction is not to be, and
// the transaction: if one of these was not carried out where the transaction is, or later than it, EXEC must answer nil.
//
// Under front.mu.
type watching struct {
	count  int  // of WATCH
	failed bool // it does not stand, or not all of it, or something behind it was carried out elsewhere
}

// unsettled is for how long after a node has sent a command elsewhere, or could not be had, an EXEC behind a WATCH waits for the
// answers to what comes before it: a slot that comes back to a node in the middle of a pipeline would have it
// carried out without what it relies on.
const unsettled = 10 * time.Second

// errUnwatched ends a front: the client can't be told that its transaction was not carried out, nor that it was.
var errUnwatched = errors.New("a node has carried out a transaction and not what came before it")

// disturb notes that not all commands are carried out where they are sent.
func (c *Cluster) disturb() { c.disturbed.Store(time.Now().UnixNano()) }

func (c *Cluster) unsettled() bool {
	return time.Since(time.Unix(0, c.disturbed.Load())) < unsettled
}

// relied returns what a transaction would rely on that a command is a part of, nil for none.
func (f *front) relied(at int, c *conn) *watching {
	if f.watching == nil || !slices.Contains(f.watchedSlots, at) {
		return nil
	}
	if f.watched != c {
		f.mu.Lock()
		f.watching.failed = true
		f.mu.Unlock()
	}
	return f.watching
}

// misses notes that the first entry is not carried out where it was sent. The caller holds mu.
func (f *front) misses(e *entry) {
	w := e.under
	if w == nil || w == f.watching && !e.watches && f.watched != nil && e.c != f.watched {
		return // it comes behind its WATCH again
	}
	w.failed = true
}

// rewatched notes where a WATCH that was sent again stands. The caller holds mu.
func (f *front) rewatched(e *entry, c *conn) {
	w := e.under
	if w != f.watching || f.tx != nil { // its transaction has been sent
		c.stale = true
		return
	}
	f.watched = c
	w.failed = w.count > 1
}

// fails reports whether a transaction must not be carried out.
func (f *front) fails(w *watching) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w != nil && w.failed
}

// unwatch forgets what is watched.
func (f *front) unwatch() {
	f.mu.Lock()
	f.watched = nil
	f.mu.Unlock()
	f.watching, f.watchedSlots = nil, nil
}

// noTransaction is the answer to an EXEC that is not carried out.
func (f *front) noTransaction() []byte {
	if f.session.proto == 3 {
		return nilValue
	}
	return nilArray
}
