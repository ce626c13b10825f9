package proxy

import (
	"io"
	"net"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// linked gives a client an upstream connection, and returns its other end.
func linked(t *testing.T, c *client) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c.up = upstream.NewConn(near, &c.out)
	c.received = make(chan struct{})
	up, received := c.up, c.received
	c.receivers.Go(func() { // as in connect
		defer close(received)
		c.serve(up)
	})
	t.Cleanup(func() { _ = far.Close() })
	return far
}

// A client whose reply comes in the very moment in which its proxy stops hears it, or an error, but not both.
func TestAClientThatIsToGoHearsOneThing(t *testing.T) {
	const reply, refusal = "$6\r\nbefore\r\n", "-ERR fence-proxy: the proxy is stopping\r\n"
	for name, tc := range map[string]struct {
		blocks                bool
		early, between, after string // of the reply: before the end is known, while it is waited for, when it is over
		want                  string
	}{
		"granted after it was told":        {blocks: true, after: reply, want: refusal},
		"granted just before":              {blocks: true, early: reply[:7], between: reply[7:], want: reply},
		"nothing comes":                    {blocks: true, want: refusal},
		"the rest never comes":             {blocks: true, early: reply[:7], want: reply[:7]},
		"its command does not block":       {between: reply, want: reply},
		"… and is granted too late":        {after: reply, want: refusal},
		"… and the rest of it never comes": {early: reply[:7], want: reply[:7]},
	} {
		t.Run(name, func(t *testing.T) {
			c, far := connect(t, offline(t), "tcp")
			redis := linked(t, c)
			c.blocks = tc.blocks
			c.exchange.Reset(1, 0, false, always)
			ended := make(chan error)
			go func() { ended <- c.roundTrip(c.exchange, []byte("GET")) }()
			hears(t, redis, "GET")
			sends(t, redis, tc.early)
			hears(t, far, tc.early)
			c.stop()
			sends(t, redis, tc.between)
			if err := <-ended; err != nil {
				_ = c.refuse(errStopping)
			}
			sends(t, redis, tc.after)
			c.finish()
			c.unlink()
			c.out.close()
			_ = c.nc.Close()
			rest, _ := io.ReadAll(far)
			if got := tc.early + string(rest); got != tc.want {
				t.Errorf("it hears %q, want %q", got, tc.want)
			}
		})
	}
}

func sends(t *testing.T, to net.Conn, text string) {
	t.Helper()
	if _, err := to.Write([]byte(text)); err != nil {
		t.Error(err)
	}
}

func hears(t *testing.T, from net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}
