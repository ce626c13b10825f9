package resp

import (
	"bytes"
	"io"
	"math"
	"strconv"
)

// maxDepth is how deep aggregates of a Value may be nested.
const maxDepth = 32

// Value is one decoded reply. Str aliases the frame it was parsed from.
type Value struct {
	// Type is the type byte, '$' and '*' also for their RESP2 nulls.
	Type byte

	// Str is the text of a line or the bytes of a bulk: a verbatim string ('=')
	// with its "txt:" prefix, a double, big number or boolean as sent.
	Str []byte

	// Int is the value of an integer; 1 for a true boolean, else 0.
	Int int64

	// Elems are the elements of an array, set or push message; the keys and
	// values of a map by turns.
	Elems []Value

	// Null tells one of "$-1\r\n", "*-1\r\n" and "_\r\n".
	Null bool
}

// IsError reports whether v is an error reply, in one line ('-') or bulk ('!').
func (v Value) IsError() bool { return v.Type == '-' || v.Type == '!' }

// ParseValue decodes the reply at the start of frame, n bytes long; attributes
// before it or within it are skipped. The error is io.ErrUnexpectedEOF if frame
// ends too early, else a *ProtocolError, also for a reply that is nested more
// than 32 deep. Memory is bounded by a multiple of len(frame).
func ParseValue(frame []byte) (v Value, n int, err error) {
	v, n, err = parseValue(frame, 0)
	if err != nil {
		return Value{}, 0, err
	}
	return v, n, nil
}

func parseValue(b []byte, depth int) (v Value, n int, err error) {
	for {
		var line []byte
		var size int
		if v.Type, line, size, err = parseLine(b[n:]); err != nil {
			return v, n, err
		}
		n += size
		switch v.Type {
		case '$', '=', '!', '*', '~', '>', '%', '|':
		default:
			err = v.setScalar(line)
			return v, n, err
		}
		length, null, err := parseLength(v.Type, line)
		if err != nil {
			return v, n, err
		}
		if null {
			v.Null = true
			return v, n, nil
		}
		if length > int64(len(b)-n) { // no element is shorter than a byte
			return v, n, io.ErrUnexpectedEOF
		}
		var body int
		switch v.Type {
		case '$', '=', '!':
			v.Str, body, err = parseBulk(b[n:], int(length))
		case '%', '|':
			v.Elems, body, err = parseElems(b[n:], 2*length, depth+1)
		default:
			v.Elems, body, err = parseElems(b[n:], length, depth+1)
		}
		n += body
		if err != nil || v.Type != '|' {
			return v, n, err
		}
		v = Value{} // the value that the attribute describes follows
	}
}

// parseLine returns the type and the text of the line at the start of b, n bytes
// with its CRLF.
func parseLine(b []byte) (typ byte, line []byte, n int, err error) {
	if len(b) == 0 {
		return 0, nil, 0, io.ErrUnexpectedEOF
	}
	switch typ = b[0]; typ {
	case '+', '-', ':', '_', ',', '#', '(', '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return typ, nil, 0, protocolError("unknown reply type " + quoted(typ))
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return typ, nil, 0, io.ErrUnexpectedEOF
	}
	if b[end-1] != '\r' {
		return typ, nil, 0, protocolError("reply line is not terminated by CRLF")
	}
	return typ, b[1 : end-1 : end-1], end + 1, nil
}

// parseLength reads the number of a bulk or aggregate header.
func parseLength(typ byte, line []byte) (length int64, null bool, err error) {
	length, ok := parseInt(line)
	if ok && length == -1 && (typ == '$' || typ == '*') {
		return 0, true, nil
	}
	if !ok || length < 0 || length > math.MaxInt64/2 {
		return 0, false, invalidLength()
	}
	return length, false, nil
}

// parseBulk cuts the bytes of a bulk and checks its CRLF.
func parseBulk(b []byte, length int) (str []byte, n int, err error) {
	if len(b)-2 < length {
		return nil, 0, io.ErrUnexpectedEOF
	}
	if b[length] != '\r' || b[length+1] != '\n' {
		return nil, 0, protocolError("bulk reply is not terminated by CRLF")
	}
	return b[:length:length], length + 2, nil
}

// parseElems parses count values one after another. The slice grows with them.
func parseElems(b []byte, count int64, depth int) (elems []Value, n int, err error) {
	if depth > maxDepth {
		return nil, 0, protocolError("reply is nested too deep")
	}
	elems = make([]Value, 0, min(count, 16))
	for range count {
		v, size, err := parseValue(b[n:], depth)
		if err != nil {
			return nil, n, err
		}
		elems = append(elems, v)
		n += size
	}
	return elems, n, nil
}

// setScalar takes the text of a one-line value.
func (v *Value) setScalar(line []byte) error {
	v.Str = line
	ok := true
	switch v.Type {
	case ':':
		v.Int, ok = parseInt(bytes.TrimPrefix(line, []byte("+")))
	case '#':
		ok = string(line) == "t" || string(line) == "f"
		if ok && line[0] == 't' {
			v.Int = 1
		}
	case '_':
		v.Str, v.Null, ok = nil, true, len(line) == 0
	case ',':
		_, err := strconv.ParseFloat(string(line), 64)
		ok = err == nil
	case '(':
		ok = isBigNumber(line)
	}
	if !ok {
		return protocolError("invalid value of reply type " + quoted(v.Type))
	}
	return nil
}

// isBigNumber reports whether s is digits after an optional sign.
func isBigNumber(s []byte) bool {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0
}

// ArrayHeader reads the header of an array reply at the start of frame: "*N\r\n",
// or a null, "*-1\r\n" or "_\r\n". The elements follow after headerLen bytes. ok
// is false for anything else, incomplete headers and attributes included.
func ArrayHeader(frame []byte) (count int64, null bool, headerLen int, ok bool) {
	typ, line, n, err := parseLine(frame)
	if err != nil {
		return 0, false, 0, false
	}
	switch typ {
	case '*':
		count, null, err = parseLength(typ, line)
		if err != nil {
			return 0, false, 0, false
		}
		return count, null, n, true
	case '_':
		return 0, true, n, len(line) == 0
	}
	return 0, false, 0, false
}
