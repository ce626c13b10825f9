package lock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Group is the connections of one client, which may turn out to pool them: the write of a task then comes
// over another connection than its read. Until then each is an owner of its own (Owner.Belong), and the
// group keeps an index of what they hold, remember or are just reading. From then on (Pool) the group's
// own owner stands for all of them, and takes over what the index has (move.go).
//
// Locks are taken in this order: the group's owner's, the group's, a sequence's.
type Group struct {
	owner  *Owner // all connections as one
	pooled atomic.Bool

	mu      sync.Mutex
	kin     map[sequenceKey]*kin
	orphans int // sequences in kin whose connection has closed
}

// kin are the sequences of a group's connections on one session.
type kin struct {
	all     []*Sequence
	stirred chan struct{} // closed at the next change; nil: nobody waits for one
}

// Group returns a new group; the caller closes it.
func (m *Manager) Group(id tokenstore.Identity) *Group {
	g := &Group{owner: m.Owner(id), kin: map[sequenceKey]*kin{}}
	g.owner.self, g.owner.shared = g, true
	return g
}

// Owner is all of the group's connections as one.
func (g *Group) Owner() *Owner { return g.owner }

// Pooled reports whether the group's connections are one owner for rules that leave that open.
func (g *Group) Pooled() bool { return g.pooled.Load() }

// Pool makes them one from now on, and reports whether they were not before.
func (g *Group) Pool() bool { return !g.pooled.Swap(true) }

// Close ends the group, and forgets what it has read.
func (g *Group) Close() {
	g.owner.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.kin {
		k.stir()
	}
	clear(g.kin)
}

// Belong makes the owner, that of one connection, a member of a group, for rules that tell clients by by.
// member stands for the connection in the group's sequences.
func (o *Owner) Belong(by rule.ClientBy, g *Group, member any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.groups == nil {
		o.groups = map[rule.ClientBy]*Group{}
	}
	o.member = member
	if o.groups[by] == g {
		return
	}
	o.groups[by] = g
	for key, s := range o.sequences { // those that matter to nobody are made anew, in the new group
		select {
		case s.gate <- struct{}{}:
			if s.Rule.ClientBy == by && !s.Remembers() {
				o.drop(key, s)
			}
			<-s.gate
		default:
		}
	}
}

// groupOf is the group in whose index a new sequence is, nil if there is no need for one.
func (o *Owner) groupOf(r *rule.Rule) *Group {
	switch {
	case o.self != nil:
		return o.self
	case r.Owner == rule.OwnerAuto:
		return o.groups[r.ClientBy]
	}
	return nil
}

// list takes a connection's own sequence into the index, while somebody is inside.
func (g *Group) list(s *Sequence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.owner.Load() != g.owner {
		g.add(s)
	}
}

func (g *Group) add(s *Sequence) {
	if s.listed {
		return
	}
	s.listed = true
	key := s.key()
	k := g.kin[key]
	if k == nil {
		k = &kin{}
		g.kin[key] = k
	}
	k.all = append(k.all, s)
}

// unlist takes a sequence with nothing to remember out of the index, at the end of a turn.
func (g *Group) unlist(s *Sequence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !s.listed || s.Remembers() {
		return
	}
	g.remove(s)
	if s.owner.Load() == g.owner { // another one took its place while its command waited in line
		s.mu.Lock()
		s.dropped = true
		s.mu.Unlock()
	}
}

func (g *Group) remove(s *Sequence) {
	if !s.listed {
		return
	}
	s.listed = false
	if s.orphan {
		s.orphan = false
		g.orphans--
	}
	key := s.key()
	k := g.kin[key]
	if k == nil {
		return
	}
	k.all = slices.DeleteFunc(k.all, func(other *Sequence) bool { return other == s })
	if len(k.all) == 0 {
		k.stir()
		delete(g.kin, key)
	}
}

// stir wakes those who wait for a change of a session's sequences.
func (g *Group) stir(s *Sequence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k := g.kin[s.key()]; k != nil {
		k.stir()
	}
}

func (k *kin) stir() {
	if k.stirred != nil {
		close(k.stirred)
		k.stirred = nil
	}
}

func (k *kin) change() <-chan struct{} {
	if k.stirred == nil {
		k.stirred = make(chan struct{})
	}
	return k.stirred
}

// orphaned notes that the connection of a sequence has closed: what it has read may still be written over
// another one. They are bounded; of too many those that were used least lately are forgotten.
func (g *Group) orphaned(s *Sequence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !s.listed || s.orphan {
		return
	}
	s.orphan = true
	if g.orphans++; g.orphans <= maxSequences {
		return
	}
	var all []*Sequence
	for _, k := range g.kin {
		for _, f := range k.all {
			if f.orphan {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Sequence) int { return a.lastUsed().Compare(b.lastUsed()) })
	for _, f := range all[:len(all)/4] {
		g.remove(f)
	}
}

func (s *Sequence) key() sequenceKey { return keyOf(s.Record) }

// lineUp notes that whoever is inside waits in line, or does no more.
func (s *Sequence) lineUp(yes bool) {
	s.lined.Store(yes)
	s.lending.lined(yes)
	if s.group != nil {
		s.group.stir(s)
	}
}

// Reads notes that whoever is inside is about to read.
func (s *Sequence) Reads() { s.reading.Store(true) }

// Rests notes that whoever is inside waits for something before it reads, in line for another session say.
func (s *Sequence) Rests() {
	if s.reading.Swap(false) && s.group != nil {
		s.group.stir(s)
	}
}

// Remembers reports whether the sequence holds its session, or has something to say about later writes.
func (s *Sequence) Remembers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.reads.expire(now, s.Rule.MaxHold)
	return s.state != Free && !s.outdated(now) || s.reads.tainted() || len(s.reads.keys) > 0
}

// open reports whether a task may be about to write what it has read over the sequence's connection.
func (s *Sequence) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasRead() || s.reads.anyRival()
}

// Lone reports whether nothing was read that a write now may go back to.
func (s *Sequence) Lone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.hasRead()
}

func (s *Sequence) hasRead() bool {
	now := time.Now()
	s.reads.expire(now, s.Rule.MaxHold)
	switch {
	case s.reads.tainted() || s.state == Broken:
		return true
	case s.state == Free || s.outdated(now):
		return false
	}
	return s.pending || s.reads.anyFresh()
}

// outdated reports whether what was read without a hold, or under one that has ended, is too old to be written.
func (s *Sequence) outdated(now time.Time) bool {
	return (s.state == Ended || s.state == Seen) && now.Sub(s.used) > s.Rule.MaxHold
}

// KinReads reports whether another connection of the same client has read the session and not written it.
func (s *Sequence) KinReads() bool {
	g := s.group
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kin[s.key()]
	return k != nil && slices.ContainsFunc(k.all, func(f *Sequence) bool { return f != s && f.open() })
}

// SiblingReads reports whether another connection of the same client has read the session and not
// written it, while this one has not: the client pools. A read that is just being answered may be such:
// then there is a channel to wait for before it is asked again.
func (s *Sequence) SiblingReads() (bool, <-chan struct{}) {
	g := s.group
	if g == nil || g.Pooled() || !s.Lone() {
		return false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kin[s.key()]
	if k == nil {
		return false, nil
	}
	underWay := false
	for _, f := range k.all {
		if f == s {
			continue
		}
		if f.open() {
			return true, nil
		}
		underWay = underWay || f.reading.Load() && !f.lined.Load()
	}
	if underWay {
		return false, k.change()
	}
	return false, nil
}

// HeldByKin reports whether a holder that the store names is a connection of the same client, or was
// before the client turned out to pool. The channel is closed when something changes about the session.
func (s *Sequence) HeldByKin(owner string) (bool, <-chan struct{}) {
	g := s.group
	if g == nil || owner == s.Claim.Owner {
		return false, nil
	}
	now := g.owner.peek(s.key())
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.kin[s.key()]
	if now != nil && now != s && now.Claim.Owner == owner {
		return true, nil
	}
	if k == nil {
		return false, nil
	}
	for _, f := range k.all {
		if f != s && f.Claim.Owner == owner {
			f.lending.want()
			return true, k.change()
		}
	}
	return false, nil
}
