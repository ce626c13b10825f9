package rule

import (
	"iter"
	"reflect"
	"slices"
	"strings"
)

// Guards reports whether commands on the rule's keys are guarded; no rule guards nothing.
func (r *Rule) Guards() bool { return r != nil && r.Mode != ModePass }

// Enforces reports whether a rule, which may be nil, may refuse anything.
func (r *Rule) Enforces() bool { return r.Guards() && r.Mode != ModeObserve }

// PlacedAs reports whether keys that fall to r or to o have the same session and owner under either.
func (r *Rule) PlacedAs(o *Rule) bool {
	return r.Name == o.Name && r.Prefix == o.Prefix && r.Session == o.Session && r.Owner == o.Owner && r.Guards() == o.Guards()
}

// Keeping returns the set with the rules that are as they were in old being old's own, so that whatever goes by them
// goes on.
func (s *Set) Keeping(old *Set) *Set {
	rules := s.Rules()
	for i, r := range rules {
		if o := old.named(r.Name); o != nil && reflect.DeepEqual(o, r) {
			rules[i] = o
		}
	}
	kept, err := NewSet(rules)
	if err != nil {
		return s // it can't be: they have the names and prefixes of s
	}
	return kept
}

// Moved returns the rules that guard and some of whose keys get another session, another owner or no guard in each of
// the sets that take the place of s.
func (s *Set) Moved(next ...*Set) []*Rule {
	return slices.DeleteFunc(s.Rules(), func(r *Rule) bool {
		stays := func(n *Set) bool { return n.places(r) && !n.parts(r, s) }
		return !r.Guards() || slices.ContainsFunc(next, stays)
	})
}

// places reports whether the set has a rule that places keys as r does.
func (s *Set) places(r *Rule) bool {
	o := s.named(r.Name)
	return o != nil && o.PlacedAs(r)
}

// parts reports whether the set takes keys away from r by a longer prefix that old did not have.
func (s *Set) parts(r *Rule, old *Set) bool {
	return slices.ContainsFunc(s.Rules(), func(o *Rule) bool {
		return len(o.Prefix) > len(r.Prefix) && strings.HasPrefix(o.Prefix, r.Prefix) && !old.places(o)
	})
}

// Changes yields the names of the rules in which next differs, and what became of each: "added", "changed" or "removed".
func (s *Set) Changes(next *Set) iter.Seq2[string, string] {
	return func(yield func(name, what string) bool) {
		for _, r := range next.Rules() {
			o := s.named(r.Name)
			if o == nil && !yield(r.Name, "added") || o != nil && !reflect.DeepEqual(o, r) && !yield(r.Name, "changed") {
				return
			}
		}
		for _, o := range s.Rules() {
			if next.named(o.Name) == nil && !yield(o.Name, "removed") {
				return
			}
		}
	}
}

func (s *Set) named(name string) *Rule {
	for _, r := range s.Rules() {
		if r.Name == name {
			return r
		}
	}
	return nil
}
