package proxy

import (
	"context"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// commands is the server's command table, and the way to ask it about calls that the table can't
// tell the keys of.
type commands struct {
	table *command.Table
	store *tokenstore.Store
}

// askTimeout bounds asking the server for a call's keys.
const askTimeout = 2 * time.Second

// keys asks the server.
func (c commands) keys(args [][]byte) ([]command.Key, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return command.ServerKeys(ctx, c.store.Client(0), args)
}

// since62 reports whether the server is a Redis 6.2 or later.
func (c commands) since62() bool {
	_, ok := c.table.Lookup([][]byte{[]byte("reset")})
	return ok
}

// since72 reports whether the server is Redis 7.2 or later, or Valkey, by a command that came then.
func (c commands) since72() bool {
	cmd, ok := c.table.Lookup([][]byte{[]byte("client"), []byte("no-touch")})
	return ok && !cmd.Container()
}
