package proxy

import (
	"io"
)

const (
	// inputSize is the size of a client's input buffer in bytes, as long as its commands fit.
	inputSize = 16 << 10
	// aheadMost bounds what is read ahead of a waiting command, in bytes.
	aheadMost = 1 << 20
)

// input is a client's input buffer: buf[start:end] was read and not yet consumed.
type input struct {
	buf        []byte
	start, end int
}

// bytes returns what was read and not yet consumed.
func (in *input) bytes() []byte { return in.buf[in.start:in.end] }

// consume takes n bytes off. They stay where they are until the next fill.
func (in *input) consume(n int) { in.start += n }

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
		if len(in.buf) > 4*inputSize {
			in.buf = nil
		}
	} else if in.start > 0 {
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	if in.end == len(in.buf) {
		in.grow(max(missing, len(in.buf), inputSize))
	}
	n, err := r.Read(in.buf[in.end:])
	in.end += n
	return err
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
	n, err := r.Read(in.buf[in.end:])
	in.end += n
	return true, err
}

// grow makes room for n more bytes, in a new array.
func (in *input) grow(n int) {
	buf := make([]byte, in.end-in.start+n)
	in.end = copy(buf, in.bytes())
	in.start = 0
	in.buf = buf
}
