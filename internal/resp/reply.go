package resp

import (
	"bytes"
	"math"
)

// Framer finds the end of each reply in a stream that may be cut at any byte.
// It keeps counts, never bytes. The zero value is ready at the start of a
// stream. It belongs to one goroutine.
//
// left counts the values that the frame still owes. An aggregate of n elements
// pays for itself and adds n, a map of n pairs adds 2n, an attribute adds 2n and
// pays nothing, since the value it describes follows.
type Framer struct {
	// MaxDepth is how deep a frame may be nested: 1 allows arrays of scalars, and 0
	// any depth. A level costs 8 bytes.
	MaxDepth int
	// Interposed says that a push message within an array was sent meanwhile, as Redis 7.0 does within
	// the reply of an EXEC: it is none of the array's elements.
	Interposed bool

	err  error   // set once, until Reset
	left int64   // values still owed, the one being read included; 0 between frames
	ends []int64 // of each open aggregate, what is left when it is complete
	top  byte    // see Type

	state frameState
	typ   byte  // type byte of the value being read
	cr    bool  // the last byte of the line was '\r'
	neg   bool  // the length has a minus sign
	num   int64 // the length so far, -1 before its first digit
	skip  int64 // bytes of the bulk still to come, its CRLF included
}

// keepDepth is for how many levels a framer keeps room between frames.
const keepDepth = 64

type frameState byte

const (
	atType   frameState = iota // next is a type byte
	inLine                     // in the text of a one-line value
	inLength                   // in the header of a bulk or aggregate
	inBulk                     // in the bytes of a bulk
)

// Scan consumes bytes of the current frame. n bytes of buf belong to it; done
// tells that it ended with buf[n-1], and that the next Scan starts the next
// frame. Without done, n is len(buf). The error is a *ProtocolError and is
// returned again until Reset.
func (f *Framer) Scan(buf []byte) (n int, done bool, err error) {
	if f.err != nil {
		return 0, false, f.err
	}
	if f.left == 0 && len(buf) > 0 {
		f.left, f.top = 1, 0
	}
	for n < len(buf) {
		var ended bool // the value, not the frame
		switch f.state {
		case atType:
			n, err = n+1, f.start(buf[n])
		case inLine:
			n, ended, err = f.line(buf, n)
		case inLength:
			n, ended, err = f.length(buf, n)
		case inBulk:
			n, ended, err = f.bulk(buf, n)
		}
		if err != nil {
			f.err = err
			return n, false, err
		}
		if !ended {
			continue
		}
		f.state = atType
		f.left--
		f.close()
		if f.left == 0 {
			return n, true, nil
		}
	}
	return n, false, nil
}

// Type returns the type byte of the current frame, or of the last one between
// frames: that of the reply itself, not of attributes before it. 0 while it is
// unknown. '>' is a push message, '-' and '!' are errors.
func (f *Framer) Type() byte { return f.top }

// Partial reports whether a frame has begun and not ended.
func (f *Framer) Partial() bool { return f.left > 0 }

// Reset makes f ready for the start of a stream.
func (f *Framer) Reset() { *f = Framer{MaxDepth: f.MaxDepth, Interposed: f.Interposed} }

// open notes an aggregate that is not complete before left is down to end.
func (f *Framer) open(end int64) error {
	if f.MaxDepth > 0 && len(f.ends) >= f.MaxDepth {
		return tooMuch(LimitNesting, "reply is nested too deep")
	}
	f.ends = append(f.ends, end)
	return nil
}

// close forgets the aggregates that are complete.
func (f *Framer) close() {
	n := len(f.ends)
	for n > 0 && f.left <= f.ends[n-1] {
		n--
	}
	if f.ends = f.ends[:n]; n == 0 && cap(f.ends) > keepDepth {
		f.ends = nil
	}
}

// start takes the type byte of a value.
func (f *Framer) start(typ byte) error {
	switch typ {
	case '+', '-', ':', '_', ',', '#', '(':
		f.state, f.cr = inLine, false
	case '$', '=', '!', '*', '~', '>', '%', '|':
		f.state, f.cr, f.neg, f.num = inLength, false, false, -1
	default:
		return protocolError("unknown reply type " + quoted(typ))
	}
	f.typ = typ
	if f.top == 0 && f.left == 1 && typ != '|' {
		f.top = typ
	}
	return nil
}

// line skips to the end of a one-line value.
func (f *Framer) line(buf []byte, n int) (int, bool, error) {
	i := bytes.IndexByte(buf[n:], '\n')
	if i < 0 {
		f.cr = buf[len(buf)-1] == '\r'
		return len(buf), false, nil
	}
	if i > 0 {
		f.cr = buf[n+i-1] == '\r'
	}
	if !f.cr {
		return n, false, protocolError("reply line is not terminated by CRLF")
	}
	return n + i + 1, true, nil
}

// length reads the length of a bulk or aggregate. ended tells that there are
// no bytes or elements to wait for.
func (f *Framer) length(buf []byte, n int) (_ int, ended bool, err error) {
	for ; n < len(buf); n++ {
		c := buf[n]
		switch {
		case f.cr && c == '\n':
			ended, err = f.owe()
			return n + 1, ended, err
		case f.cr:
			return n, false, invalidLength()
		case '0' <= c && c <= '9':
			digit := int64(c - '0')
			if f.num == 0 || f.num > (math.MaxInt64-digit)/10 {
				return n, false, invalidLength()
			}
			f.num = max(f.num, 0)*10 + digit
		case c == '-' && f.num < 0 && !f.neg:
			f.neg = true
		case c == '\r' && f.num >= 0:
			f.cr = true
		default:
			return n, false, invalidLength()
		}
	}
	return n, false, nil
}

// owe accounts for what a complete length announces.
func (f *Framer) owe() (ended bool, err error) {
	if f.neg {
		if f.num != 1 || f.typ != '$' && f.typ != '*' {
			return false, invalidLength()
		}
		return true, nil // a RESP2 null
	}
	switch f.typ {
	case '$', '=', '!':
		if f.num > math.MaxInt64-2 {
			return false, invalidLength()
		}
		f.state, f.skip = inBulk, f.num+2
		return false, nil
	}
	if f.num > (math.MaxInt64-f.left)/2 {
		return false, invalidLength()
	}
	interposed := f.typ == '>' && f.top != '>' && f.Interposed
	among := f.typ != '|' && !interposed // it counts as one of the values around it
	if f.num > 0 {
		end := f.left
		if among {
			end--
		}
		if err := f.open(end); err != nil {
			return false, err
		}
	}
	if f.typ == '%' || f.typ == '|' {
		f.left += f.num
	}
	f.left += f.num
	f.state = atType
	return among, nil
}

// bulk skips the bytes of a bulk and checks its CRLF.
func (f *Framer) bulk(buf []byte, n int) (int, bool, error) {
	if f.skip > 2 {
		jump := min(f.skip-2, int64(len(buf)-n))
		f.skip -= jump
		n += int(jump)
	}
	for ; n < len(buf) && f.skip > 0; n++ {
		if buf[n] != "\n\r"[f.skip-1] {
			return n, false, protocolError("bulk reply is not terminated by CRLF")
		}
		f.skip--
	}
	return n, f.skip == 0, nil
}

func invalidLength() error { return protocolError("invalid reply length") }
