package fuzz

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Command is a command or sub-command as the server describes it.
type Command struct {
	Name  string // "get", "xgroup|create"
	Arity int    // as COMMAND has it: the least when negative
	Group string // of COMMAND DOCS: "list"
	Keyed bool   // it has key specs

	flags, tips, categories map[string]bool
	arguments               []argument
}

// argument is a node of the argument specs of COMMAND DOCS.
type argument struct {
	name, kind, token  string
	optional, multiple bool
	everyToken         bool // the token is repeated with each of several values
	within             []argument
}

// Vocabulary is every command of a server, by name.
type Vocabulary map[string]*Command

// LoadVocabulary asks a server.
func LoadVocabulary(ctx context.Context, server *redis.Client) (Vocabulary, error) {
	table, err := server.Do(ctx, "COMMAND").Slice()
	if err != nil {
		return nil, fmt.Errorf("ask for the commands: %w", err)
	}
	docs, err := server.Do(ctx, "COMMAND", "DOCS").Result()
	if err != nil {
		return nil, fmt.Errorf("ask for the argument specs: %w", err)
	}
	v := Vocabulary{}
	for _, row := range table {
		v.add(list(row))
	}
	v.document(dictionary(docs))
	return v, nil
}

func (v Vocabulary) add(row []any) {
	if len(row) < 10 {
		return
	}
	arity, _ := row[1].(int64)
	c := &Command{
		Name: text(row[0]), Arity: int(arity),
		flags: set(row[2]), categories: set(row[6]), tips: set(row[7]), Keyed: len(list(row[8])) > 0,
	}
	v[c.Name] = c
	for _, sub := range list(row[9]) {
		v.add(list(sub))
	}
}

func (v Vocabulary) document(docs map[any]any) {
	for name, doc := range docs {
		d := dictionary(doc)
		if c := v[text(name)]; c != nil {
			c.Group = text(d["group"])
			c.arguments = specs(d["arguments"])
		}
		v.document(dictionary(d["subcommands"]))
	}
}

func specs(list0 any) []argument {
	var all []argument
	for _, item := range list(list0) {
		d, flags := dictionary(item), set(dictionary(item)["flags"])
		all = append(all, argument{
			name: text(d["name"]), kind: text(d["type"]), token: text(d["token"]),
			optional: flags["optional"], multiple: flags["multiple"], everyToken: flags["multiple_token"],
			within: specs(d["arguments"]),
		})
	}
	return all
}

// Sorted are the commands that fit, in an order that does not change from run to run.
func (v Vocabulary) Sorted(fits func(*Command) bool) []*Command {
	var commands []*Command
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if fits(v[name]) {
			commands = append(commands, v[name])
		}
	}
	return commands
}

// Lookup finds the command of a call, or nil.
func (v Vocabulary) Lookup(args []string) *Command {
	if len(args) == 0 {
		return nil
	}
	name := lower(args[0])
	if len(args) > 1 {
		if c := v[name+"|"+lower(args[1])]; c != nil {
			return c
		}
	}
	return v[name]
}

// lower is a word as the server compares it: in lower case, up to a NUL byte.
func lower(word string) string {
	word, _, _ = strings.Cut(word, "\x00")
	return strings.ToLower(word)
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func dictionary(v any) map[any]any {
	m, _ := v.(map[any]any)
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func set(v any) map[string]bool {
	m := map[string]bool{}
	for _, e := range list(v) {
		m[text(e)] = true
	}
	return m
}
