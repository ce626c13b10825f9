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

// keyReads counts the reads of one key: fresh ones were made under the present grant, stale ones
// before a write that changed what they saw.
type keyReads struct {
	key          uint64
	fresh, stale int
	at           time.Time // of the last read
}

// add counts a read command of keys (both as hashes).
func (r *reads) add(command uint64, keys []uint64, now time.Time) {
	if i := slices.Index(r.stale, command); i >= 0 {
		r.stale = slices.Delete(r.stale, i, i+1)
	}
	switch {
	case slices.Contains(r.commands, command):
	case len(r.commands) < maxCommands:
		r.commands = append(r.commands, command)
	default:
		r.overflow = true
	}
	for _, key := range keys {
		if k := r.find(key); k != nil {
			k.fresh++
			k.at = now
		} else if len(r.keys) < maxKeys {
			r.keys = append(r.keys, keyReads{key: key, fresh: 1, at: now})
		}
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

// usedUp reports, and uses, a stale read of one of keys that has no fresh one beside it.
func (r *reads) usedUp(keys []uint64) bool {
	for _, key := range keys {
		if k := r.find(key); k != nil && k.fresh == 0 && k.stale > 0 {
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

// write uses up one read of each key; what else was read of it before is stale now.
func (r *reads) write(keys []uint64) {
	for _, key := range keys {
		if k := r.find(key); k != nil && k.fresh > 0 {
			k.stale += k.fresh - 1
			k.fresh = 0
		}
	}
}

// complete ends the sequence: what it read was written.
func (r *reads) complete() { r.commands, r.overflow = r.commands[:0], false }

// supersede makes every read stale: the session was somebody else's since. With taint, writes of
// the whole session depend on them.
func (r *reads) supersede(taint bool) {
	for i := range r.keys {
		r.keys[i].stale += r.keys[i].fresh
		r.keys[i].fresh = 0
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

// expire forgets the reads that are older than age: no sequence lives that long.
func (r *reads) expire(now time.Time, age time.Duration) {
	kept := r.keys[:0]
	for _, k := range r.keys {
		if now.Sub(k.at) <= age && k.fresh+k.stale > 0 {
			kept = append(kept, k)
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

// clear forgets everything.
func (r *reads) clear() { *r = reads{keys: r.keys[:0], commands: r.commands[:0]} }
