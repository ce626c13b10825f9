package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/silence"
)

// end is a client's end of its connection.
type end struct {
	*net.UnixConn
	f *front
}

// identify has a node say which connection this is, ahead of the first command there: should it break, the node can be asked
// to close its own end.
func (f *front) identify(c *conn) {
	if c.asked {
		return
	}
	c.asked = true
	f.put(&entry{kind: told, slot: noKeys, c: c, raw: silence.Ask})
}

// Silence implements upstream.Silencer: nodes close their ends of the connections that broke in the middle of a command. One that
// is no primary any more is not asked: what it may still carry out is not what the cluster has.
func (c *Cluster) Silence(ctx context.Context, broken net.Conn) error {
	near, ok := broken.(*end)
	if !ok || near.f.c != c {
		return silence.ErrImpossible
	}
	f := near.f
	f.end(errGone)
	select {
	case <-f.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	conns := f.conns
	f.mu.Unlock()
	for _, on := range conns {
		if on.pending == 0 || !c.topology.Load().has(on.n) {
			continue
		}
		if err := c.kill(ctx, on); err != nil {
			return err
		}
	}
	return nil
}

// kill has a node close its end of a connection.
func (c *Cluster) kill(ctx context.Context, on *conn) error {
	id := silence.Parse(on.told)
	if id.ID == "" {
		return silence.ErrImpossible
	}
	client := redis.NewClient(c.ask(on.n.addr))
	defer client.Close()
	if err := client.Do(ctx, id.Kill()...).Err(); err != nil {
		return fmt.Errorf("close the connection at %s: %w", on.n.addr, err)
	}
	return nil
}
