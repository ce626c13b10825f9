package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Doer sends one command and returns its reply. A go-redis client is one.
type Doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// Load asks the server for its table. Where the server gives no key specs, a
// command that [Builtin] has is taken from there, but for how many arguments
// it takes. The rest of Builtin is added if the server does not count its commands,
// as Redis does: a stand-in may execute more than it lists.
func Load(ctx context.Context, c Doer) (*Table, error) {
	reply, err := c.Do(ctx, "COMMAND").Result()
	if err != nil {
		return nil, fmt.Errorf("load command table: %w", err)
	}
	t, err := Parse(reply)
	if err != nil {
		return nil, fmt.Errorf("load command table: %w", err)
	}
	if len(t.commands) == 0 {
		return nil, errors.New("load command table: the server lists no commands")
	}
	counted, err := c.Do(ctx, "COMMAND", "COUNT").Int()
	t.complete(Builtin(), err == nil && counted == len(t.commands))
	return t, nil
}

// complete replaces what the server told without key specs by what builtin
// knows of it; all says that the table has all of its commands. A table whose every command has key specs stays as it is.
func (t *Table) complete(builtin *Table, all bool) {
	legacy := false
	for _, c := range t.commands {
		legacy = legacy || c.legacy
	}
	if !legacy {
		return
	}
	for name, b := range builtin.commands {
		c, known := t.commands[name]
		switch {
		case !known && all:
		case !known:
			t.commands[name] = b
		case !c.legacy || b.Is(FlagModule) && len(c.specs) > 0:
			// The server knows its own better.
		case b.Container():
			c.subs = b.subs // its specs still serve a sub-command builtin lacks
		default:
			b.Arity = c.Arity
			t.commands[name] = b
		}
	}
}
