package proxy

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Rules can be revised while sequences are under way. A sequence keeps the rule that it began with. If the same key has
// the same session before and after, that is all. If not, a read under the old session and a write under the new one would
// not see each other. Hence, for a time (overlap), commands on such a key belong to both sessions: what was read under the
// old one alone is fenced by it, whoever comes by either. After that nothing tells any more whether it is stale, and the
// write of it is refused.
//
// A key that no rule guards any more belongs to its old session only for the owner whose sequence there is open, until
// that ends.

// overlap is how long keys that a revision moves belong to their old session, too, unless a hold may last longer: longer
// than any command waits, and than all proxies take to hear of it (a ConfigMap reaches them within two minutes).
const overlap = 5 * time.Minute

// retireEvery is how often it is looked whether former rules may be forgotten.
const retireEvery = time.Minute

// rulebook is the rules that count. Reading it is safe for concurrent use.
type rulebook struct {
	edition atomic.Pointer[edition]

	revising sync.Mutex
	longest  time.Duration // that a hold may last under any rule so far
}

// edition is the rules between two revisions. It does not change.
type edition struct {
	set    *rule.Set
	former []former // newest first
	// births says of each rule when sessions were first placed as it places them, counted in revisions: who takes
	// several sessions takes the older ones first, so that nobody waits in another order than before. nil: all at first.
	births map[*rule.Rule]int
}

// former is a set that counted before.
type former struct {
	set   *rule.Set
	moved []*rule.Rule // its rules some of whose keys are elsewhere by every set since
	at    time.Time    // when another took its place
	until time.Time    // when the overlap ends
}

func newRulebook(set *rule.Set) *rulebook {
	b := new(rulebook)
	b.edition.Store(&edition{set: set})
	return b
}

// now returns the present edition.
func (b *rulebook) now() *edition { return b.edition.Load() }

// Match returns the rule of a key, or nil.
func (b *rulebook) Match(key []byte) *rule.Rule { return b.now().set.Match(key) }

// revise puts next in the place of the present rules.
func (b *rulebook) revise(next *rule.Set, now time.Time) {
	b.revising.Lock()
	defer b.revising.Unlock()
	e := b.now()
	next = next.Keeping(e.set)
	for _, r := range e.set.Rules() {
		b.longest = max(b.longest, r.MaxHold)
	}
	var formers []former
	newer := []*rule.Set{next}
	for _, f := range slices.Insert(slices.Clone(e.former), 0, former{set: e.set, at: now, until: now.Add(max(overlap, b.longest))}) {
		f.moved = f.set.Moved(newer...)
		if newer = append(newer, f.set); len(f.moved) > 0 {
			formers = append(formers, f)
		}
	}
	b.edition.Store(&edition{set: next, former: formers, births: e.born(next, formers)})
}

// born returns the births when next comes after e.
func (e *edition) born(next *rule.Set, formers []former) map[*rule.Rule]int {
	births, latest := map[*rule.Rule]int{}, 0
	known := e.births
	if known == nil {
		known = map[*rule.Rule]int{}
		for _, r := range e.set.Rules() {
			known[r] = 0
		}
	}
	for _, birth := range known {
		latest = max(latest, birth)
	}
	for _, r := range next.Rules() {
		births[r] = latest + 1
		for o, birth := range known {
			if o.PlacedAs(r) {
				births[r] = min(births[r], birth)
			}
		}
	}
	for _, f := range formers {
		for _, r := range f.moved {
			births[r] = known[r]
		}
	}
	return births
}

// retire forgets the former rules whose time is over and under which no sequence is open.
func (b *rulebook) retire(now time.Time, open func(of func(*rule.Rule) bool) bool) {
	b.revising.Lock()
	defer b.revising.Unlock()
	e := b.now()
	kept := slices.DeleteFunc(slices.Clone(e.former), func(f former) bool {
		return f.over(now) && !open(func(r *rule.Rule) bool { return slices.ContainsFunc(f.moved, r.PlacedAs) })
	})
	if len(kept) < len(e.former) {
		b.edition.Store(&edition{set: e.set, former: kept, births: e.births})
	}
}

func (f *former) over(now time.Time) bool { return !now.Before(f.until) }

// empty reports whether no key is guarded, nor has been.
func (e *edition) empty() bool { return e.set.Empty() && len(e.former) == 0 }

// Revise puts rules and limits in the place of those that counted so far. Sequences under way keep their rule, and
// connections their limits of what is kept for them.
func (s *Server) Revise(rules *rule.Set, limits Limits) {
	s.rules.revise(rules, time.Now())
	s.limits.Store(&limits)
}

// Rules returns the rules that count now.
func (s *Server) Rules() []*rule.Rule { return s.rules.now().set.Rules() }

// watchRules forgets, now and then, what is left of earlier rules and is not needed any more. The function that it
// returns ends that.
func (s *Server) watchRules() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(retireEvery)
		defer look.Stop()
		for {
			select {
			case now := <-look.C:
				s.rules.retire(now, s.locks.Open)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// place notes what a key of a database means: the sessions that it is in, now and from before. It reports whether it is
// in any.
func (c *client) place(p *plan, db int, key []byte, writes bool) (guarded bool) {
	if s := c.granted(key); s != nil && db == c.state.db {
		p.add(s, key, 0)
		return true
	}
	r := p.rules.set.Match(key)
	if p.aged = len(p.rules.former) > 0; p.aged {
		guarded = c.placeBefore(p, db, r, key, writes)
	}
	switch {
	case !r.Guards():
		return guarded
	case c.onlyLooks(r):
		if p.looks = true; !writes {
			return guarded
		}
	}
	c.session = r.AppendSession(c.session[:0], key)
	s := c.ownerOf(r).Sequence(c.srv.area(r, db, key), r, c.session).Under(r, writes)
	q := p.add(s, key, p.rules.births[r])
	if writes {
		c.unnamed(q, key)
	}
	return true
}

// placeBefore notes the sessions that a key was in before; r is the rule that it falls to now.
func (c *client) placeBefore(p *plan, db int, r *rule.Rule, key []byte, writes bool) (guarded bool) {
	now := time.Now()
	for i := range p.rules.former {
		f := &p.rules.former[i]
		old := f.set.Match(key)
		if !slices.Contains(f.moved, old) || !writes && c.onlyLooks(old) {
			continue
		}
		owner := c.ownerOf(old)
		c.session = old.AppendSession(c.session[:0], key)
		s, state := owner.Open(c.srv.area(old, db, key), old, c.session)
		ended := state != lock.Held && state != lock.Broken
		switch {
		case r.Guards() && old.Name == r.Name && bytes.Equal(c.session, r.AppendSession(nil, key)):
			if s == nil || owner == c.ownerOf(r) {
				continue // it is all one
			}
		case r.Guards() && !f.over(now):
			s = owner.Sequence(c.srv.area(old, db, key), old, c.session)
		case s == nil:
			continue
		case ended && !writes:
			p.before = append(p.before, s)
			continue
		case r.Guards() && state == lock.Held && !s.HeldBefore(f.at):
			continue // it began when both sessions counted
		case r.Guards() && ended:
			s.Outdate()
		}
		p.add(s, key, p.rules.births[old])
		guarded = true
	}
	return guarded
}
