package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/socket"
)

func TestInputIsReadAndConsumed(t *testing.T) {
	var in input
	from := strings.NewReader("abcdef")
	if err := in.fill(from, 0); err != nil || string(in.bytes()) != "abcdef" {
		t.Fatalf("%q, %v", in.bytes(), err)
	}
	in.consume(4)
	if string(in.bytes()) != "ef" {
		t.Errorf("%q is left", in.bytes())
	}
	if err := in.fill(from, 0); !errors.Is(err, io.EOF) || string(in.bytes()) != "ef" {
		t.Errorf("%q, %v", in.bytes(), err)
	}
}

// endless gives its bytes over and over, as many at a time as are asked for.
type endless struct{ next byte }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.next
		e.next++
	}
	return len(p), nil
}

func TestACommandInProgressStaysUntouchedWhileMoreIsReadAhead(t *testing.T) {
	var in input
	if err := in.fill(strings.NewReader("*2\r\n$4\r\nECHO\r\n$5\r\nvalue\r\n*1\r\n$4\r\nPING\r\n"), 0); err != nil {
		t.Fatal(err)
	}
	parser := resp.NewRequestParser(resp.Limits{})
	req, n, err := parser.Next(in.bytes())
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	in.consume(n)
	raw := string(req.Raw)
	ahead := 0
	for room := true; room; {
		if room, err = in.ahead(&endless{}); err != nil {
			t.Fatal(err)
		}
		ahead++
	}
	if string(req.Raw) != raw || string(req.Args[0]) != "ECHO" || string(req.Args[1]) != "value" {
		t.Errorf("after %d reads the command is %q", ahead, req.Raw)
	}
	if ahead < 3 {
		t.Errorf("only %d reads: the buffer never had to grow", ahead)
	}
	if !bytes.HasPrefix(in.bytes(), []byte("*1\r\n$4\r\nPING\r\n\x00\x01\x02")) {
		t.Errorf("what came after it is %.40q", in.bytes())
	}
}

func TestReadingAheadIsBounded(t *testing.T) {
	var in input
	room := true
	for range 1000 {
		var err error
		if room, err = in.ahead(&endless{}); err != nil {
			t.Fatal(err)
		}
		if !room {
			break
		}
	}
	if room || len(in.bytes()) < aheadMost || len(in.buf) > 4*aheadMost {
		t.Errorf("room %v, %d bytes in a buffer of %d", room, len(in.bytes()), len(in.buf))
	}
}

// drip gives at most n bytes at a time.
type drip struct {
	r io.Reader
	n int
}

func (d drip) Read(p []byte) (int, error) { return d.r.Read(p[:min(len(p), d.n)]) }

func TestTheBufferGrowsWithWhatArrives(t *testing.T) {
	const size = 10 << 20
	var in input
	parser := resp.NewRequestParser(resp.Limits{})
	from := drip{strings.NewReader("*2\r\n$4\r\nECHO\r\n$10485760\r\n" + strings.Repeat("x", size) + "\r\n"), 4 << 10}
	for {
		req, n, err := parser.Next(in.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			if len(req.Args[1]) != size {
				t.Errorf("%d bytes arrived", len(req.Args[1]))
			}
			in.consume(n)
			break
		}
		if got := len(in.bytes()); len(in.buf) > 64<<10+max(inputSize, 2*got) {
			t.Fatalf("a buffer of %d for %d bytes", len(in.buf), got)
		}
		if err := in.fill(from, parser.Missing()); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.fill(strings.NewReader("x"), 0); err != nil || len(in.buf) > 4*inputSize {
		t.Errorf("a buffer of %d is kept after it (%v)", len(in.buf), err)
	}
}

func TestTheSpaceOfConsumedCommandsIsUsedAgain(t *testing.T) {
	var in input
	for range 10_000 {
		if err := in.fill(drip{&endless{}, 1000}, 0); err != nil {
			t.Fatal(err)
		}
		in.consume(len(in.bytes()) - min(10, len(in.bytes())))
	}
	if len(in.buf) != inputSize {
		t.Errorf("a buffer of %d", len(in.buf))
	}
}

func TestFillingAllocatesNothing(t *testing.T) {
	var in input
	from := drip{&endless{}, 100}
	if n := testing.AllocsPerRun(1000, func() {
		if err := in.fill(&from, 0); err != nil {
			t.Fatal(err)
		}
		in.consume(len(in.bytes()))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCommandsAreJoinedWhereTheyWereReadAndCopiedWhereTheyWereNot(t *testing.T) {
	var in input
	if err := in.fill(strings.NewReader("onetwo\nthreefour"), 0); err != nil {
		t.Fatal(err)
	}
	next := func(n int) []byte {
		in.consume(n)
		return in.buf[in.start-n : in.start : in.start]
	}
	requests := in.join(nil, next(3))
	requests = in.join(requests, next(3))
	if string(requests) != "onetwo" || &requests[0] != &in.buf[0] {
		t.Errorf("%q was read in one piece, and is copied", requests)
	}
	in.consume(1) // what lies between
	requests = in.join(requests, next(5))
	requests = in.join(requests, []byte("else")) // as long as what was consumed last
	requests = in.join(requests, next(4))
	if got := string(requests); got != "onetwothreeelsefour" {
		t.Errorf("joined to %q", got)
	}
	if got := string(in.buf[:in.end]); got != "onetwo\nthreefour" {
		t.Errorf("what was read became %q", got)
	}
}

func TestTheBufferIsAsLargeAsWhatCameLast(t *testing.T) {
	var in input
	for _, step := range []struct{ arrives, size int }{
		{100, inputSize},
		{inputSize, inputSize},
		{inputSize + 1, inputLarge},
		{inputLarge, inputLarge},
		{inputSize + 1, inputLarge},
		{inputSize, inputLarge},
		{inputSize - 1, inputSize},
		{100, inputSize},
	} {
		from := drip{&endless{}, step.arrives}
		if err := in.fill(&from, 0); err != nil {
			t.Fatal(err)
		}
		if len(in.buf) != step.size {
			t.Errorf("%d bytes are read into %d, want %d", step.arrives, len(in.buf), step.size)
		}
		in.consume(len(in.bytes()))
	}
	if in.close(); in.large != nil {
		t.Error("the large buffer is kept")
	}
}

// visits is a connection on which something comes now and then: it tells before each wait what the client keeps meanwhile.
type visits struct {
	arrives []string
	waiting func()
}

func (v *visits) Read([]byte) (int, error) { return 0, errors.New("read without asking for room") }

func (v *visits) Receive(to socket.Taker) error {
	to.Room() // for a read that finds nothing
	to.Rest()
	v.waiting()
	if len(v.arrives) == 0 {
		return io.EOF
	}
	n := copy(to.Room(), v.arrives[0])
	v.arrives[0] = v.arrives[0][n:]
	if len(v.arrives[0]) == 0 {
		v.arrives = v.arrives[1:]
	}
	_, err := to.Take(to.Room()[:n])
	to.Rest()
	return err
}

func TestAnIdleClientHasNoBuffer(t *testing.T) {
	var in input
	large := strings.Repeat("x", 3*inputSize)
	waits := 0
	from := &visits{arrives: []string{"abc", "d", large, "e"}}
	from.waiting = func() {
		if waits++; len(in.bytes()) == 0 && in.buf != nil {
			t.Errorf("wait %d: a buffer of %d bytes, and nothing in it", waits, len(in.buf))
		}
	}
	got := ""
	for len(from.arrives) > 0 {
		if err := in.fill(from, 0); err != nil {
			t.Fatal(err)
		}
		if keep := got == "" && len(in.bytes()) == 3; keep { // a part of a request waits with its bytes
			if err := in.fill(from, 0); err != nil {
				t.Fatal(err)
			}
		}
		got += string(in.bytes())
		in.consume(len(in.bytes()))
	}
	if got != "abcd"+large+"e" {
		t.Errorf("%d bytes have come, %.10q…", len(got), got)
	}
	if err := in.fill(from, 0); !errors.Is(err, io.EOF) || in.buf != nil {
		t.Errorf("at the end: %v, a buffer of %d bytes", err, len(in.buf))
	}
}
