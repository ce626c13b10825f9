package command

import (
	"errors"
	"slices"
	"testing"
)

func TestServerKeys(t *testing.T) {
	unknown := refusal("ERR Unknown subcommand or wrong number of arguments for 'GETKEYSANDFLAGS'. Try COMMAND HELP.")
	pair := func(key string, flags ...any) []any { return []any{key, flags} }
	for name, tc := range map[string]struct {
		server scripted
		call   string
		want   []Key
	}{
		"since 7.0": {
			scripted{"GETKEYSANDFLAGS": []any{pair("a", "RO", "access"), pair("b", "OW", "update")}},
			"MOD.COPY b a b",
			[]Key{{2, Read}, {3, Write}},
		},
		"a key named twice": {
			scripted{"GETKEYSANDFLAGS": []any{pair("a", "RM"), pair("a", "RW")}},
			"MOD.MOVE x a a",
			[]Key{{2, Write}, {3, Write}},
		},
		"keys out of order": {
			scripted{"GETKEYSANDFLAGS": []any{pair("b", "RO"), pair("a", "RO")}},
			"MOD.GET a b",
			[]Key{{2, Read}, {1, Read}},
		},
		"no keys": {
			scripted{"GETKEYSANDFLAGS": refusal("ERR The command has no key arguments")},
			"MOD.PING", nil,
		},
		"before 7.0, reading": {
			scripted{
				"GETKEYSANDFLAGS": unknown, "GETKEYS": []any{"a"},
				"INFO": []any{entry("mod.get", -2, 0, 0, 0, "readonly", "movablekeys")},
			},
			"MOD.GET a",
			[]Key{{1, Read}},
		},
		"before 7.0, writing": {
			scripted{
				"GETKEYSANDFLAGS": unknown, "GETKEYS": []any{"a"},
				"INFO": []any{entry("mod.set", -2, 0, 0, 0, "write", "movablekeys")},
			},
			"MOD.SET a",
			[]Key{{1, Write}},
		},
		"before 7.0, no word on the command": {
			scripted{"GETKEYSANDFLAGS": unknown, "GETKEYS": []any{"a"}, "INFO": unknown},
			"MOD.SET a",
			[]Key{{1, Write}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := ServerKeys(t.Context(), tc.server, argv(tc.call))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(keys, tc.want) {
				t.Errorf("keys %v, want %v", keys, tc.want)
			}
		})
	}
}

func TestServerKeysFails(t *testing.T) {
	invalid := refusal("ERR Invalid arguments specified for command")
	for name, tc := range map[string]struct {
		server scripted
		call   string
		want   error
	}{
		"a pattern of keys":     {scripted{}, "SORT k BY w_*", ErrUntold},
		"the server rejects it": {scripted{"GETKEYSANDFLAGS": invalid}, "MOD.GET", invalid},
		"an old one does":       {scripted{"GETKEYSANDFLAGS": refusal("ERR unknown subcommand"), "GETKEYS": invalid}, "MOD.GET", invalid},
		"a key not in the call": {scripted{"GETKEYSANDFLAGS": []any{[]any{"z", []any{"RO"}}}}, "MOD.GET a", ErrUntold},
		"the name is no key":    {scripted{"GETKEYSANDFLAGS": []any{[]any{"MOD.GET", []any{"RO"}}}}, "MOD.GET", ErrUntold},
		"not a pair":            {scripted{"GETKEYSANDFLAGS": []any{"a"}}, "MOD.GET a", ErrUntold},
		"no flags":              {scripted{"GETKEYSANDFLAGS": []any{[]any{"a", int64(1)}}}, "MOD.GET a", ErrUntold},
		"no string":             {scripted{"GETKEYSANDFLAGS": []any{[]any{int64(1), []any{"RO"}}}}, "MOD.GET a", ErrUntold},
	} {
		t.Run(name, func(t *testing.T) {
			if keys, err := ServerKeys(t.Context(), tc.server, argv(tc.call)); !errors.Is(err, tc.want) {
				t.Errorf("keys %v, error %v; want %v", keys, err, tc.want)
			}
		})
	}
}
