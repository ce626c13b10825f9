package harness

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The harness reads RESP with code of its own, so that a mistake in the
// product's parser is not checked by the same mistake.

// ReplyError is an error reply, without its leading "-".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Encode returns a command as a client sends it: an array of bulk strings.
func Encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// Decode turns the bytes of one reply into string, int64, float64, bool, nil,
// ReplyError, or []any of these. Sets and pushes become []any, and so do maps: key, value,
// key, value. Attributes are dropped. The error is non-nil for bytes that are not
// exactly one reply, never for an error reply.
func Decode(raw []byte) (any, error) {
	in := bufio.NewReader(bytes.NewReader(raw))
	value, _, err := readReply(in)
	if err != nil {
		return nil, err
	}
	if _, err := in.Peek(1); err != io.EOF {
		return nil, fmt.Errorf("bytes after the reply in %q", raw)
	}
	return value, nil
}

// ReadReply reads the bytes of exactly one reply or push, with an attribute that comes before
// it. With an error come the bytes before it.
func ReadReply(in *bufio.Reader) ([]byte, error) {
	_, raw, err := readReply(in)
	return raw, err
}

// readReply reads one reply, its attributes included, and returns it decoded and as it came.
func readReply(in *bufio.Reader) (any, []byte, error) {
	r := &replyReader{in: in}
	value, err := r.value()
	return value, r.raw, err
}

// replyReader reads one reply and keeps its bytes.
type replyReader struct {
	in  *bufio.Reader
	raw []byte
}

func (r *replyReader) value() (any, error) {
	kind, text, err := r.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+', '(':
		return text, nil
	case '-':
		return ReplyError(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case ',':
		return strconv.ParseFloat(text, 64)
	case '#':
		return text == "t", nil
	case '_':
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 {
		return nil, fmt.Errorf("malformed length in reply %q", r.raw)
	}
	if n == -1 {
		return nil, nil
	}
	switch kind {
	case '$':
		return r.bulk(n)
	case '!':
		text, err := r.bulk(n)
		return ReplyError(text), err
	case '=':
		text, err := r.bulk(n)
		return strings.TrimPrefix(text, "txt:"), err
	case '*', '~', '>':
		return r.values(n)
	case '%':
		return r.values(2 * n)
	case '|':
		if _, err := r.values(2 * n); err != nil {
			return nil, err
		}
		return r.value()
	default:
		return nil, fmt.Errorf("unknown reply type in %q", r.raw)
	}
}

func (r *replyReader) values(n int) ([]any, error) {
	values := make([]any, 0, min(n, 1024))
	for range n {
		value, err := r.value()
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func (r *replyReader) line() (kind byte, text string, err error) {
	line, err := r.in.ReadBytes('\n')
	r.raw = append(r.raw, line...)
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", fmt.Errorf("malformed reply line %q", line)
	}
	return line[0], string(line[1 : len(line)-2]), nil
}

func (r *replyReader) bulk(n int) (string, error) {
	start := len(r.raw)
	body := make([]byte, n+2)
	read, err := io.ReadFull(r.in, body)
	r.raw = append(r.raw, body[:read]...)
	if err != nil {
		return "", err
	}
	if !bytes.HasSuffix(body, []byte("\r\n")) {
		return "", fmt.Errorf("bulk string of %d bytes does not end in CRLF: %.80q", n, r.raw[start:])
	}
	return string(body[:n]), nil
}
