package proxy

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// mostWatches bounds the keys that are remembered; with more, each refusal is an error.
const mostWatches = 256

// watches are the keys that the client has under a WATCH of its own, and since when. A client that reads them after its
// WATCH, and is refused since somebody has written them, would have had Redis's nil without the proxy, and
// knows what to do then: WATCH, read and try again.
type watches struct {
	keys  []uint64 // as hashes
	since time.Time
}

// add notes a WATCH; first says that there was none.
func (w *watches) add(keys [][]byte, first bool) {
	if first {
		w.keys = w.keys[:0]
	}
	for _, key := range keys {
		if len(w.keys) < mostWatches {
			w.keys = append(w.keys, maphash.Bytes(hashSeed, key))
		}
	}
	w.since = time.Now()
}

// covered returns the sessions of a transaction of which all that was read, was read under the client's WATCH.
func (c *client) covered() []*tokenstore.Record {
	if !c.state.watching {
		return nil
	}
	var records []*tokenstore.Record
	for _, q := range c.tx.plan.parts {
		if q.sequence.ReadOnly(c.watches.keys, c.watches.since) {
			records = append(records, q.sequence.Record)
		}
	}
	return records
}

// tellNil tells of a refusal that the client hears of as a nil.
func (c *client) tellNil(err error) {
	var fenced *lock.FencedError
	if errors.As(err, &fenced) {
		c.tellFenced(fenced, event.Event{Kind: event.Refuse})
	}
}

// says reports whether a refusal is what the client's WATCH says as well.
func says(covered []*tokenstore.Record, err error) bool {
	var fenced *lock.FencedError
	return errors.As(err, &fenced) && slices.ContainsFunc(covered, fenced.Record.Is)
}
