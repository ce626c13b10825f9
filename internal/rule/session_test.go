package rule

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
)

func compiled(tb testing.TB, prefix, session string) *Rule {
	tb.Helper()
	r, err := New(Rule{Name: "test", Prefix: prefix, Session: session})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestSessionIsTakenFromTheKey(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, key, want string }{
		{"", "any:key", "any:key"},
		{"", "=any", "=any"},
		{"agent:ctx:<session>:*", "agent:ctx:s42:history", "s42"},
		{"agent:ctx:<session>:*", "agent:ctx:s42:a:b", "s42"},
		{"agent:ctx:<session>:*", "agent:ctx:s42:", "s42"},
		{"agent:ctx:<session>:*", "agent:ctx:s42", "=agent:ctx:s42"},
		{"agent:ctx:<session>:*", "agent:ctx::x:y", ":x"}, // a capture is never empty
		{"agent:ctx:<session>:*", "agent:ctx:", "=agent:ctx:"},
		{"agent:ctx:<session>:*", "agent:ctx:=x:y", `\=x`},
		{"agent:ctx:<session>:*", `agent:ctx:\=x:y`, `\\=x`},
		{"agent:ctx:<session>:*", `agent:ctx:a\b:y`, `a\b`},
		{"agent:ctx:<session>:*", "agent:ctx:\x00\xff:y", "\x00\xff"},
		{"agent:<session>", "agent:a:b:c", "a:b:c"},
		{"<session>", "k", "k"},
		{"<session>", "", "="},
		{"<session>:state", "a:state:b:state", "a:state:b"}, // the closing text is at the end
		{"<session>:state", "a:state:b", "=a:state:b"},
		{"<session>:state", ":state", "=:state"},
		{"{<session>}:*", "{s42}:history", "s42"},
		{"*:{<session>}", "agent:{s42}", "s42"},
		{"*:<session>:state", "app:v2:s42:state", "v2:s42"},
		{"a*b<s>b", "abbb", "b"},
		{"a*b<s>b", "abb", "=abb"},
		{"t:<tenant>:<session>", "t:acme:s42", "acme:s42"},
		{"t:<tenant>:<session>", "t:acme:s42:x", `acme:s42\:x`},
		{"t:<tenant>/<session>", "t:a:b/c", `a\:b:c`},
		{"t:<tenant>/<session>", "t:a/b:c", `a:b\:c`},
		{"t:<tenant>/<session>", "t:=/=", `\=:=`},
		{"t:<tenant>/<session>", `t:\/\`, `\\:\\`},
		{`k\*\<<s>\\>`, `k*<x\>`, "x"},
	} {
		t.Run(tc.pattern+" "+tc.key, func(t *testing.T) {
			t.Parallel()
			got := compiled(t, "", tc.pattern).AppendSession([]byte("before "), []byte(tc.key))
			if string(got) != "before "+tc.want {
				t.Errorf("got %q, want %q", got, "before "+tc.want)
			}
		})
	}
}

func TestSessionAllocatesNothingWhenThereIsRoom(t *testing.T) {
	dst := make([]byte, 0, 256)
	for _, pattern := range []string{"", "agent:ctx:<session>:*", "agent:<kind>:<session>:*", "agent:ctx:<session>:*:end"} {
		r := compiled(t, "agent:", pattern)
		key := []byte("agent:ctx:s42:history")
		if n := testing.AllocsPerRun(100, func() { r.AppendSession(dst, key) }); n != 0 {
			t.Errorf("%q: %v allocations", pattern, n)
		}
	}
}

func TestSessionOfAHostileKeyTakesLinearTime(t *testing.T) {
	t.Parallel()
	r := compiled(t, "", "<a>aab<b>aab*aab*aab<c>x")
	key := bytes.Repeat([]byte("a"), 8<<20)
	copy(key[4<<20:], "aabcaabcaab")
	start := time.Now()
	r.AppendSession(nil, key)
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %s", d)
	}
}

// latin1 gives each byte a rune of its own, for regexp knows no bytes.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// equivalent writes the pattern as a regular expression.
func equivalent(p *pattern) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A` + regexp.QuoteMeta(latin1(string(p.head))))
	for _, w := range p.parts {
		if w.name == "" {
			b.WriteString(".*?")
		} else {
			b.WriteString("(.+?)")
		}
		b.WriteString(regexp.QuoteMeta(latin1(string(w.until))))
	}
	return regexp.MustCompile(b.String() + `\z`)
}

// split takes a session text apart again, by the rules in the package comment;
// ok is false for the text of a whole key.
func split(text string, captures int) (values []string, ok bool) {
	if strings.HasPrefix(text, "=") {
		return []string{text[1:]}, false
	}
	if captures == 1 {
		return []string{strings.TrimPrefix(text, `\`)}, true
	}
	value := ""
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':':
			values, value = append(values, value), ""
			continue
		case '\\':
			i++
		}
		value += text[i : i+1]
	}
	return append(values, value), true
}

// agree checks a rule against its regular expression, and that the captures
// can be had back from the session text, so that no two collide.
func agree(t *testing.T, session, key string) (fits bool) {
	t.Helper()
	r, err := New(Rule{Name: "test", Session: session})
	if err != nil || r.pattern == nil {
		return false
	}
	text := string(r.AppendSession(nil, []byte(key)))
	got, fits := split(text, r.pattern.captures)
	want := []string{latin1(key)}
	m := equivalent(r.pattern).FindStringSubmatch(latin1(key))
	if m != nil {
		want = m[1:]
	}
	for i := range got {
		got[i] = latin1(got[i])
	}
	if fits != (m != nil) || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("pattern %q, key %q: text %q, captures %q (fits %v), regexp %q (fits %v)", session, key, text, got, fits, want, m != nil)
	}
	return fits
}

func TestSessionAgreesWithTheRegularExpression(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	literals := []string{"a", "b", "ab", "aab", ":", `\\`, "=", "\xff"}
	fits := 0
	for range 30_000 {
		var pattern, key strings.Builder
		literal := func() string {
			if random.IntN(3) == 0 {
				return ""
			}
			return literals[random.IntN(len(literals))]
		}
		add := func(l string) {
			pattern.WriteString(l)
			key.WriteString(strings.ReplaceAll(l, `\\`, `\`))
		}
		add(literal())
		for i := range 1 + random.IntN(4) {
			if i > 0 {
				add(literals[random.IntN(len(literals))])
			}
			if i == 0 || random.IntN(3) > 0 {
				fmt.Fprintf(&pattern, "<c%d>", i)
			} else {
				pattern.WriteString("*")
			}
			for range random.IntN(4) {
				key.WriteString(strings.ReplaceAll(literals[random.IntN(len(literals))], `\\`, `\`))
			}
		}
		add(literal())
		if agree(t, pattern.String(), key.String()) {
			fits++
		}
	}
	if fits < 10_000 {
		t.Errorf("only %d keys fitted: the test is weak", fits)
	}
}

func FuzzSession(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "key"},
		{"agent:ctx:<session>:*", "agent:ctx:s42:history"},
		{"<a>:<b>", "=a:b:c"},
		{"*a<b>a*a", "aabaaba"},
		{`\<<a>\*`, "<x*"},
		{"<a>x<b>x", "\xff\x00xx"},
		{"<a", "b"},
		{`<a>\`, ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, session, key string) {
		if len(session) > 100 || len(key) > 1000 {
			return // the regular expression would take too long
		}
		agree(t, session, key)
	})
}

func BenchmarkSession(b *testing.B) {
	r := compiled(b, "agent:ctx:", "agent:ctx:<session>:*")
	key := []byte("agent:ctx:0b9c7a52-2f53-4c5e-9d7e:history")
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		dst = r.AppendSession(dst[:0], key)
	}
}
