package command

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// maxName is the longest command or sub-command name that Lookup resolves.
const maxName = 64

// Table has every command a server knows.
type Table struct {
	commands map[string]*Command
}

// Lookup returns the command of the call. The name of a container is resolved
// with the argument that follows it: CLIENT SETNAME is "client|setname", and the
// container itself when it has no such sub-command. ok is false for a command
// the table does not have; the server may still execute one it has learned
// since, so a guard must not let it pass unseen.
func (t *Table) Lookup(args [][]byte) (c *Command, ok bool) {
	if len(args) == 0 {
		return nil, false
	}
	if c, ok = named(t.commands, args[0]); !ok {
		return nil, false
	}
	if c.subs != nil && len(args) > 1 {
		if sub, ok := named(c.subs, args[1]); ok {
			return sub, true
		}
	}
	return c, true
}

// named finds a command by its name in any letter case, up to a NUL byte.
func named(commands map[string]*Command, name []byte) (*Command, bool) {
	name = cut(name)
	if len(name) > maxName {
		return nil, false
	}
	var buf [maxName]byte
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		buf[i] = b
	}
	c, ok := commands[string(buf[:len(name)])]
	return c, ok
}

// All yields every command by name, each container before its sub-commands.
func (t *Table) All() iter.Seq[*Command] {
	return func(yield func(*Command) bool) {
		for _, name := range slices.Sorted(maps.Keys(t.commands)) {
			c := t.commands[name]
			if !yield(c) {
				return
			}
			for _, sub := range slices.Sorted(maps.Keys(c.subs)) {
				if !yield(c.subs[sub]) {
					return
				}
			}
		}
	}
}

// add puts the command into the table, a sub-command into its container, which
// must be there already.
func (t *Table) add(c *Command) (ok bool) {
	container, sub, isSub := strings.Cut(c.Name, "|")
	if !isSub {
		if t.commands == nil {
			t.commands = make(map[string]*Command)
		}
		t.commands[c.Name] = c
		return true
	}
	parent, ok := t.commands[container]
	if !ok {
		return false
	}
	if parent.subs == nil {
		parent.subs = make(map[string]*Command)
	}
	parent.subs[sub] = c
	return true
}
