package lock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// maxSequences bounds the sequences that one owner may have before those with nothing to lose are
// dropped, and then the longest ended ones.
const maxSequences = 4096

// Owner is one party: its reads and writes belong together. It is made by Manager.Owner and ends
// with Close.
type Owner struct {
	// ID is unique among all owners of all proxies.
	ID      string
	manager *Manager

	shared      bool         // it has several connections
	self        *Group       // whose connections it stands for; nil: not for a group's
	interleaves atomic.Bool  // a second task seems to have written
	crowded     atomic.Bool  // several tasks are at work at once for certain
	vain        atomic.Int64 // how often stragglers were waited for in vain since one has come
	gone        atomic.Bool  // its connection has closed

	mu        sync.Mutex
	identity  tokenstore.Identity
	claims    map[*rule.Rule]*tokenstore.Claim
	sequences map[sequenceKey]*Sequence
	spanning  map[spanKey]map[tokenstore.Area]struct{} // where its sequences are of sessions that span slots
	held      atomic.Int64                             // sessions
	client    string                                   // what is learnt of it is learnt of all owners with this, too
	kinds     map[ownKey]*kind                         // guarded by the learner

	groups map[rule.ClientBy]*Group // that its connection belongs to
	member any                      // its connection

	paces sync.Mutex
	pace  map[*rule.Rule]time.Duration // how long its tasks take from a read to its write, at most
}

// sequenceKey is what a record is made of: a rule that is configured anew has the records of its name.
type sequenceKey struct {
	at            tokenstore.Area
	rule, session string
}

func keyOf(r *tokenstore.Record) sequenceKey { return sequenceKey{r.Area, r.Rule, r.Session} }

// Identify sets who the owner is, for messages; holds taken from now on carry it.
func (o *Owner) Identify(id tokenstore.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.identity != id {
		o.identity = id
		clear(o.claims)
	}
}

// Belongs says of which client the owner is one: mode auto predicts what it does from what others of the client
// did.
func (o *Owner) Belongs(client string) {
	o.manager.learner.mu.Lock()
	defer o.manager.learner.mu.Unlock()
	if o.client != client {
		o.client, o.kinds = client, nil
	}
}

// Sequence returns the owner's sequence on a session, a Free one under r if it has none.
func (o *Owner) Sequence(at tokenstore.Area, r *rule.Rule, session []byte) *Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sequence(sequenceKey{at, r.Name, string(session)}, r)
}

// sequence is Sequence, with mu held.
func (o *Owner) sequence(key sequenceKey, r *rule.Rule) *Sequence {
	if key.at.Spans {
		o.spans(key)
	}
	if s := o.sequences[key]; s != nil && s.owner.Load() == o {
		return s
	}
	if len(o.sequences) >= maxSequences {
		o.sweep(time.Now())
	}
	s := o.newSequence(tokenstore.NewRecord(key.at, r.Name, key.session), r)
	o.sequences[key] = s
	return s
}

// newSequence returns a Free sequence that the owner does not know yet. Called with mu held.
func (o *Owner) newSequence(record *tokenstore.Record, r *rule.Rule) *Sequence {
	claim := o.claims[r]
	if claim == nil {
		claim = tokenstore.NewClaim(o.ID, o.identity, r.Lease, r.RecordTTL)
		o.claims[r] = claim
	}
	s := &Sequence{
		Record: record, Claim: claim, Rule: r,
		manager: o.manager, group: o.groupOf(r), gate: make(chan struct{}, 1),
	}
	s.owner.Store(o)
	return s
}

// peek returns the sequence on a session, nil if there is none.
func (o *Owner) peek(key sequenceKey) *Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sequences[key]
}

// Crowd says that several tasks of the owner are at work at once: one has sent a command before another's was answered.
func (o *Owner) Crowd() {
	o.crowded.Store(true)
	o.interleaves.Store(true)
}

// Crowded reports whether that was said.
func (o *Owner) Crowded() bool { return o.crowded.Load() }

// Share says that the owner has several connections.
func (o *Owner) Share() { o.shared = true }

// sweep makes room for a while: first what nobody would miss, then of the sequences that hold nothing those
// that were used least lately. A write that comes after its sequence was forgotten counts as a blind one.
func (o *Owner) sweep(now time.Time) {
	const room = maxSequences / 8
	type entry struct {
		key sequenceKey
		s   *Sequence
		at  time.Time
	}
	var old []entry
	for key, s := range o.sequences {
		if s.owner.Load() != o {
			delete(o.sequences, key) // it has become a group's
			continue
		}
		if !s.TryEnter() {
			continue // somebody is inside
		}
		if s.idleAway(now) {
			o.drop(key, s)
		} else if state := s.State(); state == Ended || state == Seen {
			old = append(old, entry{key, s, s.lastUsed()})
		}
		s.Leave()
	}
	slices.SortFunc(old, func(a, b entry) int { return a.at.Compare(b.at) })
	for _, e := range old {
		if len(o.sequences) <= maxSequences-room {
			return
		}
		if e.s.TryEnter() {
			o.drop(e.key, e.s)
			e.s.Leave()
		}
	}
}

// drop takes a sequence out. Whoever was about to enter it finds that out inside (Dropped).
func (o *Owner) drop(key sequenceKey, s *Sequence) {
	delete(o.sequences, key)
	if key.at.Spans {
		o.unspans(key)
	}
	if g := s.group; g != nil {
		g.mu.Lock()
		g.remove(s)
		g.mu.Unlock()
	}
	s.mu.Lock()
	s.dropped = true
	s.mu.Unlock()
}

// Holds returns how many sessions the owner holds.
func (o *Owner) Holds() int { return int(o.held.Load()) }

// Find returns the owner's sequence on a session, nil if it has none.
func (o *Owner) Find(at tokenstore.Area, r *rule.Rule, session []byte) *Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sequences[sequenceKey{at, r.Name, string(session)}]
}

// All returns the owner's sequences on a session, in all slots that it spans.
func (o *Owner) All(at tokenstore.Area, r *rule.Rule, session []byte) []*Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	areas := map[tokenstore.Area]struct{}{at: {}}
	if at.Spans {
		areas = o.spanning[spanKey{o.ID, r.Name, string(session)}]
	}
	var all []*Sequence
	for in := range areas {
		if s := o.sequences[sequenceKey{in, r.Name, string(session)}]; s != nil {
			all = append(all, s)
		}
	}
	return all
}

// BreakOff releases all holds; what the owner has read can't be written any more, and it is told so
// at its next command on each session. It returns without waiting for the store.
func (o *Owner) BreakOff(reason Reason) {
	for _, s := range o.all() {
		o.manager.Detach(func(ctx context.Context) { s.doom(ctx, reason) })
	}
}

// Unwritten reports whether the owner has read something that it may be about to write.
func (o *Owner) Unwritten() bool {
	return slices.ContainsFunc(o.all(), func(s *Sequence) bool { return s.State() != Free && s.Rule.Mode != rule.ModeObserve })
}

// Unwrites reports whether a connection has read something in the owner's sequences that it may be about to
// write.
func (o *Owner) Unwrites(member any) bool {
	return slices.ContainsFunc(o.all(), func(s *Sequence) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, in := s.members[member]
		return in && s.state != Free
	})
}

// Leave ends a connection's part in the owner's sequences; a hold in which nobody else has a part
// is released at once, and what was read under it may still be written. It returns without waiting
// for the store.
func (o *Owner) Leave(member any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.sequences { // none is succeeded meanwhile
		if s.leave(member) {
			o.manager.Detach(func(ctx context.Context) { s.close(ctx, false) })
		}
	}
}

// Close releases all holds. What the connection of a group has read may still be written over another
// one. It returns without waiting for the store: Manager.Close does.
func (o *Owner) Close() {
	o.gone.Store(true)
	o.manager.forget(o)
	for _, s := range o.all() {
		o.manager.Detach(func(ctx context.Context) {
			if s.group == nil || o.self != nil {
				s.close(ctx, true)
				return
			}
			s.close(ctx, false)
			s.group.orphaned(s)
		})
	}
}

func (o *Owner) all() []*Sequence {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make([]*Sequence, 0, len(o.sequences))
	for _, s := range o.sequences {
		if s.owner.Load() == o {
			all = append(all, s)
		}
	}
	return all
}
