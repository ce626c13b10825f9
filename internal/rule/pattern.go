package rule

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// pattern is a compiled session pattern: literal text, then wildcards, each
// with the literal text that follows it.
//
//	agent:ctx:<session>:*
//	└──head──┘└──────┘││
//	          parts[0] │└ parts[1], until ""
//	                   └ its until ":"
type pattern struct {
	head     []byte
	parts    []part // at least one of them a capture
	captures int
}

type part struct {
	name  string // the capture's name; "" for a star
	until []byte // empty for the last part only
}

// parsePattern reads a pattern; the package comment has the language.
func parsePattern(text string) (*pattern, *FieldError) {
	refuse := func(remedy, problem string, args ...any) (*pattern, *FieldError) {
		return nil, &FieldError{Field: "session", Problem: fmt.Sprintf(problem, args...), Remedy: remedy}
	}
	p := new(pattern)
	var literal []byte
	endLiteral := func() {
		if len(p.parts) == 0 {
			p.head = literal
		} else {
			p.parts[len(p.parts)-1].until = literal
		}
		literal = nil
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return refuse(`write \\ for a literal backslash`, `%q ends in a backslash`, text)
			}
			literal = append(literal, text[i])
		case '*', '<':
			var w part
			if text[i] == '<' {
				length := strings.IndexByte(text[i:], '>')
				if length < 0 {
					return refuse(`write <session>, or \< for a literal <`, `%q has a < without its >`, text)
				}
				w.name = text[i+1 : i+length]
				i += length
				if w.name == "" || !consistsOf(w.name, isCaptureByte) {
					return refuse("use letters, digits and _, as in <session>", "%q is not a capture", "<"+w.name+">")
				}
				if slices.ContainsFunc(p.parts, func(o part) bool { return o.name == w.name }) {
					return refuse("give each capture its own name", "<%s> appears twice", w.name)
				}
				p.captures++
			}
			if len(p.parts) > 0 && len(literal) == 0 {
				return refuse("put literal text between them", "%q has two wildcards side by side, so that nothing says where the first one ends", text)
			}
			endLiteral()
			p.parts = append(p.parts, w)
		default:
			literal = append(literal, text[i])
		}
	}
	endLiteral()
	if p.captures == 0 {
		return refuse("mark the part of the key that names the session, as in agent:ctx:<session>:*, or leave session out to make each key its own", "%q captures nothing", text)
	}
	return p, nil
}

func isCaptureByte(c byte) bool { return isLetterOrDigit(c) || c == '_' }

// canMatch reports whether some key with the prefix fits. Behind the head there
// is a wildcard, which takes whatever the prefix goes on with.
func (p *pattern) canMatch(prefix string) bool {
	head := string(p.head)
	return strings.HasPrefix(prefix, head) || strings.HasPrefix(head, prefix)
}

// holds reports whether a prefix has all of the captures, whatever a key goes on with.
func (p *pattern) holds(prefix []byte) bool {
	last := p.parts[len(p.parts)-1]
	if last.name != "" || len(last.until) > 0 {
		return false
	}
	_, fits := p.appendCaptures(nil, prefix)
	return fits
}

// appendCaptures appends the session text of a key that fits, and reports
// whether it did; if not, what was appended is to be thrown away.
func (p *pattern) appendCaptures(dst, key []byte) ([]byte, bool) {
	rest, fits := bytes.CutPrefix(key, p.head)
	if !fits {
		return dst, false
	}
	first := true
	for i := range p.parts {
		w := &p.parts[i]
		least := 0
		if w.name != "" {
			least = 1
		}
		if len(rest) < least {
			return dst, false
		}
		var end int
		if i == len(p.parts)-1 {
			end = len(rest) - len(w.until)
			if end < least || !bytes.HasSuffix(rest, w.until) {
				return dst, false
			}
		} else {
			at := bytes.Index(rest[least:], w.until)
			if at < 0 {
				return dst, false
			}
			end = least + at
		}
		if w.name != "" {
			dst = p.appendCapture(dst, rest[:end], first)
			first = false
		}
		rest = rest[end+len(w.until):]
	}
	return dst, true
}

// appendCapture appends one captured value so that no two lists of values, and
// no whole key, give the same text.
func (p *pattern) appendCapture(dst, value []byte, first bool) []byte {
	switch {
	case !first:
		dst = append(dst, ':')
	case value[0] == wholeKey, p.captures == 1 && value[0] == '\\':
		dst = append(dst, '\\')
	}
	if p.captures == 1 {
		return append(dst, value...)
	}
	for _, c := range value {
		if c == ':' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return dst
}

// quoteLiteral writes text as a pattern that matches it alone, quoted for a
// message.
func quoteLiteral(text string) string { return strconv.Quote(literal(text)) }

// literal writes text as a pattern that matches it alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `<`, `\<`).Replace(text)
}
