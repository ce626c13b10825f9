package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

// Patience is for how long commands whose slot nobody serves are tried again before their client hears of it. It is below
// the socket timeouts of the common clients but Jedis's, which would send such a command again themselves.
const Patience = 3 * time.Second

// Options say where a cluster is.
type Options struct {
	// Seeds are addresses of some of its nodes, host:port; one that answers is enough.
	Seeds []string
	// Login is the proxy's own, to ask nodes for the slots, and for connections that it has logged in: these log in anew at each
	// node, with the password of then. Other clients log in themselves. Nil, or an empty password, is nobody.
	Login func() (username, password string)
	// Dial makes a connection to a node.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout bounds that, and a question to a node. Required.
	DialTimeout time.Duration
	// Everywhere are channels to which clients subscribe at every primary: a script at any of them may ask whether somebody
	// hears it. Nil: none.
	Everywhere func(channel []byte) bool
	// Changed, if set, is told that other nodes have slots now than before, which may lack what was written last. It must
	// not block.
	Changed func()
	Log     *slog.Logger
}

// Cluster is a Redis Cluster that looks like one Redis. It is safe for concurrent use.
type Cluster struct {
	options Options
	table   *command.Table
	scripts scripts
	picked  uint32 // which primary gets what has no keys

	topology  atomic.Pointer[topology]
	finding   finding
	look      chan struct{} // asks for a search soon
	down      trouble       // since when nodes say that the cluster is down
	killed    atomic.Int64
	disturbed atomic.Int64 // when a command was last not carried out where it was sent, in Unix nanoseconds

	mu     sync.Mutex
	nodes  map[string]*node // by address, all that were ever named
	fronts map[*front]struct{}
	closed bool

	work sync.WaitGroup
	stop context.CancelFunc
}

// ErrClosed says that the cluster was closed.
var ErrClosed = errors.New("the way to the cluster is closed")

// ErrNoSlots says that a node is of no cluster yet.
var ErrNoSlots = errors.New("it knows of no slots: create the cluster first")

// Open asks the seeds for the cluster's slots and commands. The caller closes the Cluster.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{options: o, picked: rand.Uint32(), look: make(chan struct{}, 1), nodes: map[string]*node{}, fronts: map[*front]struct{}{}}
	if err := c.find(ctx); err != nil {
		return nil, err
	}
	client := redis.NewClient(c.ask(c.topology.Load().primaries[0].addr))
	defer client.Close()
	var err error
	if c.table, err = command.Load(ctx, client); err != nil {
		return nil, fmt.Errorf("learn the cluster's commands: %w", err)
	}
	following, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.work.Go(func() { c.follow(following) })
	return c, nil
}

// ask is how a node is asked by the proxy itself.
func (c *Cluster) ask(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, CredentialsProvider: c.options.Login, Protocol: 2, MaxRetries: -1, PoolSize: 1,
		ClientName: "fence-proxy", Dialer: c.options.Dial, DialTimeout: c.options.DialTimeout, ReadTimeout: c.options.DialTimeout,
		ContextTimeoutEnabled: true, DialerRetries: 1,
	}
}

// Dial returns a connection that speaks to the cluster as to one Redis. It is a go-redis Dialer: network and address don't
// matter.
func (c *Cluster) Dial(context.Context, string, string) (net.Conn, error) {
	one, far, err := pair()
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	f := newFront(c, socket.New(far))
	near := &end{one, f}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_, _ = near.Close(), far.Close()
		return nil, ErrClosed
	}
	c.fronts[f] = struct{}{}
	c.work.Go(func() {
		f.run()
		c.mu.Lock()
		delete(c.fronts, f)
		c.mu.Unlock()
	})
	return near, nil
}

// Close ends all connections and waits for their end.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	for f := range c.fronts {
		f.end(ErrClosed)
	}
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
}

// each calls a function with all connections.
func (c *Cluster) each(do func(f *front)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.fronts {
		do(f)
	}
}

// home returns the primary that gets what has no keys, the same for all connections as long as it is one.
func (c *Cluster) home(t *topology) *node { return t.primaries[c.picked%uint32(len(t.primaries))] }
