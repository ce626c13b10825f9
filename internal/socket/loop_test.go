package socket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
)

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
				err := near.Exchange(request, buf, func(data []byte) (bool, error) {
					got = append(got, data...)
					return len(got) < len(request), nil
				})
				if err != nil || !bytes.Equal(got, request) {
					t.Fatalf("%q, %v, want %q", got, err, request)
				}
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
			err := near.Exchange(request, make([]byte, 3), func(data []byte) (bool, error) {
				got = append(got, data...)
				return true, nil
			})
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
			err := near.Receive(make([]byte, 1024), func(data []byte) (bool, error) {
				got += len(data)
				return got < total, nil
			})
			if got != total || err != nil {
				t.Errorf("%d bytes, %v, want %d", got, err, total)
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
			if err := near.Receive(make([]byte, 8), func([]byte) (bool, error) { return true, want }); !errors.Is(err, want) {
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
	take := func([]byte) (bool, error) { return false, nil }
	if n := testing.AllocsPerRun(1000, func() {
		if err := c.Exchange(request, buf, take); err != nil {
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
			err := near.Exchange([]byte("request\n"), make([]byte, 64), func([]byte) (bool, error) { return true, nil })
			if !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v, want EOF", err)
			}
		})
	}
}
