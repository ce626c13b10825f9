package rule

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func revision(t *testing.T, rules ...Rule) *Set {
	t.Helper()
	var all []*Rule
	for i := range rules {
		compiled, err := New(rules[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, compiled)
	}
	set, err := NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func namesOf(rules []*Rule) (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

func TestARevisionMovesTheKeysThatGetAnotherPlace(t *testing.T) {
	t.Parallel()
	chat := Rule{Name: "chat", Prefix: "chat:"}
	cart := Rule{Name: "cart", Prefix: "cart:"}
	with := func(r Rule, edit func(*Rule)) Rule {
		edit(&r)
		return r
	}
	for name, tc := range map[string]struct {
		next []Rule
		want []string
	}{
		"the same":              {[]Rule{chat, cart}, nil},
		"in another order":      {[]Rule{cart, chat}, nil},
		"other times":           {[]Rule{with(chat, func(r *Rule) { r.Wait, r.Lease = time.Second, time.Second }), cart}, nil},
		"more writes":           {[]Rule{with(chat, func(r *Rule) { r.WritesPerRead = Many }), cart}, nil},
		"another rule":          {[]Rule{chat, cart, {Name: "new", Prefix: "new:"}}, nil},
		"a shorter rule":        {[]Rule{chat, cart, {Name: "new", Prefix: "c"}}, nil},
		"one less":              {[]Rule{cart}, []string{"chat"}},
		"none":                  {nil, []string{"chat", "cart"}},
		"another name":          {[]Rule{with(chat, func(r *Rule) { r.Name = "talk" }), cart}, []string{"chat"}},
		"another prefix":        {[]Rule{with(chat, func(r *Rule) { r.Prefix = "ch" }), cart}, []string{"chat"}},
		"another pattern":       {[]Rule{with(chat, func(r *Rule) { r.Session = "chat:<s>:*" }), cart}, []string{"chat"}},
		"another owner":         {[]Rule{with(chat, func(r *Rule) { r.Owner = OwnerProxy }), cart}, []string{"chat"}},
		"no guard":              {[]Rule{with(chat, func(r *Rule) { r.Mode = ModePass }), cart}, []string{"chat"}},
		"a longer rule":         {[]Rule{chat, cart, {Name: "vip", Prefix: "chat:vip:"}}, []string{"chat"}},
		"a longer rule to pass": {[]Rule{chat, cart, {Name: "vip", Prefix: "chat:vip:", Mode: ModePass}}, []string{"chat"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := namesOf(revision(t, chat, cart).Moved(revision(t, tc.next...))); !slices.Equal(got, tc.want) {
				t.Errorf("moved: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestARuleThatAMoreParticularOneGivesItsKeysBackToIsNotMoved(t *testing.T) {
	t.Parallel()
	all, vip := Rule{Name: "all", Prefix: "a:"}, Rule{Name: "vip", Prefix: "a:vip:"}
	if got := namesOf(revision(t, all, vip).Moved(revision(t, all))); !slices.Equal(got, []string{"vip"}) {
		t.Errorf("moved: %q, want vip", got)
	}
	if got := namesOf(revision(t, all, vip).Moved(revision(t, all, vip))); got != nil {
		t.Errorf("moved: %q, want nothing", got)
	}
}

func TestARuleThatPassesIsNotMoved(t *testing.T) {
	t.Parallel()
	free := Rule{Name: "free", Prefix: "free:", Mode: ModePass}
	if got := namesOf(revision(t, free).Moved(revision(t, Rule{Name: "free", Prefix: "free:"}))); got != nil {
		t.Errorf("moved: %q, want nothing", got)
	}
}

func TestARevisionKeepsTheRulesThatStay(t *testing.T) {
	t.Parallel()
	same := Rule{Name: "same", Prefix: "a:", Session: "a:<s>:*"}
	old := revision(t, same, Rule{Name: "other", Prefix: "b:"})
	next := revision(t, Rule{Name: "other", Prefix: "b:", Idle: time.Second}, same).Keeping(old)
	if next.Match([]byte("a:1:x")) != old.Match([]byte("a:1:x")) {
		t.Error("a rule that stays as it is was made anew")
	}
	if r := next.Match([]byte("b:1")); r == old.Match([]byte("b:1")) || r.Idle != time.Second {
		t.Errorf("a rule that changes was kept: idle %v", r.Idle)
	}
	if got := namesOf(next.Rules()); !slices.Equal(got, []string{"other", "same"}) {
		t.Errorf("the rules are %q", got)
	}
}

func TestChangesAreNamed(t *testing.T) {
	t.Parallel()
	old := revision(t, Rule{Name: "gone", Prefix: "g:"}, Rule{Name: "same", Prefix: "s:"}, Rule{Name: "other", Prefix: "o:"})
	next := revision(t, Rule{Name: "new", Prefix: "n:"}, Rule{Name: "same", Prefix: "s:"}, Rule{Name: "other", Prefix: "o:", Wait: time.Second})
	got, want := maps.Collect(old.Changes(next)), map[string]string{"new": "added", "other": "changed", "gone": "removed"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	var none *Set
	if got := maps.Collect(none.Changes(old)); len(got) != 3 || got["same"] != "added" {
		t.Errorf("to nothing: %v", got)
	}
	for range old.Changes(next) {
		break
	}
}
