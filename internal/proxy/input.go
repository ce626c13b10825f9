package proxy

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// inputSize is the size of a client's input buffer in bytes, as long as it sends little at a time.
	inputSize = 16 << 10
	// inputLarge is the size of the buffer of one that sends more at a time.
	inputLarge = 64 << 10
	// aheadMost bounds what is read ahead of a waiting command, in bytes.
	aheadMost = 1 << 20
)

// inputs are the large buffers that are not in use.
var inputs = sync.Pool{New: func() any { return new([inputLarge]byte) }}

// input is a client's input buffer: buf[start:end] was read and not yet consumed.
type input struct {
	buf        []byte
	start, end int
	taken      int64  // consumed so far
	marks      []mark // when what is there had come, as far as that is known

	small []byte            // of inputSize
	large *[inputLarge]byte // nil unless buf is it
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

// fill reads more, with no request in progress. missing is how much a request still needs, if
// that is known.
func (in *input) fill(r io.Reader, missing int) error {
	if in.start == in.end {
		in.start, in.end = 0, 0
		if len(in.buf) > inputLarge || in.large != nil && !in.much {
			in.shrink()
		}
	}
	switch {
	case in.much && len(in.buf) < inputLarge:
		in.enlarge()
	case in.start > 0:
		in.end = copy(in.buf, in.bytes())
		in.start = 0
	}
	if in.end == len(in.buf) {
		in.grow(max(missing, len(in.buf), inputSize))
	}
	return in.read(r)
}

// ahead reads more while a request is in progress: what was handed out stays untouched. It
// reports false, without reading, when enough was read ahead.
func (in *input) ahead(r io.Reader) (bool, error) {
	if in.end-in.start >= aheadMost {
		return false, nil
	}
	if in.end == len(in.buf) {
		in.grow(max(len(in.buf), inputSize))
	}
	if err := in.read(r); err != nil {
		return true, err
	}
	in.mark(time.Now())
	return true, nil
}

func (in *input) read(r io.Reader) error {
	room := in.buf[in.end:]
	n, err := r.Read(room)
	in.end += n
	in.much = n > inputSize || n == len(room)
	return err
}

// grow makes room for n more bytes, in a new array.
func (in *input) grow(n int) {
	buf := make([]byte, in.end-in.start+n)
	in.end = copy(buf, in.bytes())
	in.start = 0
	in.buf, in.large = buf, nil
}

// enlarge goes on in a large buffer.
func (in *input) enlarge() {
	large := inputs.Get().(*[inputLarge]byte)
	in.end = copy(large[:], in.bytes())
	in.start = 0
	if len(in.buf) == inputSize {
		in.small = in.buf
	}
	in.buf, in.large = large[:], large
}

// shrink goes on in a small buffer, when there is nothing in the one at hand.
func (in *input) shrink() {
	if in.large != nil {
		inputs.Put(in.large)
	}
	in.buf, in.large = in.small, nil
}

// close gives the buffer up.
func (in *input) close() {
	if in.large != nil {
		in.shrink()
	}
}
