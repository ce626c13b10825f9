package harness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// RawConn is a client connection at the level of bytes.
type RawConn struct {
	net.Conn // for deadlines, half-closing and the like

	tb testing.TB
	in *bufio.Reader
}

// Dial connects to a "host:port" or the path of a unix socket. The connection is
// closed when the test ends.
func Dial(tb testing.TB, addr string) *RawConn {
	tb.Helper()
	c, err := Connect(addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	c.tb = tb
	return c
}

// Connect is Dial for other goroutines than the test's: it returns the error, and the caller
// closes the connection. Only methods that return an error may be called.
func Connect(addr string) (*RawConn, error) {
	conn, err := dial(addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &RawConn{Conn: conn, in: bufio.NewReader(conn)}, nil
}

// Send writes the text as it is.
func (c *RawConn) Send(text string) {
	c.tb.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.tb.Fatalf("send %.80q: %v", text, err)
	}
}

// Do sends one command and returns the bytes of one reply.
func (c *RawConn) Do(args ...string) []byte {
	c.tb.Helper()
	c.Send(Encode(args...))
	return c.ReadReply()
}

// ReadReply returns the bytes of exactly one reply or push, with an attribute that comes
// before it.
func (c *RawConn) ReadReply() []byte {
	c.tb.Helper()
	raw, err := c.Read()
	if err != nil {
		c.tb.Fatalf("read a reply: %v (after %.80q)", err, raw)
	}
	return raw
}

// Read is ReadReply for other goroutines than the test's: it returns the
// error, and with it the bytes that came before.
func (c *RawConn) Read() ([]byte, error) {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, raw, err := readReply(c.in)
	return raw, err
}

// ExpectClosed waits for the other side to close the connection, and fails the
// test if it says anything before.
func (c *RawConn) ExpectClosed() {
	c.tb.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if b, err := c.in.Peek(1); err == nil {
		rest, _ := c.in.Peek(c.in.Buffered())
		c.tb.Fatalf("expected the connection to be closed, got %.80q", rest)
	} else if len(b) > 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		c.tb.Fatalf("expected the connection to be closed: %v", err)
	}
}

// ExpectSilence fails the test if anything arrives within d, be it the end of
// the connection.
func (c *RawConn) ExpectSilence(d time.Duration) {
	c.tb.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	if _, err := c.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		rest, _ := c.in.Peek(c.in.Buffered())
		c.tb.Fatalf("expected silence, got %.80q (%v)", rest, err)
	}
}

// Reset closes the connection as a crash does: the other side gets a TCP reset. Any goroutine
// may call it.
func (c *RawConn) Reset() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		_ = conn.SetLinger(0)
	}
	_ = c.Close()
}

func dial(addr string) (net.Conn, error) {
	return net.DialTimeout(network(addr), addr, patience)
}

// network tells a unix socket's path from a "host:port".
func network(addr string) string {
	if strings.Contains(addr, "/") {
		return "unix"
	}
	return "tcp"
}
