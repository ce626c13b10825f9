package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUntold means that nobody can tell the keys of a call before it is executed.
var ErrUntold = errors.New("keys cannot be told from the call")

// ServerKeys asks the server for the keys of a call that [Command.Keys] could
// not tell. It sends COMMAND GETKEYSANDFLAGS, and to a server that does not know
// it COMMAND GETKEYS: all are then written, unless the command only reads.
//
// The error wraps [ErrUntold] when the server does not know either, which is so
// for the commands this package reads better than it does (SORT with a pattern,
// or any of those in exact.go with options not known here), and is the server's
// own when it rejects the call.
func ServerKeys(ctx context.Context, c Doer, args [][]byte) ([]Key, error) {
	if len(args) == 0 {
		return nil, nil
	}
	name := strings.ToLower(string(cut(args[0])))
	if exactly(name) != nil {
		return nil, fmt.Errorf("keys of %q: %w", name, ErrUntold)
	}
	keys, err := keysAndFlags(ctx, c, args)
	if unknownSub(err) {
		keys, err = keysOnly(ctx, c, args)
	}
	if err != nil {
		if said(err, "has no key arguments") {
			return nil, nil
		}
		return nil, fmt.Errorf("ask the server for the keys of %q: %w", name, err)
	}
	return keys, nil
}

// keysAndFlags asks a server since 7.0.
func keysAndFlags(ctx context.Context, c Doer, args [][]byte) ([]Key, error) {
	reply, err := c.Do(ctx, question("GETKEYSANDFLAGS", args)...).Slice()
	if err != nil {
		return nil, err
	}
	keys := make([]Key, 0, len(reply))
	at := 0
	for _, e := range reply {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("a key in %d parts: %w", len(pair), ErrUntold)
		}
		flags, ok := words(pair[1])
		if !ok {
			return nil, fmt.Errorf("key flags that are a %T: %w", pair[1], ErrUntold)
		}
		access := Write
		for _, f := range flags {
			if f == "RO" {
				access = Read
			}
		}
		if at, err = index(args, pair[0], at); err != nil {
			return nil, err
		}
		keys = append(keys, Key{Index: at, Access: access})
	}
	return keys, nil
}

// keysOnly asks a server before 7.0.
func keysOnly(ctx context.Context, c Doer, args [][]byte) ([]Key, error) {
	reply, err := c.Do(ctx, question("GETKEYS", args)...).Slice()
	if err != nil {
		return nil, err
	}
	access := Write
	if info, err := c.Do(ctx, "COMMAND", "INFO", args[0]).Result(); err == nil {
		if t, err := Parse(info); err == nil {
			if cmd, ok := t.Lookup(args); ok && cmd.Is(FlagReadOnly) {
				access = Read
			}
		}
	}
	keys := make([]Key, 0, len(reply))
	at := 0
	for _, e := range reply {
		if at, err = index(args, e, at); err != nil {
			return nil, err
		}
		keys = append(keys, Key{Index: at, Access: access})
	}
	return keys, nil
}

// question makes the arguments of COMMAND sub args...
func question(sub string, args [][]byte) []any {
	q := make([]any, 0, len(args)+2)
	q = append(q, "COMMAND", sub)
	for _, a := range args {
		q = append(q, a)
	}
	return q
}

// index finds the argument that the server named as a key, past the one it named
// before if it can.
func index(args [][]byte, key any, before int) (int, error) {
	k, ok := key.(string)
	if !ok {
		return 0, fmt.Errorf("a key that is a %T: %w", key, ErrUntold)
	}
	for n := 1; n < len(args); n++ {
		i := (before+n-1)%(len(args)-1) + 1
		if bytes.Equal(args[i], []byte(k)) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("key %q is not in the call: %w", k, ErrUntold)
}

// unknownSub reports whether the server does not know the sub-command.
func unknownSub(err error) bool {
	return said(err, "unknown subcommand") || said(err, "syntax error")
}

// said reports whether err is the server's and has the words.
func said(err error, words string) bool {
	var e redis.Error
	return errors.As(err, &e) && strings.Contains(strings.ToLower(e.Error()), words)
}
