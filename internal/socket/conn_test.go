package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pairs are the kinds of connections that there are.
var pairs = map[string]func(t *testing.T) (near *Conn, far net.Conn){"tcp": tcp, "unix": unixSocket, "pipe": pipe}

func tcp(t *testing.T) (near *Conn, far net.Conn) {
	t.Helper()
	return dial(t, "tcp", "127.0.0.1:0")
}

func unixSocket(t *testing.T) (near *Conn, far net.Conn) {
	t.Helper()
	return dial(t, "unix", filepath.Join(t.TempDir(), "s"))
}

func pipe(t *testing.T) (near *Conn, far net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return New(a), b
}

func dial(t *testing.T, network, address string) (near *Conn, far net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return New(nc), far
}

func TestMoreThanTheSocketHoldsIsWrittenAndRead(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
			go func() {
				_, _ = io.Copy(far, far) // an echo
			}()
			written := make(chan error, 1)
			go func() {
				_, err := near.Write(sent)
				written <- err
			}()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(near, got); err != nil {
				t.Fatal(err)
			}
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, sent) {
				t.Error("what came back differs from what was sent")
			}
		})
	}
}

func TestTheEndIsReadAsTheEnd(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			go func() {
				_, _ = far.Write([]byte("last"))
				_ = far.Close()
			}()
			got, err := io.ReadAll(near)
			if string(got) != "last" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err := near.Receive(taker(make([]byte, 8), nil)); !errors.Is(err, io.EOF) {
				t.Errorf("receiving: %v, want EOF", err)
			}
		})
	}
}

func TestADeadlineEndsARead(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, _ := pair(t)
			ended := make(chan error, 2)
			for _, read := range []func() error{
				func() error { _, err := near.Read(make([]byte, 1)); return err },
				func() error { return near.Receive(taker(make([]byte, 1), nil)) },
			} {
				go func() { ended <- read() }()
				_ = near.SetReadDeadline(time.Unix(1, 0))
				if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the read ended with %v", err)
				}
				_ = near.SetReadDeadline(time.Time{})
			}
		})
	}
}

func TestCloseEndsAReadAndAWrite(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, _ := pair(t)
			ended := make(chan error, 2)
			go func() { ended <- near.Receive(taker(make([]byte, 1), nil)) }()
			go func() {
				for {
					if _, err := near.Write(make([]byte, 1<<16)); err != nil { // nobody reads it
						ended <- err
						return
					}
				}
			}()
			_ = near.Close()
			for range 2 {
				if err := <-ended; !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("ended with %v", err)
				}
			}
		})
	}
}

func TestAWriteToAPeerThatHasGoneFails(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			_ = far.Close()
			for range 1000 {
				if _, err := near.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Millisecond) // the reset is on its way
			}
			t.Error("no error")
		})
	}
}

func TestTryWriteTakesWhatTheSocketTakes(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			sent := 0
			for {
				n, err := near.TryWrite(make([]byte, 1<<20))
				if err != nil {
					t.Fatal(err)
				}
				if sent += n; n < 1<<20 {
					break
				}
			}
			if name == "pipe" {
				if sent > 0 {
					t.Errorf("%d bytes were written without a reader", sent)
				}
				return
			}
			if n, err := near.TryWrite(make([]byte, 1<<20)); n > 1<<19 || err != nil {
				t.Errorf("then %d bytes, %v", n, err)
			}
			if _, err := io.ReadFull(far, make([]byte, sent)); err != nil {
				t.Error(err)
			}
			_ = near.Close()
			if _, err := near.TryWrite([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}
