package proxy

import (
	"context"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// While a client has keys under WATCH, its own upstream connection must see neither EXEC nor DISCARD
// but for the client's own: both would drop them. What needs one runs aside, on a second connection of the
// client's, as the same user in the same database.

// aside is that connection.
type aside struct {
	up       *upstream.Conn
	db       int
	proto    int
	ended    atomic.Bool
	received chan struct{} // closed when up has ended
}

// beside returns the client's second connection; it is made when it is first needed.
func (c *client) beside() (*upstream.Conn, error) {
	if a := c.aside; a != nil {
		if !a.ended.Load() && a.db == c.state.db && a.proto == c.state.proto {
			return a.up, nil
		}
		c.dropAside()
	}
	nc, err := c.srv.upstream.DialAs(context.Background(), c.state.login, c.state.db, c.state.proto)
	if err != nil {
		return nil, err
	}
	a := &aside{up: upstream.NewConn(nc, &c.out), db: c.state.db, proto: c.state.proto, received: make(chan struct{})}
	a.up.Buffers = &c.srv.buffers
	a.up.Count(&c.srv.upstream.Meter)
	a.up.Identify()
	c.aside = a
	go func() {
		defer close(a.received)
		_ = a.up.Serve()
		a.ended.Store(true)
	}()
	return a.up, nil
}

// dropAside ends the second connection.
func (c *client) dropAside() {
	if a := c.aside; a != nil {
		_ = a.up.Close()
		<-a.received
		c.aside = nil
	}
}

// answeredAll waits for the replies under way on the client's own connection, so that one from
// aside comes behind them.
func (c *client) answeredAll() error {
	if c.up == nil || !c.up.Outstanding() {
		return nil
	}
	_, err := c.sync([]byte(ping), false)
	return err
}
