package observe

import (
	"slices"
	"time"
)

// version is a key's value between two changes.
type version struct {
	number int64 // grows with each change
	line   int64 // how many updates are in it, of those that were seen
}

// key is what is known of one key.
type key struct {
	hash   uint64
	stats  *stats
	now    version
	owners []*owner // the one used last is the last
	past   []change // the latest, in order
	spans  []span   // sequences, in the order of their ends

	newer, older *key // by use
}

// owner is a connection's part in a key.
type owner struct {
	conn  *Conn
	reads []read // unwritten ones, in order
	wrote read   // its last write of a sequence; the zero time if there is none
}

// read is a version that somebody has seen, and when.
type read struct {
	version
	at    time.Time
	kinds uint64 // of the commands that have seen it
}

// change is one update of a key.
type change struct {
	number int64
	conn   *Conn
	effect effect
	parts  []uint64
}

// span is a sequence, from its read to its write.
type span struct {
	from, to time.Time
	conn     *Conn // that wrote
}

// owner returns a connection's part; with add, there will be one.
func (k *key) owner(c *Conn, add bool) *owner {
	for i, w := range k.owners {
		if w.conn == c {
			last := len(k.owners) - 1
			copy(k.owners[i:], k.owners[i+1:])
			k.owners[last] = w
			return w
		}
	}
	if !add {
		return nil
	}
	if len(k.owners) == maxOwners {
		k.owners = slices.Delete(k.owners, 0, 1)
	}
	w := &owner{conn: c}
	k.owners = append(k.owners, w)
	return w
}

// read notes that a connection has read a version by a kind of command. The same kind again is another task's; EXISTS and
// GET are one's.
func (k *key) read(c *Conn, v version, now time.Time, kind uint64) {
	w := k.owner(c, true)
	for i := range w.reads {
		if r := &w.reads[i]; r.number == v.number && r.kinds&kind == 0 {
			r.kinds |= kind
			return
		}
	}
	for len(w.reads) > 0 && (len(w.reads) == maxReads || now.Sub(w.reads[0].at) > readTime) {
		w.reads = slices.Delete(w.reads, 0, 1)
	}
	w.reads = append(w.reads, read{v, now, kind})
}

// freshest is the place of the read of the newest version that was known by then, or -1.
func (w *owner) freshest(by time.Time) int {
	best := -1
	for i := range w.reads {
		r := &w.reads[i]
		if r.at.After(by) || by.Sub(r.at) > readTime {
			continue
		}
		if best < 0 || r.number >= w.reads[best].number {
			best = i
		}
	}
	return best
}

// basis is what a write goes on from.
type basis struct {
	read
	blind   bool // nothing
	follows bool // an earlier write of its own sequence
	guess   bool // another task may have made the read, and another one of another version
}

// basis finds, and uses up, what a write of c that was sent then goes on from.
func (k *key) basis(c *Conn, sent time.Time) basis {
	own := k.owner(c, false)
	if own != nil {
		if i := own.freshest(sent); i >= 0 {
			return k.take(own, i, c)
		}
		if own.goesOn(sent) && !c.group.pools {
			return basis{read: own.wrote, follows: true}
		}
	}
	var from *owner
	at := -1
	for _, w := range k.owners {
		if w.conn.group != c.group {
			continue
		}
		if i := w.freshest(sent); i >= 0 && (from == nil || w.reads[i].number >= from.reads[at].number) {
			from, at = w, i
		}
	}
	if from != nil {
		c.group.pools = true
		return k.take(from, at, c)
	}
	for _, w := range slices.Backward(k.owners) {
		if w.conn.group == c.group && w.goesOn(sent) {
			return basis{read: w.wrote, follows: true}
		}
	}
	return basis{read: read{version: k.now}, blind: true}
}

// take uses up a read for a write of c.
func (k *key) take(w *owner, i int, c *Conn) basis {
	b := basis{read: w.reads[i]}
	w.reads = slices.Delete(w.reads, i, i+1)
	for _, other := range k.owners {
		if other != w && !(c.group.pools && other.conn.group == c.group) {
			continue
		}
		for j := range other.reads {
			b.guess = b.guess || other.reads[j].number != b.number
		}
	}
	return b
}

// goesOn reports whether a write that was sent then belongs to the sequence that has written last.
func (w *owner) goesOn(sent time.Time) bool {
	return !w.wrote.at.IsZero() && sent.Sub(w.wrote.at) <= followTime
}

// change makes a new version, with so many updates less in its line than there were.
func (k *key) change(c *Conn, e effect, parts []uint64, lost int64) {
	k.now = version{k.now.number + 1, k.now.line + 1 - lost}
	if len(k.past) == maxChanges {
		k.past = slices.Delete(k.past, 0, 1)
	}
	k.past = append(k.past, change{k.now.number, c, e, parts})
}

// lost is how many updates a write leaves out that goes on from v.
func (k *key) lost(v version, e effect, parts []uint64) int64 {
	switch e {
	case replaces:
		return k.now.line - v.line
	case changes:
		n := int64(0)
		for i := range k.past {
			if p := &k.past[i]; p.number > v.number && p.effect != updates && overlap(p.parts, parts) {
				n++
			}
		}
		return min(n, k.now.line)
	}
	return 0
}

// overlap reports whether two changes are of the same part of a value; nil is any part.
func overlap(a, b []uint64) bool {
	return a == nil || b == nil || slices.ContainsFunc(a, func(part uint64) bool { return slices.Contains(b, part) })
}

// within reports whether all that has changed since v was of the same client.
func (k *key) within(c *Conn, v version) bool {
	seen := int64(0)
	for i := range k.past {
		p := &k.past[i]
		if p.number <= v.number {
			continue
		}
		if p.conn != c && !(c.group.pools && p.conn.group == c.group) {
			return false
		}
		seen++
	}
	return seen == k.now.number-v.number
}

// overlaps adds a sequence. It returns how many others it overlaps with, and about how long the later
// of each two would have waited for the earlier. Who waits begins no further sequence meanwhile.
func (k *key) overlaps(s span) (n int64, waited time.Duration) {
	for i := len(k.spans) - 1; i >= 0 && k.spans[i].to.After(s.from); i-- {
		other := &k.spans[i]
		n++
		switch {
		case !other.from.After(s.from):
			waited += other.to.Sub(s.from)
		case !slices.ContainsFunc(k.spans[:i], func(first span) bool { return first.conn == other.conn && first.from.After(s.from) }):
			waited += s.to.Sub(other.from)
		}
	}
	if len(k.spans) == maxSpans {
		k.spans = slices.Delete(k.spans, 0, 1)
	}
	k.spans = append(k.spans, s)
	return n, waited
}
