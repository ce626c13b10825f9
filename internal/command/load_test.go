package command

import (
	"context"
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// scripted answers COMMAND and its sub-commands.
type scripted map[string]any

// refusal is an error reply.
type refusal string

func (r refusal) Error() string { return string(r) }
func (r refusal) RedisError()   {}

func (s scripted) Do(_ context.Context, args ...any) *redis.Cmd {
	name, _ := args[0].(string)
	if len(args) > 1 {
		name, _ = args[1].(string)
	}
	switch v := s[name].(type) {
	case error:
		return redis.NewCmdResult(nil, v)
	default:
		return redis.NewCmdResult(v, nil)
	}
}

func TestLoadTakesSpecsFromTheBuiltInTableForAnOldServer(t *testing.T) {
	table, err := Load(t.Context(), scripted{"COMMAND": []any{
		entry("get", 2, 1, 1, 1, "readonly"),
		entry("xreadgroup", -7, 1, 1, 1, "write", "movablekeys"),
		entry("object", -2, 2, 2, 1, "readonly"),
		entry("memory", -2, 0, 0, 0, "readonly", "movablekeys"),
		entry("mod.set", -2, 1, -1, 2, "write"),
		entry("mod.get", -2, 1, 2, 1, "readonly"),
		entry("mod.move", -2, 0, 0, 0, "write", "movablekeys"),
		entry("json.set", -1, 2, 2, 1, "write"),
		entry("json.get", -1, 0, 0, 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"GET k":                            "r1",
		"XREADGROUP GROUP g c STREAMS k >": "w5",
		"OBJECT ENCODING k":                "r2",
		"OBJECT NEWER k":                   "r2",
		"MEMORY USAGE k":                   "r2",
		"MEMORY NEWER k":                   "?",
		"MOD.SET a 1 b 2":                  "w1 w3",
		"MOD.GET a b c":                    "r1 r2",
		"MOD.MOVE a":                       "?",
		"JSON.SET x k 1":                   "w2", // the server knows its own
		"JSON.GET k":                       "r1", // and here says nothing
		"LMPOP 1 a LEFT":                   "w2", // not listed
		"JSON.DEL k":                       "w1",
	} {
		if got := keysOf(t, table, argv(call)); got != want {
			t.Errorf("%s: keys %q, want %q", call, got, want)
		}
	}
}

// Redis before 7.0 lacks commands of the built-in table, and takes fewer arguments of others.
func TestLoadAddsNothingToAnOldServerThatListsAll(t *testing.T) {
	table, err := Load(t.Context(), scripted{"COUNT": int64(2), "COMMAND": []any{
		entry("lpop", 2, 1, 1, 1, "write"),
		entry("xreadgroup", -7, 1, 1, 1, "write", "movablekeys"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := table.Lookup(argv("COPY a b")); ok {
		t.Error("a command that the server does not have")
	}
	if c, _ := table.Lookup(argv("LPOP k 2")); c.Fits(3) {
		t.Error("more arguments than the server takes")
	}
	if got := keysOf(t, table, argv("XREADGROUP GROUP g c STREAMS k >")); got != "w5" {
		t.Errorf("keys %q", got)
	}
}

func TestLoadAddsNothingToAServerWithKeySpecs(t *testing.T) {
	table, err := Load(t.Context(), scripted{"COMMAND": []any{
		since7("get", 2, []any{"readonly"}, []any{oneKey("RO")}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := table.Lookup(argv("SET k v")); ok {
		t.Error("a command that the server does not have")
	}
}

func TestLoadFails(t *testing.T) {
	denied := refusal("NOPERM no permissions")
	if _, err := Load(t.Context(), scripted{"COMMAND": denied}); !errors.Is(err, denied) {
		t.Errorf("error %v, want the server's", err)
	}
	for _, reply := range []any{"OK", []any{}} {
		if _, err := Load(t.Context(), scripted{"COMMAND": reply}); err == nil {
			t.Errorf("reply %v: no error", reply)
		}
	}
}

func TestLoadFromTheEmbeddedStore(t *testing.T) {
	store := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: store.Addr()})
	t.Cleanup(func() { _ = client.Close() })

	table, err := Load(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{
		"SET k v": "w1", "COPY a b": "r1 w2", "EVAL s 1 a": "w3", "JSON.SET k $ 1": "w1",
		"OBJECT IDLETIME k": "r2", "EXPIRE k 1 NX": "w1", "SORT k STORE d": "r1 w3",
	} {
		if got := keysOf(t, table, argv(call)); got != want {
			t.Errorf("%s: keys %q, want %q", call, got, want)
		}
	}
	if _, err := ServerKeys(t.Context(), client, argv("NOSUCH k")); err == nil {
		t.Error("ServerKeys believed a store that cannot tell keys")
	}
}
