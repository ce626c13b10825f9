package rule

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func setOf(tb testing.TB, prefixes ...string) *Set {
	tb.Helper()
	var rules []*Rule
	for i, p := range prefixes {
		r, err := New(Rule{Name: fmt.Sprint("r", i), Prefix: p})
		if err != nil {
			tb.Fatal(err)
		}
		rules = append(rules, r)
	}
	s, err := NewSet(rules)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestTheLongestPrefixWins(t *testing.T) {
	t.Parallel()
	s := setOf(t, "agent:", "agent:ctx:", "agent:ctx:pub:", "job:", "\xff\x00")
	for key, want := range map[string]string{
		"agent:ctx:pub:1": "r2", "agent:ctx:1": "r1", "agent:ctx:": "r1", "agent:ctx": "r0", "agent:": "r0",
		"job:1": "r3", "\xff\x00\xff": "r4", "agent": "", "": "", "Agent:ctx:1": "",
	} {
		got := ""
		if r := s.Match([]byte(key)); r != nil {
			got = r.Name
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}

func TestTheEmptyPrefixMatchesEveryKey(t *testing.T) {
	t.Parallel()
	s := setOf(t, "a", "")
	for key, want := range map[string]string{"": "r1", "b": "r1", "a": "r0"} {
		if got := s.Match([]byte(key)); got == nil || got.Name != want {
			t.Errorf("%q: got %v, want %s", key, got, want)
		}
	}
}

func TestAnEmptySetMatchesNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Set{"nil": nil, "no rules": setOf(t)} {
		if !s.Empty() || s.Match([]byte("key")) != nil || len(s.Rules()) != 0 {
			t.Errorf("%s: is not empty", name)
		}
	}
	if setOf(t, "a").Empty() {
		t.Error("a set with a rule is empty")
	}
}

func TestEqualNamesAndPrefixesAreRefused(t *testing.T) {
	t.Parallel()
	a, _ := New(Rule{Name: "a", Prefix: "x:"})
	b, _ := New(Rule{Name: "b", Prefix: "x:"})
	other, _ := New(Rule{Name: "a", Prefix: "y:"})
	_, err := NewSet([]*Rule{a, b, other})
	const want = "rules \"a\" and \"b\" have the same prefix \"x:\": join them, or make one prefix longer\n" +
		"two rules are named \"a\": give each its own name"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestMatchAgreesWithAScanOfAllPrefixes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	word := func(most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteByte("ab"[random.IntN(2)])
		}
		return b.String()
	}
	for range 200 {
		distinct := map[string]bool{}
		for range 10 {
			distinct[word(6)] = true
		}
		var prefixes []string
		for p := range distinct {
			prefixes = append(prefixes, p)
		}
		s := setOf(t, prefixes...)
		for range 50 {
			key, want, found := word(8), "", false
			for _, p := range prefixes {
				if strings.HasPrefix(key, p) && (!found || len(p) > len(want)) {
					want, found = p, true
				}
			}
			got := s.Match([]byte(key))
			if (got != nil) != found || found && got.Prefix != want {
				t.Fatalf("%q in %q: got %v, want %q", key, prefixes, got, want)
			}
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	s := setOf(t, "agent:", "agent:ctx:", "job:")
	key := []byte("agent:ctx:s42:history:" + strings.Repeat("x", 100))
	if n := testing.AllocsPerRun(100, func() { s.Match(key) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatchAmongManyRules(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			prefixes := make([]string, n)
			for i := range prefixes {
				prefixes[i] = fmt.Sprintf("agent:%04d:", i)
			}
			s := setOf(b, prefixes...)
			key := []byte("agent:0000:s42")
			b.ReportAllocs()
			for b.Loop() {
				s.Match(key)
			}
		})
	}
}

func TestKeysOfAPrefixMayAllBeOfOneSession(t *testing.T) {
	t.Parallel()
	rule := func(name, prefix, session string) *Rule {
		r := compiled(t, prefix, session)
		r.Name = name
		return r
	}
	set, err := NewSet([]*Rule{
		rule("checkpoints", "checkpoint", "checkpoint*:<thread>:*"),
		rule("writes", "checkpoint_write:", ""),
		rule("one", "checkpoint:t-9:own:", "checkpoint:t-9:own:<x>"),
		rule("two", "two:", "two:<a>:<b>:*"),
		rule("closed", "closed:", "closed:<a>:*:end"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]string{
		"checkpoint:t-1:":      "t-1",
		"checkpoint:t-1::ns:":  "t-1",
		"checkpoint_blob:t-1:": "t-1",
		"checkpoint:t-1":       "", // and t-10
		"checkpoint:":          "",
		"checkpoint":           "",
		"checkpoint:t-9:":      "", // some are of another rule
		"checkpoint:t-9:ow":    "",
		"checkpoint:t-9:own:1": "", // and 10
		"checkpoint_write:t-1": "", // each key is a session
		"two:a:":               "",
		"two:a:b:":             "a:b",
		"closed:a:":            "", // those that do not end so are sessions of their own
		"none:":                "",
		"":                     "",
	} {
		got := ""
		if r := set.Within([]byte(prefix)); r != nil {
			got = string(r.AppendSession(nil, []byte(prefix)))
			for _, more := range []string{"", "x", ":", "a:b:c", "own"} {
				key := []byte(prefix + more)
				if text := string(r.AppendSession(nil, key)); set.Match(key) != r || text != got {
					t.Errorf("%q: %q is of rule %q, session %q", prefix, key, set.Match(key).Name, text)
				}
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}
