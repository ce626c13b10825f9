package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// argv splits a call at spaces; "" stands for an empty argument.
func argv(call string) [][]byte {
	var args [][]byte
	for _, f := range strings.Fields(call) {
		if f == `""` {
			f = ""
		}
		args = append(args, []byte(f))
	}
	return args
}

// written renders keys as "r1 w3", with "?" at the end when not complete.
func written(keys []Key, complete bool) string {
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%c%d", k.Access.String()[0], k.Index))
	}
	if !complete {
		parts = append(parts, "?")
	}
	return strings.Join(parts, " ")
}

func keysOf(t testing.TB, table *Table, args [][]byte) string {
	t.Helper()
	c, ok := table.Lookup(args)
	if !ok {
		t.Fatalf("Lookup(%q): no such command", args)
	}
	return written(c.Keys(nil, args))
}

func TestKeysOfACall(t *testing.T) {
	table := Builtin()
	for _, tc := range []struct{ call, want string }{
		// One key, read or written.
		{"GET k", "r1"},
		{"get k", "r1"},
		{"TYPE k", "r1"},
		{"TTL k", "r1"},
		{"DUMP k", "r1"},
		{"STRLEN k", "r1"},
		{"SET k v", "w1"},
		{"SET k v NX GET", "w1"},
		{"SETNX k v", "w1"},
		{"GETDEL k", "w1"},
		{"GETEX k", "w1"},
		{"GETSET k v", "w1"},
		{"INCR k", "w1"},
		{"APPEND k v", "w1"},
		{"EXPIRE k 1", "w1"},
		{"PERSIST k", "w1"},
		{"RESTORE k 0 data", "w1"},
		{"MOVE k 1", "w1"},
		{"HSET k f v", "w1"},
		{"HGETALL k", "r1"},
		{"ZADD k 1 m", "w1"},
		{"XADD k * f v", "w1"},
		{"XACK k g 1-1", "w1"},
		{"XRANGE k - +", "r1"},
		{"PFADD k e", "w1"},

		// Many keys.
		{"DEL a b c", "w1 w2 w3"},
		{"UNLINK a b", "w1 w2"},
		{"EXISTS a b", "r1 r2"},
		{"TOUCH a b", "r1 r2"},
		{"MGET a b", "r1 r2"},
		{"MSET a 1 b 2", "w1 w3"},
		{"MSETNX a 1 b 2", "w1 w3"},
		{"WATCH a b", "r1 r2"},
		{"PFCOUNT a b", "w1 w2"}, // it may rewrite a cached count
		{"PFMERGE d a b", "w1 r2 r3"},
		{"PFMERGE d", "w1"},
		{"LCS a b LEN", "r1 r2"},
		{"SUNIONSTORE d a b", "w1 r2 r3"},
		{"SMOVE a b m", "w1 w2"},
		{"RENAME a b", "w1 w2"},
		{"RENAMENX a b", "w1 w2"},
		{"COPY a b", "r1 w2"},
		{"COPY a b DB 3 REPLACE", "r1 w2"},
		{"BITOP AND d a b", "w2 r3 r4"},
		{"LMOVE a b LEFT RIGHT", "w1 w2"},
		{"BLPOP a b 0", "w1 w2"},
		{"BRPOPLPUSH a b 0", "w1 w2"},
		{"ZRANGESTORE d a 0 -1", "w1 r2"},
		{"GEOSEARCHSTORE d a FROMMEMBER m BYRADIUS 1 m", "w1 r2"},

		// A count of keys.
		{"EVAL s 2 a b arg", "w3 w4"},
		{"EVAL s 0 arg", ""},
		{"EVAL s 3 a b", "?"},
		{"EVAL s -1 a", "?"},
		{"EVAL s +1 a", "?"},
		{"EVAL s 01 a", "?"},
		{"EVAL s 99999999999999999999 a", "?"},
		{"EVALSHA h 1 a", "w3"},
		{"EVAL_RO s 1 a", "r3"},
		{"FCALL f 1 a", "w3"},
		{"FCALL_RO f 2 a b", "r3 r4"},
		{"ZUNIONSTORE d 2 a b WEIGHTS 1 2", "w1 r3 r4"},
		{"ZINTER 2 a b WITHSCORES", "r2 r3"},
		{"ZDIFFSTORE d 1 a", "w1 r3"},
		{"SINTERCARD 2 a b LIMIT 1", "r2 r3"},
		{"LMPOP 2 a b LEFT", "w2 w3"},
		{"BLMPOP 0 2 a b LEFT COUNT 2", "w3 w4"},
		{"ZMPOP 1 a MIN", "w2"},
		{"BZMPOP 0 1 a MIN", "w3"},

		// Sub-commands.
		{"OBJECT ENCODING k", "r2"},
		{"OBJECT HELP", ""},
		{"OBJECT NOSUCH k", ""},
		{"MEMORY USAGE k SAMPLES 1", "r2"},
		{"MEMORY STATS", ""},
		{"XINFO STREAM k FULL", "r2"},
		{"XGROUP CREATE k g $ MKSTREAM", "w2"},
		{"CLIENT SETNAME me", ""},
		{"CONFIG GET save", ""},

		// No keys at all.
		{"PING", ""},
		{"MULTI", ""},
		{"FLUSHALL", ""},
		{"SCAN 0", ""},
		{"PUBLISH c m", ""},
		{"SPUBLISH c m", ""},
		{"SSUBSCRIBE a b", ""},

		// Streams.
		{"XREAD COUNT 1 BLOCK 0 STREAMS a b 0 0", "r6 r7"},
		{"XREAD STREAMS streams 0", "r2"},
		{"XREAD STREAMS a b 0", "r2 r3 ?"},
		{"XREAD STREAMS a STREAMS", "r2"},
		{"XREAD NOSUCH STREAMS a 0", "?"},
		{"XREADGROUP GROUP g c STREAMS a b > >", "w5 w6"},
		{"XREADGROUP GROUP g c COUNT 1 NOACK STREAMS a >", "w8"},
		{"XREADGROUP COUNT 1 GROUP STREAMS c STREAMS k >", "w7"},
		{"XREADGROUP GROUP g c CLAIM 100 STREAMS k >", "w7"},

		// SORT.
		{"SORT k", "r1"},
		{"SORT k LIMIT 0 5 DESC ALPHA", "r1"},
		{"SORT k STORE d", "r1 w3"},
		{"SORT k STORE a STORE b", "r1 w3 w5"},
		{"SORT k BY nosort GET # STORE d", "r1 w7"},
		{"SORT k GET STORE STORE d", "r1 w5"},
		{"SORT k BY w_* STORE d", "r1 w5 ?"},
		{"SORT k GET o_*->f", "r1 ?"},
		{"SORT k STORE", "r1 ?"},
		{"SORT_RO k BY w_*", "r1 ?"},
		{"SORT_RO k DESC", "r1"},
		{"SORT_RO k STORE d", "r1 ?"},

		// GEORADIUS.
		{"GEORADIUS k 1 2 3 m", "r1"},
		{"GEORADIUS k 1 2 3 m COUNT 1 ANY STORE d", "r1 w10"},
		{"GEORADIUS k 1 2 3 m STORE a STORE b", "r1 w7 w9"},
		{"GEORADIUS k 1 2 3 m STOREDIST STORE", "r1 w7"},
		{"GEORADIUS k 1 2 3 m STORE", "r1 ?"},
		{"GEORADIUSBYMEMBER k m 3 m STOREDIST d", "r1 w6"},
		{"GEORADIUS_RO k 1 2 3 m", "r1"},

		// MIGRATE.
		{"MIGRATE h 1 k 0 100", "w3"},
		{"MIGRATE h 1 k 0 100 COPY REPLACE AUTH p", "w3"},
		{`MIGRATE h 1 "" 0 100 KEYS a b`, "w7 w8"},
		{`MIGRATE h 1 "" 0 100 KEYS a KEYS b`, "w7 w8 w9"},
		{`MIGRATE h 1 "" 0 100 AUTH2 KEYS KEYS KEYS a`, "w10"},
		{"MIGRATE h 1 k 0 100 KEYS a", "w3 ?"},
		{"MIGRATE h 1 k 0 100 NOSUCH", "w3 ?"},

		// BITFIELD.
		{"BITFIELD k GET u8 0", "r1"},
		{"BITFIELD k GET u8 0 GET u8 8", "r1"},
		{"BITFIELD k GET u8 0 INCRBY u8 0 1", "w1"},
		{"BITFIELD k OVERFLOW FAIL SET u8 0 1", "w1"},
		{"BITFIELD k GET SET 0", "r1"},
		{"BITFIELD k GET u8", "w1"},
		{"BITFIELD_RO k GET u8 0", "r1"},

		// RedisJSON.
		{"JSON.GET k $ $.a", "r1"},
		{"JSON.SET k $ 1", "w1"},
		{"JSON.MERGE k $ {}", "w1"},
		{"JSON.DEL k", "w1"},
		{"JSON.ARRAPPEND k $ 1", "w1"},
		{"JSON.NUMINCRBY k $ 1", "w1"},
		{"JSON.STRAPPEND k 1", "w1"},
		{"JSON.MGET a b $", "r1 r2"},
		{"JSON.MSET a $ 1 b $ 2", "w1 w4"},
		{"JSON.DEBUG MEMORY k", "r2"},

		// Too few arguments: the server rejects the call.
		{"GET", ""},
		{"SET k", ""},
		{"EVAL s", ""},
		{"XREAD STREAMS a", ""},
		{"OBJECT ENCODING", ""},
		{"MIGRATE h 1 k", ""},
		// Too many: it does too, but nothing is lost by guarding them.
		{"GET k x", "r1"},
	} {
		if got := keysOf(t, table, argv(tc.call)); got != tc.want {
			t.Errorf("%s: keys %q, want %q", tc.call, got, tc.want)
		}
	}
}

func TestKeywordsAndNamesEndAtNUL(t *testing.T) {
	table := Builtin()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"SET\x00x", "k", "v"}, "w1"},
		{[]string{"OBJECT", "ENCODING\x00x", "k"}, "r2"},
		{[]string{"SORT", "k", "STORE\x00", "d"}, "r1 w3"},
	} {
		var args [][]byte
		for _, a := range tc.args {
			args = append(args, []byte(a))
		}
		if got := keysOf(t, table, args); got != tc.want {
			t.Errorf("%q: keys %q, want %q", tc.args, got, tc.want)
		}
	}
}

func TestLettersThatOnlyUnicodeFoldsAreNotKeywords(t *testing.T) {
	if fold([]byte("\u017ftore"), "STORE") || fold([]byte("\u212aEYS"), "KEYS") {
		t.Error("a keyword was found where the server finds none")
	}
}

func TestKeysAppendToWhatIsThere(t *testing.T) {
	c, _ := Builtin().Lookup(argv("DEL"))
	keys, _ := c.Keys([]Key{{Index: 9, Access: Read}}, argv("DEL a b"))
	want := []Key{{9, Read}, {1, Write}, {2, Write}}
	if !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
}

func TestAKeywordMetTwiceIsNotComplete(t *testing.T) {
	c := &Command{Name: "mod.read", Arity: -2, specs: []spec{{
		access: Read, begin: beginKeyword, keyword: "FROM", pos: 1, find: findRange, step: 1,
	}}}
	for _, tc := range []struct{ call, want string }{
		{"mod.read x from k", "r3"},
		{"mod.read x y", ""},
		{"mod.read as from from k", "r3 ?"},
		{"mod.read x from", "?"},
	} {
		if got := written(c.Keys(nil, argv(tc.call))); got != tc.want {
			t.Errorf("%s: keys %q, want %q", tc.call, got, tc.want)
		}
	}
	c.specs[0].pos = -2
	if got := written(c.Keys(nil, argv("mod.read from x from k"))); got != "r4 ?" {
		t.Errorf("searched from the end: keys %q", got)
	}
}

func TestKeysDoNotAllocate(t *testing.T) {
	table := Builtin()
	for _, call := range []string{
		"GET k", "MSET a 1 b 2", "EVAL s 2 a b", "OBJECT ENCODING k",
		"XREADGROUP GROUP g c STREAMS a b > >", "SORT k BY nosort STORE d",
		"GEORADIUS k 1 2 3 m STORE d", "MIGRATE h 1 k 0 100", "BITFIELD k GET u8 0",
		"ZUNIONSTORE d 2 a b", "JSON.MGET a b $", "client setname x", "CLIENT NOSUCH",
	} {
		args := argv(call)
		dst := make([]Key, 0, 16)
		n := testing.AllocsPerRun(100, func() {
			c, ok := table.Lookup(args)
			if !ok {
				t.Fatalf("%s: no such command", call)
			}
			dst, _ = c.Keys(dst[:0], args)
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", call, n)
		}
	}
}

func BenchmarkLookupAndKeys(b *testing.B) {
	table := Builtin()
	for _, call := range []string{"GET k", "MSET a 1 b 2", "OBJECT ENCODING k", "XREADGROUP GROUP g c STREAMS a >"} {
		b.Run(strings.Fields(call)[0], func(b *testing.B) {
			args := argv(call)
			dst := make([]Key, 0, 16)
			b.ReportAllocs()
			for b.Loop() {
				c, _ := table.Lookup(args)
				dst, _ = c.Keys(dst[:0], args)
			}
		})
	}
}

func FuzzKeys(f *testing.F) {
	for _, call := range []string{
		"GET k", "EVAL s 2 a b", "EVAL s 9223372036854775807 a", "XREAD STREAMS a 0",
		"SORT k BY w_* STORE d", `MIGRATE h 1 "" 0 1 KEYS a`, "GEORADIUS k 1 2 3 m STORE d",
		"BITFIELD k SET u8 0 1", "OBJECT ENCODING k", "PFMERGE d", "JSON.MSET a $ 1",
		"ZUNIONSTORE d 0 a", "LMPOP 1 a LEFT",
	} {
		f.Add(strings.Join(strings.Fields(call), "\n"))
	}
	table := Builtin()
	f.Fuzz(func(t *testing.T, call string) {
		var args [][]byte
		for a := range strings.SplitSeq(call, "\n") {
			args = append(args, []byte(a))
		}
		c, ok := table.Lookup(args)
		if !ok {
			return
		}
		keys, _ := c.Keys(nil, args)
		if len(keys) > 2*len(args) {
			t.Errorf("%q: %d keys", args, len(keys))
		}
		for _, k := range keys {
			if k.Index < 1 || k.Index >= len(args) || k.Access != Read && k.Access != Write {
				t.Errorf("%q: key %+v", args, k)
			}
		}
	})
}

func TestATableThatMakesNoSenseDoesNotPanic(t *testing.T) {
	calls := []string{"x", "x a", "x a 1", "x a b 3 c d", "x from", "x 7 from from"}
	odd := []int{-1 << 20, -3, -1, 0, 1, 2, 1 << 20}
	for _, begin := range []begin{beginIndex, beginKeyword} {
		for _, find := range []find{findUnknown, findRange, findKeynum} {
			for i := range len(odd) * len(odd) * len(odd) {
				a, b, c := odd[i%len(odd)], odd[i/len(odd)%len(odd)], odd[i/len(odd)/len(odd)]
				s := spec{
					access: Read, begin: begin, keyword: "FROM", pos: a,
					find: find, last: b, limit: c, step: max(b, 1), numAt: b, first: c,
				}
				for _, call := range calls {
					args := argv(call)
					keys, _ := s.keys(nil, args)
					for _, k := range keys {
						if k.Index < 1 || k.Index >= len(args) {
							t.Fatalf("%s: spec %+v: key %+v", call, s, k)
						}
					}
				}
			}
		}
	}
	for _, name := range []string{"sort", "migrate", "xread", "georadius", "georadiusbymember", "bitfield", "json.mget"} {
		c := &Command{Name: name, Arity: -1, exact: exactly(name)}
		for n := 1; n < 6; n++ {
			args := argv("x a b c d e")[:n]
			for _, k := range keysFrom(c.Keys(nil, args)) {
				if k.Index >= n {
					t.Errorf("%s with %d arguments: key %+v", name, n, k)
				}
			}
		}
	}
}

func keysFrom(keys []Key, _ bool) []Key { return keys }

func TestPatternsOfKeys(t *testing.T) {
	for call, want := range map[string]string{
		"SORT k BY w_* GET # GET o_*->f":     "w_* o_*->f",
		"SORT k GET a* STORE b* GET nothing": "a*",
		"SORT_RO k* BY nosort":               "",
		"SORT k GET a* NEWER b*":             "a* b* ?", // which of them is one is not known
		"SORT k GET a* GET":                  "a* ?",
		"GET a*":                             "?",
	} {
		args := argv(call)
		cmd, ok := Builtin().Lookup(args)
		if !ok {
			t.Fatal(call)
		}
		patterns, told := cmd.Patterns(args)
		got := string(bytes.Join(patterns, []byte(" ")))
		if !told {
			got = strings.TrimSpace(got + " ?")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", call, got, want)
		}
	}
}
