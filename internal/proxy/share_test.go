package proxy

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// sameAnswer answers whatever comes, a piece at a time, with the same reply, and returns where.
func sameAnswer(t *testing.T, reply string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		for buf, answer := make([]byte, 1<<10), []byte(reply); err == nil; {
			if _, err = nc.Read(buf); err == nil {
				_, err = nc.Write(answer)
			}
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

func TestACommandOverASharedConnectionAllocatesNothing(t *testing.T) {
	s := offline(t)
	s.shares = newShares(&upstream.Endpoint{Options: &redis.Options{Network: "tcp", Addr: sameAnswer(t, "$1\r\nv\r\n")}, DialTimeout: time.Minute}, nil, upstream.Limits{})
	s.shares.clients.Store(shareFrom)
	t.Cleanup(s.shares.close)
	c, far := connect(t, s, "tcp")
	request, reply := []byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"), make([]byte, len("$1\r\nv\r\n"))
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := far.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := c.in.fill(c.nc, 0); err != nil {
			t.Fatal(err)
		}
		req, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.handle(req); err != nil {
			t.Fatal(err)
		}
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(far, reply); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if string(reply) != "$1\r\nv\r\n" || c.up != nil {
		t.Errorf("the reply is %q, over a connection of its own: %v", reply, c.up != nil)
	}
}
