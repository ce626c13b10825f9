package harness

import (
	"net"
	"sync"
	"time"
)

// link is one connection through a relay. It ends when both directions have ended, or
// by close.
type link struct {
	relay  *Relay
	client net.Conn
	ended  chan struct{} // closed by close

	mu         sync.Mutex
	server     net.Conn // nil until connected
	closed     bool
	haunted    bool // the client's side is closed, and what it has sent is still on its way
	asked      bool // the client has sent since the server last answered
	roundTrips int
	bytes      [2][]byte
}

func newLink(relay *Relay, client net.Conn) *link {
	return &link{relay: relay, client: client, ended: make(chan struct{})}
}

// source is the address, without a port, that the client's connection comes from.
func (l *link) source() string {
	host, _, _ := net.SplitHostPort(l.client.RemoteAddr().String())
	return host
}

// run is the link's goroutine.
func (l *link) run() {
	defer l.relay.leave(l)
	defer l.close()
	server, err := dial(l.relay.target)
	if err != nil || !l.attach(server) {
		return
	}
	var pipes sync.WaitGroup
	pipes.Go(func() { newPipe(l, ToServer, l.client, server).run() })
	pipes.Go(func() { newPipe(l, ToClient, server, l.client).run() })
	pipes.Wait()
}

// attach gives the link its connection to the server, unless it ended meanwhile.
func (l *link) attach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// close ends the link from whichever side.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.ended)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// reset is close with an RST to both sides.
func (l *link) reset() {
	l.mu.Lock()
	for _, end := range []net.Conn{l.client, l.server} {
		if tcp, ok := end.(*net.TCPConn); ok && !l.closed {
			_ = tcp.SetLinger(0)
		}
	}
	l.mu.Unlock()
	l.close()
}

// haunt closes the client's side alone.
func (l *link) haunt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.haunted = true
	_ = l.client.Close()
}

func (l *link) isHaunted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.haunted
}

// asks notes that the client has sent something.
func (l *link) asks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
}

// forwards notes bytes that are about to arrive. It comes before their arrival, since the client's
// next bytes may come right after.
func (l *link) forwards(direction Direction, piece []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if direction == ToClient && l.asked {
		l.asked = false
		l.roundTrips++
	}
	if l.relay.keep {
		l.bytes[direction] = append(l.bytes[direction], piece...)
	}
}

func (l *link) seen() Connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := Connection{RoundTrips: l.roundTrips, Open: !l.closed}
	for direction, bytes := range l.bytes {
		c.Bytes[direction] = append([]byte(nil), bytes...)
	}
	return c
}

// pipe is one direction of a link.
type pipe struct {
	link      *link
	direction Direction
	from, to  net.Conn
	queue     chan piece // its bound, some 64 MB, is the network's capacity
}

// piece is what one read returned. The end of the stream is a piece without bytes.
type piece struct {
	bytes []byte
	due   time.Time
}

const (
	pieces    = 1024
	pieceSize = 64 << 10
)

func newPipe(l *link, direction Direction, from, to net.Conn) *pipe {
	return &pipe{link: l, direction: direction, from: from, to: to, queue: make(chan piece, pieces)}
}

// run forwards until the stream ends or the link does.
func (p *pipe) run() {
	var reader sync.WaitGroup
	reader.Go(p.read)
	p.write()
	reader.Wait()
}

func (p *pipe) read() {
	scratch := make([]byte, pieceSize)
	for {
		n, err := p.from.Read(scratch)
		if n > 0 && p.direction == ToServer {
			p.link.asks()
		}
		due := time.Now().Add(time.Duration(p.link.relay.half.Load()))
		if n > 0 && !p.enqueue(piece{append([]byte(nil), scratch[:n]...), due}) {
			return
		}
		if err != nil {
			p.enqueue(piece{nil, due})
			return
		}
	}
}

func (p *pipe) enqueue(next piece) bool {
	select {
	case p.queue <- next:
		return true
	case <-p.link.ended:
		return false
	}
}

func (p *pipe) write() {
	alarm := newAlarm(p.link.ended)
	defer alarm.close()
	for {
		var next piece
		select {
		case next = <-p.queue:
		case <-p.link.ended:
			return
		}
		if !alarm.wait(next.due) || !p.link.relay.open(p.link.ended) {
			return
		}
		if next.bytes == nil {
			p.end()
			return
		}
		if !p.trickle(next.bytes, alarm) {
			p.link.close()
			return
		}
	}
}

// trickle delivers the bytes, as fast as the relay allows. False means that the link is to end.
func (p *pipe) trickle(bytes []byte, alarm *alarm) bool {
	for len(bytes) > 0 {
		n := len(bytes)
		if rate := int(p.link.relay.rate.Load()); rate > 0 {
			n = min(n, max(rate/50, 1))
			if !alarm.wait(time.Now().Add(time.Duration(n) * time.Second / time.Duration(rate))) {
				return false
			}
		}
		if !p.deliver(bytes[:n]) {
			return false
		}
		bytes = bytes[n:]
	}
	return true
}

// deliver writes the bytes, as far as the relay allows. False means that the link is to
// end.
func (p *pipe) deliver(bytes []byte) bool {
	if p.link.isHaunted() {
		return p.direction == ToClient || p.send(bytes)
	}
	allowed, limit := p.link.relay.allow(p.direction, len(bytes))
	if !p.send(bytes[:allowed]) {
		return p.direction == ToClient && p.link.isHaunted() // the client's side was closed meanwhile
	}
	switch {
	case limit == nil:
		return true
	case limit.all:
		p.link.relay.Cut()
		close(limit.reached)
		return false
	case limit.deliver == nil:
		p.link.close()
		close(limit.reached)
		return false
	}
	p.link.haunt()
	close(limit.reached)
	select {
	case <-limit.deliver:
		return p.send(bytes[allowed:])
	case <-p.link.ended:
		return false
	}
}

func (p *pipe) send(bytes []byte) bool {
	if len(bytes) == 0 {
		return true
	}
	p.link.forwards(p.direction, bytes)
	_, err := p.to.Write(bytes)
	return err == nil
}

// end passes on that one side has finished sending; the other may go on.
func (p *pipe) end() {
	if half, ok := p.to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
