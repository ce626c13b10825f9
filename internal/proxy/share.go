package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Commands that leave no state behind travel on connections that all clients of one user share; the rest, and
// everything guarded, on a connection of the client's own (client.link), which is made when it is
// first needed. Replies keep their order, since a client's commands on one kind of connection are
// answered before it uses the other.

// shareFlags are those of commands that may travel on a shared connection: one of the first, none
// of the second.
const (
	shareOne  = command.FlagReadOnly | command.FlagWrite
	shareNone = command.FlagBlocking | command.FlagPubSub | command.FlagAdmin | command.FlagNoScript | command.FlagNoMulti | command.FlagMovable | command.FlagModule
)

// shareFrom is the number of clients of one user from which on they share. Fewer are better served each by a
// connection of its own, and are then seen by Redis one by one.
const shareFrom = 8

// sharedMost bounds what one client collects for a shared connection before it is sent, in bytes.
const sharedMost = 64 << 10

const (
	// bulky is how much makes clients move it over connections of their own, in bytes of what is sent or answered at
	// once: there it need not be kept until all of it is there.
	bulky = 32 << 10
	// bulkTurns is how often they do before it is looked again how much they move.
	bulkTurns = 64
)

// shareable reports whether a command may travel on a shared connection.
func shareable(cmd *command.Command) bool {
	switch {
	case cmd == nil:
		return false
	case cmd.Name == "ping":
		return true
	}
	return cmd.Flags&shareOne != 0 && cmd.Flags&shareNone == 0 && !listsKeys(cmd.Name)
}

// sticky are commands whose effect on a connection stays, and touches the client's commands of
// all kinds: whoever sends one keeps to the connection of its own.
var sticky = map[string]struct{}{
	"client|tracking": {}, "client|caching": {}, "client|no-evict": {}, "client|no-touch": {},
	"readonly": {}, "readwrite": {}, "asking": {}, "monitor": {}, "sync": {}, "psync": {},
}

// shareKey is what connections must have in common to be shared.
type shareKey struct {
	db, proto int
	writes    bool // apart from reads, which a CLIENT PAUSE of writes must not hold up
}

// shares are the connections that clients share who are the same user to Redis.
type shares struct {
	endpoint *upstream.Endpoint
	login    upstream.Login // nil: the proxy's own
	limits   upstream.Limits
	clients  atomic.Int64 // served now
	ended    atomic.Bool  // of a login: one of them has ended, and none is used any more
	mu       sync.Mutex
	byKey    map[shareKey]*upstream.Shared
}

func newShares(endpoint *upstream.Endpoint, login upstream.Login, limits upstream.Limits) *shares {
	return &shares{endpoint: endpoint, login: login, limits: limits, byKey: map[shareKey]*upstream.Shared{}}
}

func (s *shares) get(key shareKey) *upstream.Shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byKey[key]
	if c == nil {
		c = upstream.NewShared(func(ctx context.Context) (net.Conn, error) {
			return s.endpoint.DialAs(ctx, s.login, key.db, key.proto)
		}, &s.clients)
		c.Once = s.login != nil
		c.Limit(s.limits)
		c.Count(&s.endpoint.Meter)
		s.byKey[key] = c
	}
	return c
}

func (s *shares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.byKey {
		c.Close()
	}
}

const ping = "*1\r\n$4\r\nPING\r\n"

// share collects a command for a shared connection, and reports false if it must go on the
// client's own.
func (c *client) share(cmd *command.Command, req resp.Request) (bool, error) {
	if c.seen != nil || c.state.alone || c.state.multi || c.state.watching || c.silent || !shareable(cmd) {
		return false, nil
	}
	if c.shares == nil || !c.shares.serve(c) {
		return false, nil
	}
	if c.maySubscribe() {
		return false, nil // messages and replies come in one order
	}
	switch {
	case c.call.Frames > 0:
	case c.bulk > 0:
		c.bulk--
		c.apart = true
	case c.shares.clients.Load() < shareFrom:
		return false, nil
	}
	if !c.apart {
		if c.up != nil && c.up.Outstanding() {
			return false, nil // behind what was sent before
		}
		if c.call.Frames == 0 && c.out.behind() {
			return false, nil // its replies had better wait in Redis
		}
	}
	c.call.Requests = c.in.join(c.call.Requests, req.Raw)
	c.call.Frames++
	if cmd.Is(command.FlagWrite) {
		if c.callWrites = true; !c.apart {
			c.wroteElsewhere(cmd, req.Args)
		}
	}
	if len(c.call.Requests) >= sharedMost {
		return true, c.sendShared()
	}
	return true, nil
}

// do carries out what was collected on the shared connection.
func (c *client) do() error {
	if c.shares.login != nil {
		return c.doAsItself()
	}
	return c.shared.Do(c.call)
}

// sendShared carries out what was collected and takes the replies.
func (c *client) sendShared() error {
	switch {
	case c.call.Frames == 0:
		return nil
	case c.apart:
		return c.sendApart()
	}
	key := shareKey{c.state.db, c.state.proto, c.callWrites}
	if c.shared == nil || c.sharedKey != key {
		c.shared, c.sharedKey = c.shares.get(key), key
	}
	if !c.call.Timed {
		c.timing = time.Time{} // more of the batch is to come
	}
	err := c.do()
	c.owed(err)
	if len(c.call.Requests) >= bulky || len(c.call.Replies) >= bulky {
		c.bulk = bulkTurns
	}
	_, writeErr := c.out.Write(c.call.Replies)
	c.owed(writeErr)
	c.collected()
	if err != nil {
		return err
	}
	return writeErr
}

// collected gives up what was collected.
func (c *client) collected() {
	c.call.Release()
	c.call.Requests, c.call.Frames, c.callWrites, c.apart = nil, 0, false, false
}

// sendApart sends what was collected on the client's own connection. The replies are passed on as they come.
func (c *client) sendApart() error {
	if err := c.own(); err != nil {
		return err
	}
	c.up.PassInPlace(c.call.Requests, c.call.Frames)
	c.collected()
	return c.up.Flush()
}
