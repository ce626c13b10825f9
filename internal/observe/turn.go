package observe

import (
	"slices"
	"time"
)

// turn is the commands under way on one key.
type turn struct {
	hash    uint64
	uses    []*use
	wanting int           // commands that wait to write
	changed chan struct{} // closed when a use ends, or nobody waits to write any more
}

// use is one command's part in a turn.
type use struct {
	conn   *Conn
	hash   uint64
	writes bool
	open   bool

	// What a read that was overtaken must have seen.
	overtaken bool
	seen      version
}

// bars reports whether two uses of a key may not be under way at once: Redis might carry them out in
// either order, and it would make a difference.
func (u *use) bars(other *use) bool {
	return u.conn != other.conn && (u.writes || other.writes)
}

// admits reports whether a use may begin beside those under way.
func (t *turn) admits(u *use) bool {
	own := false
	for _, other := range t.uses {
		if u.bars(other) {
			return false
		}
		own = own || other.conn == u.conn
	}
	return own || u.writes || t.wanting == 0
}

// stir lets those who wait look again.
func (t *turn) stir() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// begin starts all uses of a command, or none: then it returns the one that has to wait, and its turn.
// Called with mu held.
func (o *Observer) begin(uses []use) (*turn, *use) {
	for i := range uses {
		if t := o.turns[uses[i].hash]; t != nil && !t.admits(&uses[i]) {
			return t, &uses[i]
		}
	}
	o.start(uses)
	return nil, nil
}

func (o *Observer) start(uses []use) {
	for i := range uses {
		u := &uses[i]
		t := o.turns[u.hash]
		if t == nil {
			t = &turn{hash: u.hash, changed: make(chan struct{})}
			o.turns[u.hash] = t
		}
		t.uses, u.open = append(t.uses, u), true
	}
}

// end ends uses. Called with mu held.
func (o *Observer) end(uses []use) {
	for i := range uses {
		o.leave(&uses[i])
	}
}

func (o *Observer) leave(u *use) {
	if !u.open {
		return
	}
	u.open = false
	t := o.turns[u.hash]
	i := slices.Index(t.uses, u)
	t.uses = slices.Delete(t.uses, i, i+1)
	t.stir()
	o.tidy(t)
}

// tidy forgets a turn that nobody takes.
func (o *Observer) tidy(t *turn) {
	if len(t.uses)+t.wanting == 0 && o.turns[t.hash] == t {
		delete(o.turns, t.hash)
	}
}

// wait begins uses when it is their turn, or after the longest time for one.
func (o *Observer) wait(uses []use) {
	timer := time.NewTimer(o.longest)
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		t, u := o.begin(uses)
		if t == nil {
			return
		}
		if u.writes {
			t.wanting++
		}
		changed := t.changed
		o.mu.Unlock()
		late := false
		select {
		case <-changed:
		case <-timer.C:
			late = true
		}
		o.mu.Lock()
		if u.writes {
			if t.wanting--; t.wanting == 0 {
				t.stir()
			}
			o.tidy(t)
		}
		if late {
			o.overtake(uses)
			return
		}
	}
}

// overtake begins uses in front of those that they have waited for, which nobody waits for any more.
func (o *Observer) overtake(uses []use) {
	o.unsure++
	for i := range uses {
		u := &uses[i]
		t := o.turns[u.hash]
		if t == nil {
			continue
		}
		for _, other := range slices.Clone(t.uses) {
			if !u.bars(other) {
				continue
			}
			if k := o.keys[u.hash]; k != nil && !other.writes {
				other.overtaken, other.seen = true, k.now
			}
			o.leave(other)
		}
	}
	o.start(uses)
}
