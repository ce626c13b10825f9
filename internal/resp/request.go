package resp

import (
	"math"
	"slices"
)

// Request is one command of a client. Its slices alias the buffer given to
// Next, or memory of the parser, and are valid until the following Next.
type Request struct {
	// Raw is the request as received, terminator included.
	Raw []byte

	// Args are the command name and its arguments, decoded. Empty for a request
	// without arguments ("*0\r\n", a blank line): skip it, it gets no reply.
	Args [][]byte

	// Inline tells that Raw is an inline command, not an array of bulk strings.
	Inline bool
}

const (
	// keepArgs is how many argument slots a parser keeps between requests. A
	// larger request gives its slots back at the Next after it.
	keepArgs = 1024

	// minHint is what Missing may suggest on the word of a header alone.
	minHint = 64 << 10
)

// span is the place of an argument. Offsets, since the caller may move its
// buffer while a request is incomplete.
type span struct{ start, end int }

// RequestParser cuts the byte stream of one client into requests. It belongs to
// one goroutine.
type RequestParser struct {
	limits Limits
	err    error // set once, until Reset

	// The request in progress. All offsets count from its first byte.
	kind    byte   // '*' array, 'i' inline, 0 between requests
	pos     int    // start of the line or bulk not yet complete
	scan    int    // the line at pos is known not to end before scan
	want    int    // arguments announced, 0 until the array header is read
	bulk    int    // length of the bulk at pos, -1 until its header is read
	missing int    // see Missing
	spans   []span // arguments complete so far

	args    [][]byte // Args of the last request
	scratch []byte   // decoded arguments of the last inline request
}

// NewRequestParser returns a parser that refuses requests beyond l.
func NewRequestParser(l Limits) *RequestParser {
	return &RequestParser{limits: l.withDefaults()}
}

// Limit has other limits count, from the next request on.
func (p *RequestParser) Limit(l Limits) { p.limits = l.withDefaults() }

// Next parses the first complete request of buf and returns it with the number
// of bytes consumed. n is 0 if the request is incomplete: call again with the
// same bytes, at the same or another address, and more appended. Progress is
// kept between the calls. The error is a *ProtocolError and is returned again
// by every later call.
func (p *RequestParser) Next(buf []byte) (req Request, n int, err error) {
	if p.err != nil {
		return Request{}, 0, p.err
	}
	if p.kind == 0 {
		p.release()
		if len(buf) == 0 {
			return Request{}, 0, nil
		}
		p.begin(buf[0])
	}
	p.missing = 0
	if p.kind == '*' {
		req, n, err = p.array(buf)
	} else {
		req, n, err = p.inline(buf)
	}
	if err != nil {
		p.err = err
		return Request{}, 0, err
	}
	if n > 0 {
		p.kind = 0
	}
	return req, n, nil
}

// Missing hints at how many bytes the bulk string in progress still lacks, 0 if
// that is unknown. Meant for sizing a read buffer: it never exceeds the larger
// of 64 KiB and what the request has delivered so far, so a buffer that follows
// it at most doubles.
func (p *RequestParser) Missing() int { return p.missing }

// Reset forgets the request in progress and any error, for a new stream.
func (p *RequestParser) Reset() {
	p.release()
	p.kind, p.missing, p.err = 0, 0, nil
}

// release lets go of the last request, so that an idle connection doesn't hold
// the buffer its arguments were in.
func (p *RequestParser) release() {
	if len(p.spans) > keepArgs {
		p.args, p.spans = nil, nil
		return
	}
	clear(p.args)
	p.args, p.spans = p.args[:0], p.spans[:0]
}

func (p *RequestParser) begin(first byte) {
	p.kind = first
	if first != '*' {
		p.kind = 'i'
	}
	p.pos, p.scan, p.want, p.bulk = 0, 0, 0, -1
}

// array parses an array of bulk strings, as processMultibulkBuffer does.
func (p *RequestParser) array(buf []byte) (Request, int, error) {
	if p.want == 0 {
		line, ok, err := p.line(buf, "too big mbulk count string")
		if !ok {
			return Request{}, 0, err
		}
		count, ok := parseInt(line[1:])
		if !ok {
			return Request{}, 0, protocolError("invalid multibulk length")
		}
		if count > int64(p.limits.MaxArgs) {
			return Request{}, 0, tooMuch(LimitArguments, "invalid multibulk length")
		}
		if count > unauthenticatedArgs && p.limits.Unauthenticated {
			return Request{}, 0, tooMuch(LimitArguments, "unauthenticated multibulk length")
		}
		if count <= 0 {
			return Request{Raw: buf[:p.pos:p.pos]}, p.pos, nil
		}
		p.want = int(count)
	}
	for len(p.spans) < p.want {
		if p.bulk < 0 {
			ok, err := p.bulkHeader(buf)
			if !ok {
				return Request{}, 0, err
			}
		}
		end := p.pos + p.bulk
		if len(buf)-2 < end {
			p.missing = min(end+2-len(buf), max(minHint, len(buf)))
			return Request{}, 0, nil
		}
		p.spans = append(p.spans, span{p.pos, end})
		p.pos, p.scan, p.bulk = end+2, end+2, -1
	}
	return Request{Raw: buf[:p.pos:p.pos], Args: p.cut(buf)}, p.pos, nil
}

// bulkHeader reads the "$N" line at p.pos into p.bulk.
func (p *RequestParser) bulkHeader(buf []byte) (ok bool, err error) {
	start := p.pos
	line, ok, err := p.line(buf, "too big bulk count string")
	if !ok {
		return false, err
	}
	if buf[start] != '$' {
		e := protocolError("expected '$', got " + quoted(buf[start]))
		if isAggregate(buf[start]) {
			e.Limit = LimitNesting
		}
		return false, e
	}
	length, ok := parseInt(line[1:])
	if !ok || length < 0 {
		return false, protocolError("invalid bulk length")
	}
	if length > p.limits.MaxBulk && !p.mayBe(length) {
		return false, tooMuch(LimitBulk, "invalid bulk length")
	}
	if length > unauthenticatedBulk && p.limits.Unauthenticated {
		return false, tooMuch(LimitBulk, "unauthenticated bulk length")
	}
	if length > p.limits.MaxRequest-2-int64(p.pos)-ArgCost*int64(len(p.spans)) {
		return false, tooMuch(LimitRequest, "too big request")
	}
	p.bulk = int(length)
	return true, nil
}

// mayBe asks whether a bulk may be this long by now.
func (p *RequestParser) mayBe(length int64) bool {
	if p.limits.MoreBulk != nil && !p.limits.Unauthenticated {
		p.limits.MaxBulk = p.limits.MoreBulk()
	}
	return length <= p.limits.MaxBulk
}

// line returns the header line at p.pos without its terminator and moves p.pos
// behind it. ok is false if the line is incomplete or, with err, too long.
func (p *RequestParser) line(buf []byte, tooBig string) (line []byte, ok bool, err error) {
	last := p.pos + p.limits.MaxInline // where the '\r' may be at the latest
	i := p.scan
	for ; i < len(buf) && i <= last && buf[i] != 0; i++ {
		if buf[i] != '\r' {
			continue
		}
		p.scan = i
		if i+1 == len(buf) {
			return nil, false, nil
		}
		line = buf[p.pos:i]
		p.pos, p.scan = i+2, i+2
		return line, true, nil
	}
	p.scan = i
	if len(buf) > last {
		return nil, false, tooMuch(LimitInline, tooBig)
	}
	return nil, false, nil
}

// cut returns the arguments at p.spans of b.
func (p *RequestParser) cut(b []byte) [][]byte {
	p.args = slices.Grow(p.args, len(p.spans))
	for _, s := range p.spans {
		p.args = append(p.args, b[s.start:s.end:s.end])
	}
	return p.args
}

// parseInt parses a decimal as string2ll of Redis does: no sign but '-', no
// leading zeros, no "-0", nothing that overflows.
func parseInt(b []byte) (n int64, ok bool) {
	if len(b) == 1 && b[0] == '0' {
		return 0, true
	}
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] == '0' {
		return 0, false
	}
	var u uint64 // 19 digits fit
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	if neg {
		return -int64(u), u <= -math.MinInt64
	}
	return int64(u), u <= math.MaxInt64
}
