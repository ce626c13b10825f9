package lock

import "slices"

// When a client turns out to pool its connections, their sequences become the group's, one for each
// session: the first is taken as it is (promote), further ones are taken in (absorb). That happens when
// the group's owner next has to do with the session, for whoever is inside a sequence then may be a
// command that began before the change.
//
// A command that waits in line keeps its sequence to itself: it may wait for the very hold that the
// group's next write gives back. So the group goes on with another one, and takes it in later.

// Present returns the sequence to go on with in place of s: the group's present one, if its owner is a
// group. The channel is closed when that may have changed; nil: it won't.
func (s *Sequence) Present() (*Sequence, <-chan struct{}) {
	if s.apart {
		return s, nil
	}
	o := s.owner.Load()
	if o.self == nil {
		return s.Anew(), nil
	}
	return o.self.present(s)
}

func (g *Group) present(s *Sequence) (*Sequence, <-chan struct{}) {
	o, key := g.owner, s.key()
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.sequence(key, s.Rule)
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kin[key]
	if k == nil {
		return now, nil
	}
	if !now.open() || now.lined.Load() {
		for _, f := range k.all {
			if f.open() && !f.lined.Load() {
				g.promote(f)
				now = f
				break
			}
		}
	}
	if k = g.kin[key]; k == nil {
		return now, nil
	}
	return now, k.change()
}

// promote makes a sequence the group's present one on its session. Called with the owner's and the
// group's mutex held.
func (g *Group) promote(f *Sequence) {
	o, key := g.owner, f.key()
	old := o.sequences[key]
	f.mu.Lock()
	was := f.owner.Load()
	if was != o && was.member != nil && !was.gone.Load() {
		f.join(was.member)
	}
	if f.state == Held {
		was.held.Add(-1)
		o.held.Add(1)
	}
	f.owner.Store(o)
	f.mu.Unlock()
	g.remove(f)
	o.sequences[key] = f
	switch {
	case old == nil || old == f:
	case old.isDropped():
	case old.Remembers() || len(old.gate) > 0:
		g.add(old)
	default:
		old.mu.Lock()
		old.drop()
		old.dropped = true
		old.mu.Unlock()
	}
}

// Settle is called by whoever has entered s, before a command: it takes in what the group's other
// connections have read. It reports false if s is to be left and Present to be asked again; once the
// channel is closed, if there is one: somebody is just reading the session.
func (s *Sequence) Settle() (bool, <-chan struct{}) {
	if s.isDropped() {
		return false, nil
	}
	settled, stirred := s.settle()
	if settled {
		s.turns.Add(1)
	}
	return settled, stirred
}

func (s *Sequence) settle() (bool, <-chan struct{}) {
	if s.apart {
		return true, nil
	}
	o, key := s.owner.Load(), s.key()
	g := o.self
	if g == nil {
		return true, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sequences[key] != s {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		k := g.kin[key]
		if k == nil {
			return true, nil
		}
		f := k.next(s)
		if f == nil {
			return true, nil
		}
		select {
		case f.gate <- struct{}{}:
		default:
			f.lending.want()
			return false, k.change()
		}
		if f.newer(s) {
			g.promote(f)
			f.absorb(s)
			g.remove(s)
			<-f.gate
			return false, nil
		}
		g.remove(f)
		s.absorb(f)
		f.owner.Store(o)
		<-f.gate
	}
}

// next is the next sequence to take in.
func (k *kin) next(into *Sequence) *Sequence {
	for _, f := range k.all {
		if f != into && !f.lined.Load() {
			return f
		}
	}
	return nil
}

// newer reports whether s was granted the session after other. A sequence that was broken has no grant any more, but
// something to report.
func (s *Sequence) newer(other *Sequence) bool {
	mine, its := s.rank(), other.rank()
	return slices.Compare(mine[:], its[:]) > 0
}

// rank tells how new what the sequence stands on is.
func (s *Sequence) rank() [3]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case Free:
		return [3]uint64{}
	case Broken:
		return [3]uint64{1}
	case Seen:
		return [3]uint64{2, s.seen.Grant, s.seen.Seq}
	}
	return [3]uint64{3, s.grant}
}

// absorb takes in what f has read, and drops f. It is stale, unless both stand on the same: only what was
// read without a hold may. Somebody is inside both.
func (s *Sequence) absorb(f *Sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.state == Seen && f.state == Seen && s.seen == f.seen {
		s.reads.join(&f.reads)
		s.pending = s.pending || f.pending
	} else {
		s.reads.merge(&f.reads, f.pending || f.state == Broken)
	}
	s.trials = append(s.trials, f.trials[:min(len(f.trials), maxTried-min(len(s.trials), maxTried))]...)
	f.trials = nil
	for member := range f.members {
		s.join(member)
	}
	if was := f.owner.Load(); was.member != nil && !was.gone.Load() {
		s.join(was.member)
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.reads.clear()
	f.broken = nil
	f.setState(Free)
	f.drop()
	f.dropped = true
}
