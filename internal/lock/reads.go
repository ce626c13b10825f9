package lock

import (
	"slices"
	"time"
)

const (
	// maxKeys bounds the keys whose reads a sequence remembers. Reads of further keys count for
	// the session as a whole, not one by one.
	maxKeys = 256
	// maxCommands bounds the read commands that a sequence can tell apart.
	maxCommands = 64
)

// reads remembers what a sequence has read and not yet written: per key, for owners whose tasks
// share it, and per command, for reads that somebody else's grant has made stale.
type reads struct {
	keys     []keyReads
	commands []uint64 // hashes of the read commands made under the grant
	stale    []uint64 // those made under an earlier one and not made again since
	// overflow: more commands than can be told apart; as stale ones they can't be made again.
	overflow, staleOverflow bool
}

// keyReads counts the reads of one key by tasks: one that reads it again and again by different commands is
// one task, the same command made twice is two.
type keyReads struct {
	key    uint64
	fresh  int       // tasks that have read it under the present grant
	stale  int       // those that have read it before a write that changed what they saw
	since  time.Time // when the first of the fresh reads was answered, at the earliest
	at     time.Time // of the last read
	old    time.Time // of the last one that is stale
	mixed  bool      // some of the stale ones may be fresh, see unsure
	rivals bool      // the stale ones' tasks are others than those that have written
	by     []count   // of the fresh reads, by command
}

type count struct {
	command uint64
	n       int
}

// maxForms bounds the commands by which the reads of one key are counted.
const maxForms = 8

// read counts a read, and how many tasks have made it.
func (k *keyReads) read(command uint64, now time.Time) {
	if k.at = now; k.fresh == 0 {
		k.since = now
	}
	at := slices.IndexFunc(k.by, func(c count) bool { return c.command == command })
	if at < 0 && len(k.by) < maxForms {
		k.by, at = append(k.by, count{command: command}), len(k.by)
	}
	if at >= 0 {
		k.by[at].n++
		k.fresh = max(k.fresh, k.by[at].n)
	}
}

// age makes what is fresh stale, but for some tasks that have written.
func (k *keyReads) age(written int) {
	if k.fresh > written || k.mixed && k.stale > 0 {
		k.stale += max(k.fresh-written, 0)
		k.old, k.mixed = k.at, false
	}
	k.fresh, k.by = 0, k.by[:0]
}

// add counts a read command of keys (both as hashes).
func (r *reads) add(command uint64, keys []uint64, now time.Time) {
	if i := slices.Index(r.stale, command); i >= 0 {
		r.stale = slices.Delete(r.stale, i, i+1)
	}
	r.tell(command)
	for _, key := range keys {
		if k := r.find(key); k != nil {
			k.read(command, now)
		} else if len(r.keys) < maxKeys {
			r.keys = append(r.keys, keyReads{key: key})
			r.keys[len(r.keys)-1].read(command, now)
		}
	}
}

// tell notes a read command, as long as so many can be told apart.
func (r *reads) tell(command uint64) {
	switch {
	case slices.Contains(r.commands, command):
	case len(r.commands) < maxCommands:
		r.commands = append(r.commands, command)
	default:
		r.overflow = true
	}
}

// tainted reports whether something read under an earlier grant was not read again.
func (r *reads) tainted() bool { return len(r.stale) > 0 || r.staleOverflow }

func (r *reads) find(key uint64) *keyReads {
	for i := range r.keys {
		if r.keys[i].key == key {
			return &r.keys[i]
		}
	}
	return nil
}

// usedUp reports, and uses, a stale read of one of keys that has no fresh one beside it; of several tasks, none that was answered before the
// write came.
func (r *reads) usedUp(keys []uint64, came time.Time, several bool) bool {
	for _, key := range keys {
		k := r.find(key)
		if k == nil || k.stale == 0 {
			continue
		}
		if k.fresh == 0 || several && !came.IsZero() && !came.After(k.since) {
			k.stale--
			return true
		}
	}
	return false
}

// fresh reports whether one of keys has a fresh read.
func (r *reads) fresh(keys []uint64) bool {
	for _, key := range keys {
		if k := r.find(key); k != nil && k.fresh > 0 {
			return true
		}
	}
	return false
}

// unread reports whether one of keys has no fresh read.
func (r *reads) unread(keys []uint64) bool {
	for _, key := range keys {
		if k := r.find(key); k == nil || k.fresh == 0 {
			return true
		}
	}
	return false
}

// unsure reports, and uses, a fresh read of one of keys beside a stale one that may still be written, if its task
// takes span for that: nobody can tell which of them this write goes back to.
// Where several tasks are at work for certain, the one that is left may be the fresh one: once the stale one's time is over, that is what it counts as.
func (r *reads) unsure(keys []uint64, now time.Time, span time.Duration, crowd bool) bool {
	for _, key := range keys {
		k := r.find(key)
		if k == nil || k.fresh == 0 || k.stale == 0 {
			continue
		}
		if now.Sub(k.old) >= span {
			if k.mixed {
				k.fresh, k.stale, k.mixed = k.fresh+k.stale, 0, false
			}
			continue
		}
		k.mixed = k.mixed || crowd
		k.fresh--
		for i := range k.by {
			k.by[i].n = min(k.by[i].n, k.fresh)
		}
		return true
	}
	return false
}

// write uses up one read of each key; what else was read of it before is stale now.
func (r *reads) write(keys []uint64) {
	for _, key := range keys {
		if k := r.find(key); k != nil && k.fresh > 0 {
			k.rivals = k.rivals && k.stale > 0 || k.fresh > 1
			k.age(1)
		}
	}
}

// took is how long it took from a read of one of keys to its write now, if there is no doubt about it.
func (r *reads) took(keys []uint64, now time.Time) (time.Duration, bool) {
	for _, key := range keys {
		if k := r.find(key); k != nil && k.fresh == 1 && k.stale == 0 {
			return now.Sub(k.at), true
		}
	}
	return 0, false
}

// complete ends the sequence: what it read was written.
func (r *reads) complete() { r.commands, r.overflow = r.commands[:0], false }

// supersede makes every read stale: the session was somebody else's since. With taint, writes of
// the whole session depend on them.
func (r *reads) supersede(taint bool) {
	for i := range r.keys {
		r.keys[i].age(0)
	}
	if taint {
		r.stale = append(r.stale, r.commands...)
		r.staleOverflow = r.staleOverflow || r.overflow || len(r.stale) > maxCommands
	}
	r.complete()
}

// forget forgets a read command, and reports whether there is no other left.
func (r *reads) forget(command uint64) bool {
	is := func(c uint64) bool { return c == command }
	r.commands, r.stale = slices.DeleteFunc(r.commands, is), slices.DeleteFunc(r.stale, is)
	return len(r.commands)+len(r.stale) == 0 && !r.overflow && !r.staleOverflow
}

// refuse forgets what a task has read whose command was refused: one read of each key, and what the session's writes
// depend on. What other tasks have read is stale.
func (r *reads) refuse(keys []uint64) {
	r.supersede(false)
	r.stale, r.staleOverflow = r.stale[:0], false
	r.usedUp(keys, time.Time{}, false)
	for i := range r.keys {
		r.keys[i].rivals = r.keys[i].stale > 0
	}
}

// merge takes in what another owner has read before; taint is as for supersede.
func (r *reads) merge(other *reads, taint bool) {
	other.supersede(taint)
	r.join(other)
}

// join takes in what another owner has read.
func (r *reads) join(other *reads) {
	for i := range other.keys {
		k := &other.keys[i]
		if mine := r.find(k.key); mine != nil {
			if mine.fresh == 0 || k.fresh > 0 && k.since.Before(mine.since) {
				mine.since = k.since
			}
			mine.fresh += k.fresh
			for _, c := range k.by { // each connection's reads are another task's
				if at := slices.IndexFunc(mine.by, func(m count) bool { return m.command == c.command }); at >= 0 {
					mine.by[at].n += c.n
				} else {
					mine.by = append(mine.by, c)
				}
			}
			mine.stale += k.stale
			mine.mixed = mine.mixed || k.mixed
			mine.rivals = mine.rivals || k.rivals
			if k.old.After(mine.old) {
				mine.old = k.old
			}
			if k.at.After(mine.at) {
				mine.at = k.at
			}
		} else if len(r.keys) < maxKeys {
			r.keys = append(r.keys, *k)
		}
	}
	for _, command := range other.commands {
		r.tell(command)
	}
	r.overflow = r.overflow || other.overflow
	for _, command := range other.stale {
		if !slices.Contains(r.commands, command) && !slices.Contains(r.stale, command) {
			r.stale = append(r.stale, command)
		}
	}
	r.staleOverflow = r.staleOverflow || other.staleOverflow || len(r.stale) > maxCommands
}

// expire forgets the reads that are older than age: no sequence lives that long.
func (r *reads) expire(now time.Time, age time.Duration) {
	kept := r.keys[:0]
	for i := range r.keys {
		k := &r.keys[i]
		if now.Sub(k.at) <= age && k.fresh+k.stale > 0 {
			kept = append(kept, *k)
		}
	}
	r.keys = kept
}

// anyFresh reports whether a read is still unwritten.
func (r *reads) anyFresh() bool {
	for i := range r.keys {
		if r.keys[i].fresh > 0 {
			return true
		}
	}
	return false
}

// only reports whether what is read and not written is of these keys, and some of it was read after since.
func (r *reads) only(keys []uint64, since time.Time) bool {
	later := false
	for i := range r.keys {
		if k := &r.keys[i]; k.fresh > 0 {
			if !slices.Contains(keys, k.key) {
				return false
			}
			later = later || k.at.After(since)
		}
	}
	return later && !r.overflow && len(r.keys) < maxKeys
}

// anyRival reports whether a read that is stale may be another task's.
func (r *reads) anyRival() bool {
	for i := range r.keys {
		if r.keys[i].stale > 0 && r.keys[i].rivals {
			return true
		}
	}
	return false
}

// clear forgets everything.
func (r *reads) clear() { *r = reads{keys: r.keys[:0], commands: r.commands[:0]} }
