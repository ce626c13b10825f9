package cluster

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

const (
	// glance is how often it is looked whether the client has gone, while nothing is read from it.
	glance = 100 * time.Millisecond
	// keptMost is how many bytes of requests are kept until they are answered, to be sent again if their slot has moved.
	keptMost = 16 << 20
	// batchMost is how many commands are sent at once.
	batchMost = 1024
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// readBuffers are the buffers of connections that are not in use.
var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// front is the other end of a client's connection: it speaks as one Redis. Its goroutine, the router, reads requests and sends
// each to the node that has its slot; each node's connection has a goroutine that takes replies.
type front struct {
	c    *Cluster
	pair *socket.Conn

	// the router's
	in           inbox
	parser       *resp.RequestParser
	topology     *topology // by which is routed; another is taken when nothing is under way
	home         *node     // gets what has no keys
	main         map[*node]*conn
	batch        []entry // to be queued
	touched      []*conn
	session      session
	tx           *transaction // nil outside MULTI
	watching     *watching    // nil: the client has not said WATCH, or something since that ends it
	watchedSlots []int
	watched      *conn  // where it stands
	written      *conn  // of the last write
	caching      []byte // CLIENT CACHING, which is about the next command
	everywhere
	args [][]byte // of commands that the router makes

	awaiting atomic.Bool
	change   chan struct{} // tells the router that something it may wait for has happened
	trouble  atomic.Bool   // the first reply to come can't be had without the router
	nudged   atomic.Bool   // the topology is another
	partial  atomic.Bool   // not all primaries have been subscribed to

	mu        sync.Mutex
	queue     queue
	kept      int     // bytes of requests in it
	conns     []*conn // all that were made and not taken away
	err       error   // why it ended, nil before
	finishing bool    // the client sends no more: nodes may close

	out     sync.Mutex // to write to the client; before mu
	box     outbox
	midst   *conn // of whose frame the client has got a part
	room    *sync.Cond
	crowded int  // who waits for room
	hearing bool // something may be sent unasked
	kicked  atomic.Bool
	dead    atomic.Bool // err is set

	work sync.WaitGroup
	gone chan struct{} // nothing of it is at work any more
}

func newFront(c *Cluster, nc *socket.Conn) *front {
	f := &front{
		c: c, pair: nc, topology: c.topology.Load(), main: map[*node]*conn{}, change: make(chan struct{}, 1), gone: make(chan struct{}),
		parser: resp.NewRequestParser(resp.Limits{MaxBulk: 1 << 40, MaxRequest: 1 << 40}),
	}
	f.room = sync.NewCond(&f.out)
	f.home = c.home(f.topology)
	f.session.proto = 2
	return f
}

// run serves the client until it goes or a node's connection breaks.
func (f *front) run() {
	defer close(f.gone)
	f.end(f.serve())
	f.mu.Lock()
	conns := f.conns
	f.mu.Unlock()
	for _, c := range conns {
		<-c.done
	}
	f.work.Wait()
	_ = f.pair.Close()
	if f.in.in != nil {
		f.in.in.release()
	}
}

// end makes everything that goes on for the front end. Any goroutine may call it.
func (f *front) end(why error) {
	f.mu.Lock()
	if f.err == nil {
		if f.err = why; why == nil {
			f.err = io.EOF
		}
		f.dead.Store(true)
		_ = f.pair.SetDeadline(past)
		for _, c := range f.conns {
			_ = c.SetDeadline(past)
		}
	}
	f.mu.Unlock()
	f.changed()
	go f.room.Broadcast() // whoever holds the lock may be the caller
}

// over reports whether the front has ended.
func (f *front) over() bool { return f.dead.Load() }

// why returns why the front has ended, nil if it has not.
func (f *front) why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// serve is the router's loop.
func (f *front) serve() error {
	for {
		err := f.pair.Receive((*requests)(f))
		switch {
		case f.over():
			return f.why()
		case errors.Is(err, os.ErrDeadlineExceeded): // it was called
			if err := f.called(); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return f.finish()
		default:
			return err
		}
	}
}

// nudge calls the router, since the topology is another.
func (f *front) nudge() {
	f.nudged.Store(true)
	f.call()
}

// call makes the router look at what it has to do besides routing.
func (f *front) call() {
	f.mu.Lock()
	if f.err == nil {
		_ = f.pair.SetReadDeadline(past)
	}
	f.mu.Unlock()
	f.changed()
}

// changed wakes the router if it waits for something.
func (f *front) changed() {
	if f.awaiting.Load() {
		select {
		case f.change <- struct{}{}:
		default:
		}
	}
}

// called is what the router does when it was called.
func (f *front) called() error {
	f.mu.Lock()
	if f.err == nil {
		_ = f.pair.SetReadDeadline(time.Time{})
	}
	f.mu.Unlock()
	if err := f.recover(); err != nil {
		return err
	}
	if f.nudged.Swap(false) {
		if err := f.tidy(); err != nil {
			return err
		}
	}
	return f.flush()
}

// await waits until a condition holds, which is looked at whenever a reply has come or for at most so long (0: for ever). It
// ends with the client.
func (f *front) await(atMost time.Duration, holds func() bool) error {
	f.awaiting.Store(true)
	defer f.awaiting.Store(false)
	watch := time.NewTicker(glance)
	defer watch.Stop()
	var late <-chan time.Time
	if atMost > 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		late = timer.C
	}
	for !holds() {
		if f.over() {
			return f.why()
		}
		select {
		case <-f.change:
		case <-late:
			return nil
		case <-watch.C:
			if f.pair.HungUp() {
				return errGone
			}
		}
	}
	return nil
}

// drained waits until everything that was sent is answered.
func (f *front) drained() error {
	if err := f.flush(); err != nil {
		return err
	}
	for {
		if f.quiet() {
			return nil
		}
		if err := f.await(0, func() bool { return f.quiet() || f.trouble.Load() }); err != nil {
			return err
		}
		if err := f.recover(); err != nil {
			return err
		}
	}
}

// quiet reports whether no reply is to come.
func (f *front) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue.len == 0
}

// finish answers what has come from a client that sends no more, as Redis does: what blocks is let go.
func (f *front) finish() error {
	if err := f.flush(); err != nil || f.pair.HungUp() {
		return err
	}
	f.mu.Lock()
	f.finishing = true
	conns := f.conns
	f.mu.Unlock()
	for {
		if err := f.recover(); err != nil {
			return err
		}
		for _, c := range conns {
			_ = c.CloseWrite()
		}
		ended := func() bool {
			for _, c := range conns {
				if !c.lost.Load() {
					return false
				}
			}
			return true
		}
		if err := f.await(0, func() bool { return f.quiet() || f.trouble.Load() || ended() }); err != nil {
			return err
		}
		if f.trouble.Load() {
			continue
		}
		for !f.out.TryLock() { // the last replies are on their way
			if err := f.await(time.Millisecond, f.over); err != nil {
				return err
			}
		}
		f.out.Unlock()
		return nil
	}
}

// late reports whether a node has left commands unanswered for longer than it should take, as far as that can be told.
func (f *front) late(now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if c.pending > 0 && now.Sub(c.since) > lookOut {
			return !f.queue.first().blocks
		}
	}
	return false
}

// desert ends the front if it waits for a node that is no primary any more, or of which the others say that it is down: its
// connection may stay open for ever.
func (f *front) desert(now time.Time) {
	t := f.c.topology.Load()
	gone := false
	f.mu.Lock()
	for _, c := range f.conns {
		gone = gone || c.pending > 0 && now.Sub(c.since) > lookOut && (!t.has(c.n) || t.failed[c.n])
	}
	f.mu.Unlock()
	if gone {
		f.end(errors.New("the node that commands wait for is down"))
	}
}

// requests is a front as a socket.Taker: of its client's requests.
type requests front

// Room implements socket.Taker.
func (r *requests) Room() []byte { return r.in.room(r.parser.Missing()) }

// Rest implements socket.Taker.
func (r *requests) Rest() { r.in.rest() }

// Take implements socket.Taker.
func (r *requests) Take(data []byte) (more bool, err error) {
	f := (*front)(r)
	f.in.much = len(data) > chunkSmall/2 || f.in.end+len(data) == len(f.in.in.buf)
	f.in.end += len(data)
	if f.c.topology.Load() != f.topology {
		if err := f.tidy(); err != nil {
			return false, err
		}
	}
	return true, f.routeAll()
}

// routeAll routes all requests that are complete.
func (f *front) routeAll() error {
	for {
		if f.trouble.Load() {
			if err := f.settle(); err != nil {
				return err
			}
		}
		req, n, err := f.parser.Next(f.in.bytes())
		if err != nil {
			f.say(resp.AppendError(nil, "ERR "+err.Error()), true)
			_ = f.drained()
			return err
		}
		if n == 0 {
			return f.flush()
		}
		raw := f.in.in.buf[f.in.start : f.in.start+n]
		f.in.start += n
		if len(req.Args) == 0 {
			continue
		}
		if req.Inline {
			raw = resp.AppendCommand(nil, req.Args...)
		}
		if err := f.route(request{raw: raw, args: req.Args, in: f.in.in, inline: req.Inline}); err != nil {
			return err
		}
		if len(f.batch) >= batchMost {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
}

// settle sends what is ready, and recovers.
func (f *front) settle() error {
	if err := f.flush(); err != nil {
		return err
	}
	return f.recover()
}

// request is one command of the client.
type request struct {
	raw    []byte
	args   [][]byte
	in     *chunk
	inline bool
}

// flush queues and sends what was routed.
func (f *front) flush() error {
	if err := f.tell(); err != nil {
		return err
	}
	return f.ship()
}

// ship is flush for within a transaction's way.
func (f *front) ship() error {
	if len(f.batch) == 0 {
		return nil
	}
	now := time.Now()
	idle := false // nobody may come by to say what is local
	f.mu.Lock()
	for i := range f.batch {
		e := &f.batch[i]
		if e.in != nil {
			f.kept += len(e.raw)
		}
		if e.c != nil {
			if e.c.pending++; e.c.pending == 1 {
				e.c.since = now
			}
		} else {
			idle = true
		}
		f.queue.push(e)
	}
	f.forget()
	f.mu.Unlock()
	clear(f.batch)
	f.batch = f.batch[:0]
	for i, c := range f.touched {
		f.touched[i] = nil
		if err := c.send(); err != nil {
			return err
		}
	}
	f.touched = f.touched[:0]
	if idle {
		f.kick()
	}
	return nil
}

// forget gives up requests that wait for their replies when they are too much to keep: they can't be sent again.
func (f *front) forget() {
	if f.kept <= keptMost {
		return
	}
	f.queue.each(func(_ int, e *entry) {
		if e.in != nil && f.kept > keptMost {
			f.free(e)
		}
	})
}

// free lets go of an entry's request. It may be on its way: the outbox has it, and nobody uses its memory before the entry
// has been answered.
func (f *front) free(e *entry) {
	if e.in != nil {
		f.kept -= len(e.raw)
		e.in.release()
	}
	e.in, e.raw = nil, nil
}

// put routes an entry to a connection, or, if that is nil, leaves it to recover. raw is sent.
func (f *front) put(e *entry) {
	if e.in != nil {
		e.in.use()
	}
	if e.again.what != none {
		f.trouble.Store(true) // nothing is sent behind it before it has been dealt with
	}
	if e.c != nil {
		if !e.c.touched {
			e.c.touched = true
			f.touched = append(f.touched, e.c)
		}
		e.c.box.add(e.raw)
	}
	f.batch = append(f.batch, *e)
}

// say answers a command here.
func (f *front) say(text []byte, closes bool) {
	f.put(&entry{kind: local, slot: -1, text: text, closes: closes})
}
