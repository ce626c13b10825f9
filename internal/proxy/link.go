package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// link makes sure that the client has an upstream connection of its own, in the same state as the
// client, and that what it sent over a shared one is answered.
func (c *client) link() error {
	if err := c.sendShared(); err != nil {
		return err
	}
	return c.own()
}

// own makes sure that the client has an upstream connection of its own, in the same state as the client.
func (c *client) own() error {
	if c.adrift.Load() {
		c.drop()
	}
	if c.up != nil {
		return nil
	}
	nc, err := c.srv.upstream.DialAs(context.Background(), c.state.login, c.state.db, c.state.proto)
	switch {
	case err != nil && c.state.login != nil && errors.Is(err, upstream.ErrWrongPass): // its user is gone: no command of it will ever be carried out
		return fmt.Errorf("%w: %w", errParted, err)
	case err != nil:
		return err
	}
	c.up = upstream.NewConn(nc, &c.out)
	c.up.SetMode(upstream.Mode{RESP3: c.state.proto == 3})
	c.up.Hidden, c.up.Quiet = isReserved, c.silent
	c.up.Buffers = &c.srv.buffers
	c.up.Limit(c.srv.limits.Load().upstream())
	c.up.Count(&c.srv.upstream.Meter)
	up, received := c.up, make(chan struct{})
	c.received = received
	c.receivers.Go(func() {
		defer close(received)
		c.serve(up)
	})
	c.introduce()
	return nil
}

// serve takes replies back until an upstream connection of the client's ends.
func (c *client) serve(up *upstream.Conn) {
	c.owed(up.Serve())
	c.handling.Lock() // the command under way may be a read: its reply has reached the client
	if c.up != up {   // it goes on without it (outcome.go)
		c.handling.Unlock()
		return
	}
	stranded := c.strand()
	switch {
	case stranded:
		c.stranded.Store(true)
		c.lost.Store(true)
	case c.canBeCarried():
		c.adrift.Store(true)
		c.srv.log.Info("upstream connection of an idle client ended; its next command makes another", "client", c.address(), "name", c.state.name)
	default:
		c.lost.Store(true)
	}
	c.handling.Unlock()
	if c.lost.Load() && !stranded {
		_ = c.nc.SetReadDeadline(past)
	}
}

// unlink ends the client's own upstream connection.
func (c *client) unlink() {
	c.leaving.Store(true)
	c.dropAside()
	if c.up != nil {
		_ = c.up.Close()
	}
	c.receivers.Wait()
}

// identify has Redis name the client's own connection, together with what is sent next: should it break under a commit,
// Redis can be told which one it was. Where one has broken already, its answer is waited for.
func (c *client) identify() error {
	if c.identified || c.tx.open || c.srv.upstream.Silencer != nil {
		return nil
	}
	c.identified = true
	c.up.Identify()
	if !c.carried {
		return nil
	}
	x := upstream.NewExchange()
	x.Reset(0, -1, false, nil)
	return c.roundTrip(x, nil)
}

// local answers a command with a reply of the proxy's own, behind those that are under way.
func (c *client) local(reply []byte) error {
	if err := c.sendShared(); err != nil {
		return err
	}
	if c.silent {
		return nil
	}
	if c.up != nil {
		err := c.up.Local(reply)
		c.owed(err)
		return err
	}
	_, err := c.out.Write(reply)
	return err
}
