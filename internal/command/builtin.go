package command

import (
	_ "embed" // for the two files below
	"fmt"
	"io"
	"strconv"
	"strings"
)

//go:generate go run ./gen -addr 127.0.0.1:6379 -o builtin.txt

// builtinFacts is the table of a 7.0 server, written by the program in gen.
//
//go:embed builtin.txt
var builtinFacts string

// jsonFacts has the RedisJSON commands, kept by hand: servers without the module
// cannot tell, and stand-ins for it do not.
//
//go:embed json.txt
var jsonFacts string

// Builtin returns the table of a 7.0 server and of RedisJSON. It serves where a
// server cannot say as much itself.
func Builtin() *Table {
	t := &Table{}
	for _, facts := range []string{builtinFacts, jsonFacts} {
		if err := t.decode(facts); err != nil {
			panic("command: built-in table: " + err.Error()) // the files are part of the program
		}
	}
	for c := range t.All() {
		c.settle()
	}
	return t
}

// WriteTo writes the table in the form of builtin.txt: a command a line, its
// name, arity, flags, advice for clusters and key specs. Advice is named, a spec is access/begin/find:
//
//	request_policy:all_shards
//	write/index:1/range:0:1:0           last, step, limit
//	read/keyword:STREAMS:1/...          keyword, start
//	write/index:2/keynum:0:1:1          where the count is, first, step
//	read/unknown/unknown/incomplete
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for c := range t.All() {
		m, err := fmt.Fprintln(w, c.encode())
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *Command) encode() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s", c.Name, c.Arity, c.Flags)
	if c.Request != "" {
		b.WriteString(" request_policy:" + c.Request)
	}
	if c.Response != "" {
		b.WriteString(" response_policy:" + c.Response)
	}
	for _, s := range c.specs {
		fmt.Fprintf(&b, " %s", s.access)
		switch s.begin {
		case beginIndex:
			fmt.Fprintf(&b, "/index:%d", s.pos)
		case beginKeyword:
			fmt.Fprintf(&b, "/keyword:%s:%d", s.keyword, s.pos)
		default:
			b.WriteString("/unknown")
		}
		switch s.find {
		case findRange:
			fmt.Fprintf(&b, "/range:%d:%d:%d", s.last, s.step, s.limit)
		case findKeynum:
			fmt.Fprintf(&b, "/keynum:%d:%d:%d", s.numAt, s.first, s.step)
		default:
			b.WriteString("/unknown")
		}
		if s.incomplete {
			b.WriteString("/incomplete")
		}
	}
	return b.String()
}

// decode adds the commands of a file that WriteTo wrote. Lines that begin with
// "#" are comments.
func (t *Table) decode(facts string) error {
	for line := range strings.Lines(facts) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) < 3 {
			return fmt.Errorf("too short a line: %q", line)
		}
		c := &Command{Name: f[0]}
		var err error
		if c.Arity, err = strconv.Atoi(f[1]); err != nil {
			return fmt.Errorf("%s: arity: %w", c.Name, err)
		}
		if f[2] != "-" {
			for name := range strings.SplitSeq(f[2], ",") {
				flag := flagOf(name)
				if flag == 0 {
					return fmt.Errorf("%s: unknown flag %q", c.Name, name)
				}
				c.Flags |= flag
			}
		}
		for _, word := range f[3:] {
			if c.tip(word) {
				continue
			}
			s, err := decodeSpec(word)
			if err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			c.specs = append(c.specs, s)
		}
		if !t.add(c) {
			return fmt.Errorf("%s: no such container", c.Name)
		}
	}
	return nil
}

func decodeSpec(word string) (s spec, err error) {
	parts := strings.Split(word, "/")
	if len(parts) < 3 {
		return s, fmt.Errorf("too short a spec: %q", word)
	}
	switch parts[0] {
	case "read":
		s.access = Read
	case "write":
		s.access = Write
	default:
		return s, fmt.Errorf("unknown access in %q", word)
	}
	begin, rest, _ := strings.Cut(parts[1], ":")
	switch begin {
	case "index":
		s.begin = beginIndex
		_, err = fmt.Sscanf(rest, "%d", &s.pos)
	case "keyword":
		s.begin = beginKeyword
		word, pos, _ := strings.Cut(rest, ":")
		s.keyword = word
		_, err = fmt.Sscanf(pos, "%d", &s.pos)
	}
	if err != nil {
		return s, fmt.Errorf("spec %q: %w", word, err)
	}
	find, rest, _ := strings.Cut(parts[2], ":")
	switch find {
	case "range":
		s.find = findRange
		_, err = fmt.Sscanf(rest, "%d:%d:%d", &s.last, &s.step, &s.limit)
	case "keynum":
		s.find = findKeynum
		_, err = fmt.Sscanf(rest, "%d:%d:%d", &s.numAt, &s.first, &s.step)
	}
	if err != nil {
		return s, fmt.Errorf("spec %q: %w", word, err)
	}
	s.incomplete = len(parts) > 3 && parts[3] == "incomplete"
	return s, nil
}
