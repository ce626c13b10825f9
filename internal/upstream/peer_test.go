package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// peer is an upstream whose replies are known beforehand. Each piece is what one read returns;
// after the last one it closes.
type peer struct {
	net.Conn // whatever else is called panics
	pieces   [][]byte
	requests []string // one for each write
	broken   error    // writes fail
}

func (p *peer) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.pieces[0])
	if p.pieces[0] = p.pieces[0][n:]; len(p.pieces[0]) == 0 {
		p.pieces = p.pieces[1:]
	}
	return n, nil
}

func (p *peer) Write(b []byte) (int, error) {
	if p.broken != nil {
		return 0, p.broken
	}
	p.requests = append(p.requests, string(b))
	return len(b), nil
}

// client is the downstream: it remembers what it got.
type client struct {
	mu      sync.Mutex
	bytes   bytes.Buffer
	flushed int // bytes that were there at the last flush
	broken  error
}

func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return 0, c.broken
	}
	return c.bytes.Write(p)
}

func (c *client) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = c.bytes.Len()
	return nil
}

func (c *client) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes.String()
}

// scene is a connection between a scripted peer and a client. Both sides run in the test's own
// goroutine: what is to be awaited first, then the replies.
type scene struct {
	*testing.T
	*Conn
	peer   *peer
	client *client
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, peer: &peer{}, client: &client{}}
	s.Conn = NewConn(s.peer, s.client)
	return s
}

// exchange sends one. The client's reply is wanted if want says so.
func (s *scene) exchange(frames, stream int, open, want bool) *Exchange {
	x := NewExchange()
	x.Reset(frames, stream, open, func(byte) bool { return want })
	s.Send(x, []byte("x"))
	return x
}

// replies lets the peer reply and close.
func (s *scene) replies(pieces ...string) {
	s.Helper()
	for _, piece := range pieces {
		s.peer.pieces = append(s.peer.pieces, []byte(piece))
	}
	if err := s.Serve(); !errors.Is(err, io.EOF) {
		s.Fatalf("served until %v", err)
	}
}

// got fails the test unless the client got just this.
func (s *scene) got(want string) {
	s.Helper()
	if got := s.client.String(); got != want {
		s.Errorf("the client got %q, want %q", got, want)
	}
}

// done fails the test unless an exchange ended once, and as it should.
func (s *scene) done(x *Exchange, want error) {
	s.Helper()
	if len(x.Done) != 1 || !errors.Is(x.Err, want) || want == nil && x.Err != nil {
		s.Fatalf("the exchange ended %d times, with %v; want %v", len(x.Done), x.Err, want)
	}
	<-x.Done
}

// kept fails the test unless these are the frames that an exchange kept.
func (s *scene) kept(x *Exchange, want ...string) {
	s.Helper()
	for i, frame := range want {
		if got := string(x.Frame(i)); got != frame {
			s.Errorf("frame %d is %q, want %q", i, got, frame)
		}
	}
	if extra := x.Frame(len(want)); len(extra) != 0 {
		s.Errorf("and a frame %q", extra)
	}
}
