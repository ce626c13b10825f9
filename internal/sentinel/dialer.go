package sentinel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long Dial waits for a primary, as in the moment of a failover. It is below the time that clients
	// wait for an answer, since one that has given up sends its command again.
	patience = time.Second
	// retry is the time between two attempts of one Dial.
	retry = 50 * time.Millisecond
	// tellEvery is the time between two lines in the log about the same trouble.
	tellEvery = 10 * time.Second
)

// ErrUnsettled says that no primary is known, or that the last one does not say that it still is one.
var ErrUnsettled = errors.New("no primary answers as one")

// Options are what a Dialer is made of. Those without a default are required.
type Options struct {
	// Name is what the Sentinels call the primary.
	Name string
	// Sentinels are their addresses, as host:port. Others that they know of are asked as well.
	Sentinels []string
	// Credentials are as whom to log in at the Sentinels, Login at the primary, which is then asked for its ROLE. They
	// are asked each time; nil, or an empty password, is nobody.
	Credentials, Login func() (username, password string)
	// Connect makes a connection, to a Sentinel or a node. Default a plain one.
	Connect func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTimeout bounds connecting to a Sentinel, and its answer.
	DialTimeout time.Duration
	Log         *slog.Logger
	// Switched, if set, is called when another node has become the primary and the connections to the one before are
	// closed. It must not wait.
	Switched func()
}

// Dialer connects to the primary, whichever node that is at the time. It is safe for concurrent use.
type Dialer struct {
	options Options

	stop    context.CancelFunc
	running sync.WaitGroup
	poked   chan struct{} // something may have changed: look at once
	news    atomic.Bool   // … since a Sentinel says so

	// Of the follower's goroutine:
	stations map[string]*station // the Sentinels, by address
	judges   map[string]*judge   // who ask nodes for their ROLE, by address
	asked    time.Time           // when the Sentinels were, last
	epoch    int64               // of their configuration when they named the primary
	doubts   int                 // how often in a row no primary was found
	told     time.Time           // when that was logged; zero while there is one
	mute     bool                // a node has not said whether it is a primary, and that was logged

	switches atomic.Int64

	mu      sync.Mutex
	primary string // the last known; "" before the first
	settled bool   // its ROLE has agreed, when it was last asked
	why     error  // it is not
	changed chan struct{}
	open    map[*member]struct{} // connections to nodes
}

// Open begins to follow the primary. The Dialer is there at once: the first Dial waits for a primary. The caller closes it.
func Open(o Options) *Dialer {
	if o.Connect == nil {
		o.Connect = (&net.Dialer{}).DialContext
	}
	ctx, stop := context.WithCancel(context.Background())
	d := &Dialer{
		options: o, stop: stop, poked: make(chan struct{}, 1), changed: make(chan struct{}), why: ErrUnsettled,
		stations: map[string]*station{}, judges: map[string]*judge{}, open: map[*member]struct{}{},
	}
	d.running.Go(func() { d.follow(ctx) })
	return d
}

// Close ends the following. Connections stay.
func (d *Dialer) Close() {
	d.stop()
	d.running.Wait()
}

// Primary is the node that is, or was last known as, the primary; "" if none is known yet.
func (d *Dialer) Primary() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.primary
}

// Switches is how often another node has become the primary.
func (d *Dialer) Switches() int64 { return d.switches.Load() }

// Dial connects to the primary; the address is not looked at. Where there is none, it waits a second at most.
func (d *Dialer) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		primary, changed, err := d.target()
		if err == nil {
			var nc net.Conn
			if nc, err = d.options.Connect(ctx, "tcp", primary); err == nil {
				if joined := d.join(nc, primary); joined != nil {
					return joined, nil
				}
				err = ErrUnsettled // it was replaced meanwhile
			}
		}
		d.Suspect()
		select {
		case <-changed:
		case <-time.After(retry):
		case <-wait.Done():
			return nil, fmt.Errorf("the primary %q of the Sentinels: %w", d.options.Name, err)
		}
	}
}

// Suspect has it looked, soon, whether the primary still is one: it has refused a write, say.
func (d *Dialer) Suspect() {
	select {
	case d.poked <- struct{}{}:
	default:
	}
}

// target is where to connect to.
func (d *Dialer) target() (primary string, changed <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.settled {
		return "", d.changed, d.why
	}
	return d.primary, d.changed, nil
}

// join counts a connection among those to a node; nil, and it is closed, if that is the primary no more.
func (d *Dialer) join(nc net.Conn, addr string) net.Conn {
	m := &member{of: d, nc: nc, addr: addr}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary != addr || !d.settled {
		_ = nc.Close()
		return nil
	}
	d.open[m] = struct{}{}
	return m.conn()
}

// agree notes that a node is the primary, by its own word too. Connections to others are closed.
func (d *Dialer) agree(addr string) {
	d.mu.Lock()
	before := d.primary
	d.primary = addr
	if !d.settled || before != addr {
		d.settled, d.why = true, nil
		d.wake()
	}
	left := d.leave(func(m *member) bool { return m.addr != addr })
	d.mu.Unlock()
	switch {
	case before == "":
		d.options.Log.Info("primary found", "name", d.options.Name, "primary", addr)
	case before != addr:
		d.switches.Add(1)
		d.options.Log.Warn("the primary has changed: its connections are left", "name", d.options.Name, "primary", addr, "was", before, "connections", left)
		if d.options.Switched != nil {
			d.options.Switched()
		}
	case !d.told.IsZero():
		d.options.Log.Info("the primary answers again", "name", d.options.Name, "primary", addr)
	}
	d.told = time.Time{}
}

// doubt notes why there is no primary to connect to.
func (d *Dialer) doubt(why error) {
	d.mu.Lock()
	d.why = why
	if d.settled {
		d.settled = false
		d.wake()
	}
	d.mu.Unlock()
	if now := time.Now(); now.Sub(d.told) >= tellEvery {
		d.told = now
		d.options.Log.Warn("no primary to connect to", "name", d.options.Name, "error", why)
	}
}

// abandon closes the connections to a node that says it is no primary.
func (d *Dialer) abandon(addr string, why error) {
	d.mu.Lock()
	left := d.leave(func(m *member) bool { return m.addr == addr })
	d.mu.Unlock()
	if left > 0 {
		d.options.Log.Warn("the primary has become a replica: its connections are left", "name", d.options.Name, "error", why, "connections", left)
	}
}

// wake tells those that wait in Dial. Called with mu held.
func (d *Dialer) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// leave closes connections. Called with mu held.
func (d *Dialer) leave(which func(*member) bool) (left int) {
	for m := range d.open {
		if which(m) {
			delete(d.open, m)
			m.sever()
			left++
		}
	}
	return left
}
