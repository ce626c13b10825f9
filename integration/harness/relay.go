package harness

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Relay is a network between a client and a server: it forwards bytes, and can be
// slow, count, remember, or break. Each direction of a connection is a pipe:
//
//	client ──▶ read ──▶ queue, each piece with a due time ──▶ write ──▶ server
//
// Delay holds no byte up behind another, so it costs no throughput. Everything that
// counts or remembers does so as the client sees it, except where the server is named.
type Relay struct {
	Addr string

	tb     testing.TB
	target string
	keep   bool         // capture bytes
	brief  bool         // forget connections that have ended
	half   atomic.Int64 // delay of one direction, as a Duration
	rate   atomic.Int64 // bytes a second that one direction of a connection lets through; 0: any number

	tasks sync.WaitGroup // one accept loop and all links

	mu       sync.Mutex
	listener net.Listener    // nil while cut
	links    []*link         // all there ever were, or all that are open
	barred   map[string]bool // sources
	hole     chan struct{}   // nil, or closed when the black hole ends
	limit    *byteLimit      // nil when there is none
}

// RelayOption changes a Relay from [StartRelay].
type RelayOption func(*Relay)

// WithDelay makes a round trip longer by d, half of it in each direction. On Linux it
// is exact to some 0.2 ms on a machine that isn't overloaded.
func WithDelay(d time.Duration) RelayOption {
	return func(r *Relay) { r.Slow(d) }
}

// WithCapture keeps all bytes for [Relay.Connections].
func WithCapture() RelayOption {
	return func(r *Relay) { r.keep = true }
}

// WithoutPast forgets each connection when it has ended: for a relay that sees more of them than memory should keep.
func WithoutPast() RelayOption {
	return func(r *Relay) { r.brief = true }
}

// Direction is a direction of a Relay's traffic.
type Direction int

// The two directions.
const (
	ToServer Direction = iota
	ToClient
)

// Connection is what a Relay knows about one connection, open or closed.
type Connection struct {
	// RoundTrips is how often the server answered: bytes to the client after
	// bytes to the server, however many. A pipeline is one if its replies
	// come after all of it was sent.
	RoundTrips int
	// Bytes forwarded, by [Direction]; nil without [WithCapture].
	Bytes [2][]byte
	Open  bool
}

// StartRelay starts a relay to a "host:port" or a unix socket's path, on a free port. It
// closes when the test ends.
func StartRelay(tb testing.TB, target string, options ...RelayOption) *Relay {
	tb.Helper()
	return startRelayAt(tb, loopback(FreePort(tb)), target, options...)
}

// startRelayAt is StartRelay on a port that [FreePort] gave.
func startRelayAt(tb testing.TB, addr, target string, options ...RelayOption) *Relay {
	tb.Helper()
	r := &Relay{Addr: addr, tb: tb, target: target}
	for _, option := range options {
		option(r)
	}
	r.Restore()
	tb.Cleanup(r.Close)
	return r
}

// URL is the relay's address as an upstream URL.
func (r *Relay) URL() string { return "redis://" + r.Addr }

// Close ends all connections and waits for the relay's goroutines.
func (r *Relay) Close() {
	r.Cut()
	r.tasks.Wait()
}

// Cut closes all connections and refuses new ones.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		_ = r.listener.Close()
		r.listener = nil
	}
	for _, l := range r.links {
		l.close()
	}
}

// Restore accepts connections again after a Cut.
func (r *Relay) Restore() {
	r.tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		return
	}
	var listener net.Listener
	var err error
	if !poll(patience, func() bool { // a process that was being started at a Cut has a copy of the listener for a moment
		listener, err = net.Listen("tcp", r.Addr)
		return !errors.Is(err, syscall.EADDRINUSE)
	}) || err != nil {
		r.tb.Fatalf("start the relay: %v", err)
	}
	r.listener = listener
	r.tasks.Go(func() { r.serve(listener) })
}

// Reset is Cut for all connections at once, in the way of a host that has crashed (RST): what is on its way is lost. New ones
// are accepted.
func (r *Relay) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.reset()
	}
}

// Slow makes a round trip longer by d from now on, in the place of [WithDelay]'s. 0 ends that; what is on its way still takes its time.
func (r *Relay) Slow(d time.Duration) { r.half.Store(int64(d / 2)) }

// Throttle lets so many bytes a second through, in each direction of each connection; 0 any number.
func (r *Relay) Throttle(bytesPerSecond int) { r.rate.Store(int64(bytesPerSecond)) }

// Bar closes the connections that come from these addresses, and refuses new ones, until Admit. A
// server's own connections are told from a client's by a source address of their own, as 127.0.0.2.
func (r *Relay) Bar(sources ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.barred == nil {
		r.barred = map[string]bool{}
	}
	for _, source := range sources {
		r.barred[source] = true
	}
	for _, l := range r.links {
		if r.barred[l.source()] {
			l.close()
		}
	}
}

// Admit lets all in again that were barred.
func (r *Relay) Admit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.barred)
}

// Blackhole stops all forwarding, also that of a connection's end, and keeps every socket open;
// new connections open, too. Turned off, it lets out what it has held back, as a network
// that loses and resends packets does.
func (r *Relay) Blackhole(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on && r.hole == nil:
		r.hole = make(chan struct{})
	case !on && r.hole != nil:
		close(r.hole)
		r.hole = nil
	}
}

// CutAfterBytes forwards n more bytes in one direction, over all connections, and then closes
// the connection that the next byte is on, which is not forwarded; other connections stay,
// new ones are accepted. The channel closes when it has happened. A second call replaces
// a first that has not.
func (r *Relay) CutAfterBytes(direction Direction, n int) <-chan struct{} {
	limit := &byteLimit{direction: direction, left: n, reached: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
	return limit.reached
}

// BreakAfterBytes forwards n more bytes in one direction, over all connections, and then does as Cut.
func (r *Relay) BreakAfterBytes(direction Direction, n int) <-chan struct{} {
	limit := &byteLimit{direction: direction, left: n, reached: make(chan struct{}), all: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
	return limit.reached
}

// HauntAfterBytes forwards n more bytes to the server, over all connections, and then closes the client's side of the
// connection that the next byte is on. What the client has sent beyond is held back, and still reaches the server: when the
// function that it returns is called, which may be at any time, and not at all if the relay ends before. Replies to it go nowhere.
func (r *Relay) HauntAfterBytes(n int) (cut <-chan struct{}, deliver func()) {
	limit := &byteLimit{direction: ToServer, left: n, reached: make(chan struct{}), deliver: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
	return limit.reached, sync.OnceFunc(func() { close(limit.deliver) })
}

// RoundTrips is the sum over all connections, see [Connection].
func (r *Relay) RoundTrips() int {
	sum := 0
	for _, c := range r.Connections() {
		sum += c.RoundTrips
	}
	return sum
}

// Connections are all connections in the order of their opening, or with [WithoutPast] those that have not ended.
func (r *Relay) Connections() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	var connections []Connection
	for _, l := range r.links {
		connections = append(connections, l.seen())
	}
	return connections
}

// serve accepts until the listener closes.
func (r *Relay) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l := newLink(r, conn)
		switch entered, open := r.enter(l, listener); {
		case !open:
			l.close()
			return
		case !entered:
			l.close()
		}
	}
}

// enter registers and starts a link, unless its source is barred or the relay was cut meanwhile.
func (r *Relay) enter(l *link, listener net.Listener) (entered, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.listener != listener:
		return false, false
	case r.barred[l.source()]:
		return false, true
	}
	r.links = append(r.links, l)
	r.tasks.Go(l.run)
	return true, true
}

// leave is a link's end.
func (r *Relay) leave(l *link) {
	if !r.brief {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links = slices.DeleteFunc(r.links, func(one *link) bool { return one == l })
}

// open waits while the relay is a black hole. False means that the link ended.
func (r *Relay) open(ended <-chan struct{}) bool {
	for {
		r.mu.Lock()
		hole := r.hole
		r.mu.Unlock()
		if hole == nil {
			return true
		}
		select {
		case <-hole:
		case <-ended:
			return false
		}
	}
}

// byteLimit is a CutAfterBytes or HauntAfterBytes that is waiting.
type byteLimit struct {
	direction Direction
	left      int
	reached   chan struct{}
	all       bool          // of BreakAfterBytes
	deliver   chan struct{} // of HauntAfterBytes: closed when what is held back goes on
}

// allow says how many of the next n bytes may pass. The limit is non-nil if the link has to
// be cut behind them.
func (r *Relay) allow(direction Direction, n int) (int, *byteLimit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.limit
	if limit == nil || limit.direction != direction {
		return n, nil
	}
	if n <= limit.left {
		limit.left -= n
		return n, nil
	}
	r.limit = nil
	return limit.left, limit
}
