package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestLookupResolvesSubCommands(t *testing.T) {
	table := Builtin()
	for call, want := range map[string]string{
		"GET k":              "get",
		"cLiEnT sEtNaMe x":   "client|setname",
		"CLIENT":             "client",
		"CLIENT NOSUCH":      "client",
		"OBJECT ENCODING k":  "object|encoding",
		"XGROUP CREATE k g":  "xgroup|create",
		"CONFIG SET a b":     "config|set",
		"GET ENCODING":       "get",
		"JSON.GET k":         "json.get",
		"COMMAND":            "command",
		"FUNCTION LOAD code": "function|load",
	} {
		c, ok := table.Lookup(argv(call))
		if !ok || c.Name != want {
			t.Errorf("Lookup(%s) = %v, %v; want %s", call, c, ok, want)
		}
	}
	for _, call := range []string{"", "NOSUCH", "client|setname x", strings.Repeat("x", 1000)} {
		if c, ok := table.Lookup(argv(call)); ok {
			t.Errorf("Lookup(%.20s) = %s, want none", call, c.Name)
		}
	}
	if _, ok := table.Lookup([][]byte{{}}); ok {
		t.Error("an empty name is a command")
	}
}

func TestFlagsAreTheServers(t *testing.T) {
	table := Builtin()
	for call, want := range map[string]Flags{
		"GET":       FlagReadOnly | FlagFast,
		"SET":       FlagWrite | FlagDenyOOM,
		"BLPOP":     FlagWrite | FlagBlocking,
		"SUBSCRIBE": FlagPubSub | FlagNoScript,
		"WATCH":     FlagNoScript | FlagFast | FlagAllowBusy,
		"SORT":      FlagWrite | FlagMovable,
		"SHUTDOWN":  FlagAdmin | FlagNoMulti,
		"FLUSHALL":  FlagWrite,
		"JSON.GET":  FlagReadOnly | FlagModule,
	} {
		c, ok := table.Lookup(argv(call))
		if !ok || !c.Is(want) {
			t.Errorf("%s: flags %s, want %s", call, c.Flags, want)
		}
	}
	c, _ := table.Lookup(argv("GET"))
	if c.Is(FlagReadOnly | FlagWrite) {
		t.Error("Is holds for a flag the command lacks")
	}
	if Flags(0).String() != "-" || (FlagWrite|FlagModule).String() != "write,module" {
		t.Error("flags are not named as the server names them")
	}
}

func TestWhatWriteToWritesIsTheEmbeddedFile(t *testing.T) {
	table := &Table{}
	if err := table.decode(builtinFacts); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := table.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	_, facts, _ := strings.Cut(builtinFacts, "\n")
	if b.String() != facts {
		t.Error("builtin.txt does not survive decode and WriteTo")
	}
}

func TestDecodeRefusesWhatWriteToDoesNotWrite(t *testing.T) {
	for _, facts := range []string{
		"get", "get x -", "get 2 nosuch", "get 2 - read", "get 2 - look/index:1/range:0:1:0",
		"get 2 - read/index:x/range:0:1:0", "get 2 - read/index:1/range:0", "a|b 2 -",
	} {
		if err := new(Table).decode(facts); err == nil {
			t.Errorf("%q: no error", facts)
		}
	}
}

func TestEveryKeySpecOfTheBuiltInTableCanBeFollowedOrIsReadExactly(t *testing.T) {
	for c := range Builtin().All() {
		for _, s := range c.specs {
			unsure := s.begin == beginUnknown || s.find == findUnknown || s.incomplete || s.begin == beginKeyword
			if unsure && c.exact == nil {
				t.Errorf("%s: a spec that cannot tell all keys, and no exact walk", c.Name)
			}
		}
	}
}
