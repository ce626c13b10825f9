package fuzz

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// value is a reply as a tree that keeps its RESP types.
type value struct {
	typ   byte
	null  bool
	text  string // of a scalar
	elems []value
}

// parse reads one reply, whose bytes are known to be one.
func parse(raw []byte) value {
	v, _ := parseValue(raw)
	return v
}

func parseValue(raw []byte) (value, []byte) {
	line, rest, _ := bytes.Cut(raw, []byte("\r\n"))
	if len(line) == 0 {
		return value{}, nil
	}
	v := value{typ: line[0], text: string(line[1:])}
	n, _ := strconv.Atoi(v.text)
	switch v.typ {
	case '$', '!', '=':
		if v.null = n < 0; v.null || len(rest) < n+2 {
			return v, rest
		}
		v.text = string(rest[:n])
		return v, rest[n+2:]
	case '%', '|':
		n *= 2
	case '*', '~', '>':
		v.null = n < 0
	case '_':
		v.null = true
		return v, rest
	default:
		return v, rest
	}
	v.text = ""
	for range n {
		var e value
		e, rest = parseValue(rest)
		v.elems = append(v.elems, e)
	}
	return v, rest
}

func (v value) isError() bool { return v.typ == '-' || v.typ == '!' }

// shape is the value's types and lengths without what it says.
func (v value) shape() string {
	if v.null {
		return string(v.typ) + "null"
	}
	if v.elems == nil {
		return string(v.typ)
	}
	var b strings.Builder
	b.WriteByte(v.typ)
	b.WriteByte('(')
	for _, e := range v.elems {
		b.WriteString(e.shape())
	}
	b.WriteByte(')')
	return b.String()
}

// sorted is the value as text with the elements of every aggregate in an order of their own. Pairs
// of a map stay together.
func (v value) sorted() string {
	if v.null || v.elems == nil {
		return fmt.Sprintf("%c%t%q", v.typ, v.null, v.text)
	}
	all := make([]string, 0, len(v.elems))
	for i := 0; i < len(v.elems); i++ {
		e := v.elems[i].sorted()
		if v.typ == '%' && i+1 < len(v.elems) {
			i++
			e += "=" + v.elems[i].sorted()
		}
		all = append(all, e)
	}
	slices.Sort(all)
	return string(v.typ) + "(" + strings.Join(all, " ") + ")"
}

// near reports whether two numbers, a time in seconds or ms, are at most so far apart.
func near(a, b string, most int64) bool {
	m, errA := strconv.ParseInt(a, 10, 64)
	n, errB := strconv.ParseInt(b, 10, 64)
	return errA == nil && errB == nil && m > 0 && n > 0 && max(m-n, n-m) <= most
}
