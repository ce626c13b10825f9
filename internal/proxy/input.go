package proxy

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/socket"
)

const (
	// inputSize is the size of a client's input buffer in bytes, as long as it sends little at a time.
	inputSize = 16 << 10
	// inputLarge is the size of the buffer of one that sends more at a time.
	inputLarge = 64 << 10
	// aheadMost bounds what is read ahead of a waiting command, in bytes.
	aheadMost = 1 << 20
)

// Buffers that are not in use.
var (
	smallInputs = sync.Pool{New: func() any { return new([inputSize]byte) }}
	largeInputs = sync.Pool{New: func() any { return new([inputLarge]byte) }}
)

// input is a client's input buffer: buf[start:end] was read and not yet consumed. While there is nothing, and nothing comes, there is no
// buffer: most of the clients are idle at any time.
type input struct {
	buf        []byte
	start, end int
	taken      int64  // consumed so far
	marks      []mark // when what is there had come, as far as that is known

	small *[inputSize]byte  // nil unless buf is it
	large *[inputLarge]byte // likewise
	much  bool              // the last read was of more than fits the small one, or filled its room
}

// mark says that all up to a place in what the client has sent had come by then.
type mark struct {
	place int64
	at    time.Time
}

// maxMarks bounds the marks; beyond it, something counts as having come later than it has.
const maxMarks = 64

// bytes returns what was read and not yet consumed.
func (in *input) bytes() []byte { return in.buf[in.start:in.end] }

// consume takes n bytes off. They stay where they are until the next fill.
func (in *input) consume(n int) {
	in.start += n
	in.taken += int64(n)
}

// seen is the place up to which the client's sending has been read.
func (in *input) seen() int64 { return in.taken + int64(len(in.bytes())) }

// mark notes that all that is there had come by now.
func (in *input) mark(now time.Time) {
	for len(in.marks) > 0 && in.marks[0].place < in.taken {
		in.marks = slices.Delete(in.marks, 0, 1)
	}
	m := mark{in.seen(), now}
	switch n := len(in.marks); {
	case m.place == in.taken, n > 0 && in.marks[n-1].place == m.place:
	case n == maxMarks:
		in.marks[n-1] = m
	default:
		in.marks = append(in.marks, m)
	}
}

// came is by when the command that was consumed last had come; zero if that is not known.
func (in *input) came() time.Time {
	for _, m := range in.marks {
		if m.place >= in.taken {
			return m.at
		}
	}
	return time.Time{}
}

// before is the place up to which all had come by a time, as far as that is known.
func (in *input) before(at time.Time) (place int64) {
	for _, m := range in.marks {
		if !m.at.After(at) {
			place = m.place
		}
	}
	return place
}

// join returns requests with last behind them. Where they were read one behind the other, and last was consumed
// last, they are not copied, and stay until the next fill.
func (in *input) join(requests, last []byte) []byte {
	if len(requests) == 0 {
		return last
	}
	middle := in.start - len(last)
	start := middle - len(requests)
	if start >= 0 && &in.buf[start] == &requests[0] && &in.buf[middle] == &last[0] {
		return in.buf[start:in.start:in.start]
	}
	return append(requests, last...)
}

// receiver is a connection that asks for a buffer when there is something to read, and says when there is nothing.
type receiver interface {
	Receive(to socket.Taker) error
}

// fill reads more, with no request in progress. missing is how much a request still needs, if
// that is known.
func (in *input) fill(r io.Reader, missing int) error {
	switch {
	case in.start == in.end:
		in.start, in.end = 0, 0
		if in.small == nil && (in.large == nil && len(in.buf) > inputLarge || !in.much) {
			in.giveBack()
		}
	case in.start > 0:
		in.end = copy(in.buf, in.bytes())
		in.start = 0
	}
	if in.much && in.buf != nil && len(in.buf) < inputLarge {
		in.enlarge()
	}
	if in.buf != nil && in.end == len(in.buf) {
		in.grow(max(missing, len(in.buf), inputSize))
	}
	if from, ok := r.(receiver); ok {
		return from.Receive(in)
	}
	return in.read(r)
}

// Room implements socket.Taker.
func (in *input) Room() []byte {
	if in.buf == nil {
		in.borrow()
	}
	return in.buf[in.end:]
}

// Take implements socket.Taker: one read is enough.
func (in *input) Take(data []byte) (more bool, err error) {
	in.took(len(data))
	return false, nil
}

// Rest implements socket.Taker.
func (in *input) Rest() {
	if in.start == in.end {
		in.giveBack()
	}
}

// ahead reads more while a request is in progress: what was handed out stays untouched. It
// reports false, without reading, when enough was read ahead.
func (in *input) ahead(r io.Reader) (bool, error) {
	if in.end-in.start >= aheadMost {
		return false, nil
	}
	if in.buf != nil && in.end == len(in.buf) {
		in.grow(max(len(in.buf), inputSize))
	}
	if err := in.read(r); err != nil {
		return true, err
	}
	in.mark(time.Now())
	return true, nil
}

func (in *input) read(r io.Reader) error {
	n, err := r.Read(in.Room())
	in.took(n)
	return err
}

func (in *input) took(n int) {
	in.much = n > inputSize || n == len(in.buf)-in.end
	in.end += n
}

// grow makes room for n more bytes, in a new array. The old one may have been handed out.
func (in *input) grow(n int) {
	buf := make([]byte, in.end-in.start+n)
	in.end = copy(buf, in.bytes())
	in.start = 0
	in.buf, in.small, in.large = buf, nil, nil
}

// borrow takes a buffer, where there is none.
func (in *input) borrow() {
	if in.much {
		in.large = largeInputs.Get().(*[inputLarge]byte)
		in.buf = in.large[:]
	} else {
		in.small = smallInputs.Get().(*[inputSize]byte)
		in.buf = in.small[:]
	}
}

// enlarge goes on in a large buffer.
func (in *input) enlarge() {
	large := largeInputs.Get().(*[inputLarge]byte)
	end := copy(large[:], in.bytes())
	in.giveBack()
	in.buf, in.large, in.end = large[:], large, end
}

// giveBack gives the buffer up, and what is in it.
func (in *input) giveBack() {
	if in.small != nil {
		smallInputs.Put(in.small)
	}
	if in.large != nil {
		largeInputs.Put(in.large)
	}
	in.buf, in.small, in.large = nil, nil, nil
	in.start, in.end = 0, 0
}

// close gives the buffer up, but to nobody else: something may still be under way from it.
func (in *input) close() {
	in.buf, in.small, in.large = nil, nil, nil
	in.start, in.end = 0, 0
}
