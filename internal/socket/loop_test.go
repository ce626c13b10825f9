package socket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
)

// inbox is a taker with one buffer.
type inbox struct {
	buf    []byte
	take   func(data []byte) (more bool, err error)
	rested bool
}

func taker(buf []byte, take func(data []byte) (more bool, err error)) *inbox {
	return &inbox{buf: buf, take: take}
}

func (i *inbox) Room() []byte                   { i.rested = false; return i.buf }
func (i *inbox) Take(data []byte) (bool, error) { return i.take(data) }
func (i *inbox) Rest()                          { i.rested = true }

// A reply that is there before the asker waits for it must still wake it up.
func TestNoAnswerIsMissed(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			go func() {
				_, _ = io.Copy(far, far)
			}()
			buf := make([]byte, 64)
			for i := range 20000 {
				request := fmt.Appendf(nil, "request %d\n", i)
				var got []byte
				err := near.Exchange([][]byte{request}, taker(buf, func(data []byte) (bool, error) {
					got = append(got, data...)
					return len(got) < len(request), nil
				}))
				if err != nil || !bytes.Equal(got, request) {
					t.Fatalf("%q, %v, want %q", got, err, request)
				}
			}
		})
	}
}

// The end may have come just before: a peer that has closed only its own half sends nothing more that would wake anybody up.
func TestNothingIsSentBehindAnEndThatWasNotAskedFor(t *testing.T) {
	for name, pair := range map[string]func(*testing.T) (*Conn, net.Conn){"tcp": tcp, "unix socket": unixSocket} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			if err := far.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			for !near.HungUp() { // until it has arrived
			}
			err := near.Exchange([][]byte{[]byte("request")}, taker(make([]byte, 64), func([]byte) (bool, error) { return true, nil }))
			if !errors.Is(err, ErrStale) {
				t.Errorf("%v, want %v", err, ErrStale)
			}
			_ = near.CloseWrite()
			if got, err := io.ReadAll(far); len(got) > 0 || err != nil {
				t.Errorf("%q was sent, %v", got, err)
			}
		})
	}
}

func TestARequestLargerThanTheSocketHoldsIsSentWhole(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			request := append(bytes.Repeat([]byte("x"), 32<<20), '\n')
			go func() {
				line, _ := bufio.NewReader(far).ReadBytes('\n')
				_, _ = fmt.Fprintf(far, "%d", len(line))
				_ = far.Close()
			}()
			var got []byte
			err := near.Exchange([][]byte{request}, taker(make([]byte, 3), func(data []byte) (bool, error) {
				got = append(got, data...)
				return true, nil
			}))
			if want := fmt.Sprint(len(request)); string(got) != want || !errors.Is(err, io.EOF) {
				t.Errorf("the peer has got %s bytes (%v), want %s", got, err, want)
			}
		})
	}
}

func TestReceiveTakesAllThatComes(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			const total = 4 << 20
			go func() {
				for sent := 0; sent < total; {
					n := 1 + sent%4093
					_, _ = far.Write(make([]byte, min(n, total-sent)))
					sent += min(n, total-sent)
				}
			}()
			got := 0
			err := near.Receive(taker(make([]byte, 1024), func(data []byte) (bool, error) {
				got += len(data)
				return got < total, nil
			}))
			if got != total || err != nil {
				t.Errorf("%d bytes, %v, want %d", got, err, total)
			}
		})
	}
}

func TestManyRequestsAreSentInTheirOrder(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			var requests [][]byte
			for i := range 1000 { // most are small, some larger than the socket holds
				request := fmt.Appendf(nil, "%d,", i)
				if i%300 == 299 {
					request = append(bytes.Repeat([]byte{'x'}, 8<<20), ',')
				}
				if i%7 == 0 {
					requests = append(requests, nil)
				}
				requests = append(requests, request)
			}
			want := bytes.Join(requests, nil)
			go func() {
				got := make([]byte, len(want))
				_, _ = io.ReadFull(far, got)
				_, _ = fmt.Fprint(far, bytes.Equal(got, want))
				_ = far.Close()
			}()
			var got []byte
			err := near.Exchange(requests, taker(make([]byte, 8), func(data []byte) (bool, error) {
				got = append(got, data...)
				return true, nil
			}))
			if string(got) != "true" || !errors.Is(err, io.EOF) {
				t.Errorf("what came is what was sent: %s (%v)", got, err)
			}
		})
	}
}

func TestWhileNothingIsThereATakerNeedsNoRoom(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			var to *inbox
			asked := make(chan bool)
			go func() {
				_, _ = far.Write([]byte("x"))
				<-asked
				_ = far.Close()
			}()
			to = taker(make([]byte, 8), func([]byte) (bool, error) { close(asked); return true, nil })
			if err := near.Receive(to); !errors.Is(err, io.EOF) || !to.rested {
				t.Errorf("ended with %v, room given back: %v", err, to.rested)
			}
		})
	}
}

func TestTheTakersErrorEndsReceiving(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			want := errors.New("enough")
			go func() { _, _ = far.Write([]byte("x")) }()
			if err := near.Receive(taker(make([]byte, 8), func([]byte) (bool, error) { return true, want })); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

func TestASteadyExchangeAllocatesNothing(t *testing.T) {
	c, far := tcp(t)
	go func() {
		_, _ = io.Copy(far, far)
	}()
	buf, request := make([]byte, 64), []byte("x")
	requests := [][]byte{request, request}
	got := 0
	to := taker(buf, func(data []byte) (bool, error) { got += len(data); return got%len(requests) > 0, nil })
	if n := testing.AllocsPerRun(1000, func() {
		if err := c.Exchange(requests, to); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(request)
		_, _ = c.Read(buf)
	}); n > 0 {
		t.Errorf("%v allocations each", n)
	}
}

func TestTheEndIsSeenThoughItCameWithTheLastData(t *testing.T) {
	for name, pair := range pairs {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			go func() {
				_, _ = bufio.NewReader(far).ReadBytes('\n')
				_, _ = far.Write([]byte("last"))
				_ = far.Close()
			}()
			err := near.Exchange([][]byte{[]byte("request\n")}, taker(make([]byte, 64), func([]byte) (bool, error) { return true, nil }))
			if !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v, want EOF", err)
			}
		})
	}
}
