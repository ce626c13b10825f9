package resp

import "bytes"

// inline parses one line of words, as processInlineBuffer does.
func (p *RequestParser) inline(buf []byte) (Request, int, error) {
	newline := p.newline(buf)
	if newline < 0 {
		if len(buf) > p.limits.MaxInline {
			return Request{}, 0, tooMuch(LimitInline, "too big inline request")
		}
		return Request{}, 0, nil
	}
	n, end := newline+1, newline
	if end > 0 && buf[end-1] == '\r' {
		end--
	}
	if !p.split(buf[:end]) {
		return Request{}, 0, protocolError("unbalanced quotes in request")
	}
	return Request{Raw: buf[:n:n], Args: p.cut(p.scratch), Inline: true}, n, nil
}

// newline returns the offset of the '\n' that ends the line, -1 if it isn't
// there, is too far, or a NUL comes first.
func (p *RequestParser) newline(buf []byte) int {
	unseen := buf[p.scan:min(len(buf), p.limits.MaxInline+1)]
	end := bytes.IndexByte(unseen, '\n')
	if end >= 0 {
		unseen = unseen[:end]
	}
	if nul := bytes.IndexByte(unseen, 0); nul >= 0 {
		p.scan += nul
		return -1
	}
	p.scan += len(unseen)
	if end < 0 {
		return -1
	}
	return p.scan
}

// split decodes the words of line into p.scratch and p.spans with the quoting
// of sdssplitargs. Quotes may start within a word and end it: a"b" is ab. It
// reports false for quotes that are not closed or not followed by a space.
func (p *RequestParser) split(line []byte) bool {
	out := p.scratch[:0]
	defer func() { p.scratch = out }()
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return true
		}
		start := len(out)
		for i < len(line) && !endsWord(line[i]) {
			c := line[i]
			i++
			if c != '"' && c != '\'' {
				out = append(out, c)
				continue
			}
			var n int
			if out, n = unquote(out, line[i:], c); n < 0 {
				return false
			}
			i += n
			if i < len(line) && !isSpace(line[i]) {
				return false
			}
			break
		}
		p.spans = append(p.spans, span{start, len(out)})
	}
}

// unquote appends to out the text of s up to the closing quote. n is the bytes
// read, the quote included, -1 if it is missing.
func unquote(out, s []byte, quote byte) (_ []byte, n int) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return out, i + 1
		case c == '\\' && quote == '\'':
			if i+1 < len(s) && s[i+1] == '\'' {
				i++
				c = '\''
			}
			out = append(out, c)
		case c == '\\' && i+3 < len(s) && s[i+1] == 'x' && hex(s[i+2]) >= 0 && hex(s[i+3]) >= 0:
			out = append(out, byte(hex(s[i+2])<<4|hex(s[i+3])))
			i += 3
		case c == '\\' && i+1 < len(s):
			i++
			out = append(out, unescape(s[i]))
		default:
			out = append(out, c)
		}
	}
	return out, -1
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// hex returns the value of a hexadecimal digit, -1 for another byte.
func hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// isSpace is isspace of the C locale.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// endsWord tells the bytes that end an unquoted word, fewer than isSpace.
func endsWord(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
