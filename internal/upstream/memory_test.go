package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
)

// large is an upstream that sends a reply of many megabytes, and what comes before and after it.
type large struct {
	net.Conn
	before, after []byte
	size          int
}

func (l *large) Read(b []byte) (int, error) {
	switch {
	case len(l.before) > 0:
		n := copy(b, l.before)
		l.before = l.before[n:]
		return n, nil
	case l.size > 0:
		n := min(len(b), l.size)
		for i := range n {
			b[i] = 'x'
		}
		l.size -= n
		return n, nil
	case len(l.after) > 0:
		n := copy(b, l.after)
		l.after = l.after[n:]
		return n, nil
	}
	return 0, io.EOF
}

func (l *large) Write(b []byte) (int, error) { return len(b), nil }

// count is a client that only counts.
type count int

func (c *count) Write(p []byte) (int, error) { *c += count(len(p)); return len(p), nil }
func (*count) Flush() error                  { return nil }

func TestALargeReplyIsNeverKept(t *testing.T) {
	const size = 16 << 20
	head := fmt.Sprintf("$%d\r\n", size)
	for name, tc := range map[string]struct {
		before, after string
		prepare       func(*Conn, *Exchange)
		want          int
	}{
		"passed": {
			head, "\r\n+OK\r\n",
			func(c *Conn, x *Exchange) {
				c.Pass(nil, 1)
				x.Reset(1, -1, false, nil)
			},
			len(head) + size + 2,
		},
		"streamed": {
			"+granted\r\n" + head, "\r\n",
			func(_ *Conn, x *Exchange) { x.Reset(2, 1, false, func(byte) bool { return true }) },
			len(head) + size + 2,
		},
		"dropped": {
			"+held\r\n" + head, "\r\n",
			func(_ *Conn, x *Exchange) { x.Reset(2, 1, false, func(byte) bool { return false }) },
			0,
		},
		"out of an EXEC": {
			"$4\r\ngood\r\n*2\r\n" + head, "\r\n:1\r\n",
			func(_ *Conn, x *Exchange) { x.Reset(2, 1, true, func(byte) bool { return true }) },
			len(head) + size + 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			down := new(count)
			c := NewConn(&large{before: []byte(tc.before), size: size, after: []byte(tc.after)}, down)
			x := NewExchange()
			tc.prepare(c, x)
			c.Send(x, nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_ = c.Serve()
			runtime.ReadMemStats(&after)
			if x.Err != nil || len(x.Done) != 1 {
				t.Fatalf("the exchange ended with %v", x.Err)
			}
			if int(*down) != tc.want {
				t.Errorf("the client got %d bytes, want %d", *down, tc.want)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; cap(x.kept) > 1<<10 || allocated > 1<<20 {
				t.Errorf("%d bytes are kept of %d allocated", cap(x.kept), allocated)
			}
		})
	}
}

func TestALargeRequestIsNotKept(t *testing.T) {
	s := newScene(t)
	s.Pass(bytes.Repeat([]byte("x"), 1<<20), 1)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	s.Pass([]byte("small"), 1)
	if cap(s.out) > outKept {
		t.Errorf("room for %d bytes is kept", cap(s.out))
	}
	if err := s.Flush(); err != nil || s.peer.requests[1] != "small" {
		t.Errorf("sent %.20q, %v", s.peer.requests[1], err)
	}
}

func TestThePassingOfARequestAllocatesNothing(t *testing.T) {
	c := NewConn(&large{}, new(count))
	request, reply := []byte("*1\r\n$4\r\nPING\r\n"), []byte("+PONG\r\n")
	if n := testing.AllocsPerRun(1000, func() {
		c.Pass(request, 1)
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.reply(reply); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAnExchangeThatIsUsedAgainAllocatesNothing(t *testing.T) {
	c := NewConn(&large{}, new(count))
	x := NewExchange()
	decide := func(byte) bool { return true }
	request, reply := []byte("request"), []byte("$4\r\ngood\r\n+QUEUED\r\n*2\r\n+OK\r\n:1\r\n")
	if n := testing.AllocsPerRun(1000, func() {
		x.Reset(3, 2, true, decide)
		c.Send(x, request)
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		for data := reply; len(data) > 0; {
			n, err := c.reply(data)
			if err != nil {
				t.Fatal(err)
			}
			data = data[n:]
		}
		c.signal()
		<-x.Done
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheQueueOfAwaitedRepliesDoesNotGrowWithTheirNumber(t *testing.T) {
	s := newScene(t)
	for range 200 { // always some hundred are under way
		s.exchange(1, -1, false, false)
	}
	for range 10_000 {
		x := s.exchange(1, -1, false, false)
		s.Pass(nil, 1)
		for _, reply := range []string{"+x\r\n", "+p\r\n"} {
			if _, err := s.reply([]byte(reply)); err != nil {
				t.Fatal(err)
			}
		}
		s.signal()
		_ = x
	}
	if n := cap(s.waiting); n > 2000 {
		t.Errorf("room for %d is kept", n)
	}
}
