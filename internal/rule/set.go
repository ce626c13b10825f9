package rule

import (
	"errors"
	"fmt"
	"slices"
)

// Set finds the rule of a key. It never changes once built; a nil *Set is the
// empty one.
type Set struct {
	rules  []*Rule
	levels []level // longest prefixes first
}

// level holds the rules whose prefixes have one length.
type level struct {
	length int
	rules  map[string]*Rule
}

// NewSet makes a set of compiled rules. Two rules with the same name or the
// same prefix are refused.
func NewSet(rules []*Rule) (*Set, error) {
	s := &Set{rules: slices.Clone(rules)}
	var errs []error
	names := make(map[string]bool)
	byLength := make(map[int]map[string]*Rule)
	for _, r := range rules {
		if names[r.Name] {
			errs = append(errs, fmt.Errorf("two rules are named %q: give each its own name", r.Name))
		}
		names[r.Name] = true
		n := len(r.Prefix)
		if byLength[n] == nil {
			byLength[n] = make(map[string]*Rule)
			s.levels = append(s.levels, level{length: n, rules: byLength[n]})
		}
		if other := byLength[n][r.Prefix]; other != nil {
			errs = append(errs, fmt.Errorf("rules %q and %q have the same prefix %q: join them, or make one prefix longer", other.Name, r.Name, r.Prefix))
			continue
		}
		byLength[n][r.Prefix] = r
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(s.levels, func(a, b level) int { return b.length - a.length })
	return s, nil
}

// Match returns the rule with the longest prefix of key, or nil if there is
// none. It may be a rule whose mode is [ModePass]. The cost grows with the
// number of different prefix lengths, not with the number of rules, and nothing
// is allocated.
func (s *Set) Match(key []byte) *Rule {
	if s == nil {
		return nil
	}
	for i := range s.levels {
		l := &s.levels[i]
		if l.length > len(key) {
			continue
		}
		if r := l.rules[string(key[:l.length])]; r != nil {
			return r
		}
	}
	return nil
}

// Reached returns the rules of the keys that begin with prefix, as far as that can be told: that of the prefix itself, and
// those of longer ones.
func (s *Set) Reached(prefix []byte) []*Rule {
	var reached []*Rule
	if r := s.Match(prefix); r != nil {
		reached = append(reached, r)
	}
	for _, r := range s.Rules() {
		if len(r.Prefix) > len(prefix) && r.Prefix[:len(prefix)] == string(prefix) {
			reached = append(reached, r)
		}
	}
	return reached
}

// Within returns the rule of the keys that begin with prefix if all of them are of one session, which is then that of
// prefix itself as [Rule.AppendSession] tells it; else nil.
func (s *Set) Within(prefix []byte) *Rule {
	r := s.Match(prefix)
	if r == nil || r.pattern == nil || !r.pattern.holds(prefix) || len(s.Reached(prefix)) > 1 {
		return nil
	}
	return r
}

// Rules returns the rules in the order they were given. The slice is the
// caller's.
func (s *Set) Rules() []*Rule {
	if s == nil {
		return nil
	}
	return slices.Clone(s.rules)
}

// Named returns the rule of a name, or nil.
func (s *Set) Named(name string) *Rule {
	if s == nil {
		return nil
	}
	for _, r := range s.rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// Empty reports whether the set has no rule at all.
func (s *Set) Empty() bool { return s == nil || len(s.rules) == 0 }
