package command

import "testing"

// entry makes an entry of the COMMAND reply of a server before 7.0.
func entry(name string, arity int, first, last, step int, flags ...any) []any {
	return []any{name, int64(arity), flags, int64(first), int64(last), int64(step)}
}

// since7 makes an entry of a server since 7.0, its specs as given.
func since7(name string, arity int, flags []any, specs []any, subs ...any) []any {
	return []any{
		name, int64(arity), flags, int64(0), int64(0), int64(0),
		[]any{},
		[]any{},
		specs, subs,
	}
}

// oneKey is a RESP3 key spec of a key at index 1.
func oneKey(flags ...any) map[any]any {
	return map[any]any{
		"flags":        flags,
		"begin_search": map[any]any{"type": "index", "spec": map[any]any{"index": int64(1)}},
		"find_keys": map[any]any{"type": "range", "spec": map[any]any{
			"lastkey": int64(0), "keystep": int64(1), "limit": int64(0),
		}},
	}
}

// oneKey2 is the same in RESP2.
func oneKey2(flags ...any) []any {
	return []any{
		"flags", flags,
		"begin_search",
		[]any{"type", "index", "spec", []any{"index", int64(1)}},
		"find_keys",
		[]any{"type", "range", "spec", []any{"lastkey", int64(0), "keystep", int64(1), "limit", int64(0)}},
	}
}

func TestParseReadsKeySpecsOfEitherProtocol(t *testing.T) {
	table, err := Parse([]any{
		since7("GET", 2, []any{"readonly"}, []any{oneKey("RO", "access")}),
		since7("set", -3, []any{"write"}, []any{oneKey2("RW", "access", "update", "variable_flags")}),
		since7("del2", 2, []any{"write"}, []any{oneKey("RM", "delete")}),
		since7("over", 2, []any{"write"}, []any{oneKey("OW", "update")}),
		since7("object", -2, []any{}, []any{},
			since7("object|freq", 2, []any{"readonly"}, []any{oneKey("RO")}),
			since7("help", 2, []any{}, []any{})),
		since7("spublish", 2, []any{}, []any{oneKey("not_key")}),
		since7("more", 2, []any{}, []any{oneKey("RO", "incomplete")}),
		since7("strange", 2, []any{}, []any{map[any]any{"flags": []any{"RO"}}}),
		nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"get k": "r1", "set k v": "w1", "del2 k": "w1", "over k": "w1",
		"object freq": "r1", "object help": "", "spublish c": "", "more k": "r1 ?", "strange k": "?",
	} {
		if got := keysOf(t, table, argv(call)); got != want {
			t.Errorf("%s: keys %q, want %q", call, got, want)
		}
	}
	if c, _ := table.Lookup(argv("object help")); c.Name != "object|help" {
		t.Errorf("sub-command named %q", c.Name)
	}
}

func TestParseOfModuleCommands(t *testing.T) {
	table, err := Parse([]any{
		// The specs the server makes up for a module that gives none.
		since7("json.get", -1, []any{"readonly", "module"}, []any{oneKey("RW", "access", "update")}),
		since7("json.set", -1, []any{"write", "module"}, []any{oneKey("RW", "access", "update")}),
		since7("json.mget", -1, []any{"readonly", "module"}, []any{oneKey("RW", "access", "update")}),
		// A module that tells the keys when asked.
		since7("mod.api", -1, []any{"write", "module", "movablekeys"}, []any{oneKey("RW", "access", "update", "variable_flags")}),
		since7("mod.bare", -1, []any{"write", "module", "movablekeys"}, []any{}),
		// A module that writes what it says it reads.
		since7("mod.shy", -1, []any{"write", "module"}, []any{oneKey("RO", "access")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"json.get k $": "r1", "json.set k $ 1": "w1", "json.mget a b $": "r1 r2",
		"mod.api k": "w1 ?", "mod.bare k": "?", "mod.shy k": "w1", "json.get": "?",
	} {
		if got := keysOf(t, table, argv(call)); got != want {
			t.Errorf("%s: keys %q, want %q", call, got, want)
		}
	}
}

func TestParseRefusesWhatIsNoCommandReply(t *testing.T) {
	good := func() []any { return since7("x", 1, []any{}, []any{}) }
	bad := func(i int, v any) []any { e := good(); e[i] = v; return []any{e} }
	for _, reply := range []any{
		nil, "OK", int64(1),
		[]any{"x"},
		[]any{[]any{"x"}},
		bad(atName, int64(1)), bad(atArity, "1"), bad(atFlags, "write"), bad(atFlags, []any{int64(1)}),
		bad(atSpecs, "none"), bad(atSpecs, []any{"none"}), bad(atSpecs, []any{map[any]any{}}),
		bad(atSubs, "none"), bad(atSubs, []any{"none"}),
		[]any{[]any{"x", int64(1), []any{}, "1", int64(1), int64(1)}},
	} {
		if _, err := Parse(reply); err == nil {
			t.Errorf("Parse(%v): no error", reply)
		}
	}
}
