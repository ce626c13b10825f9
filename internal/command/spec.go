package command

// begin is how a spec finds its first key, or for a keynum spec the place it
// counts from.
type begin uint8

const (
	beginUnknown begin = iota
	beginIndex         // at index pos
	beginKeyword       // after keyword, searched from pos
)

// find is how a spec goes on from where it begins.
type find uint8

const (
	findUnknown find = iota
	findRange        // up to last, every step arguments
	findKeynum       // as many as the argument at numAt says
)

// spec is one key spec of a command.
type spec struct {
	access Access
	// incomplete is set when the server says that the spec misses keys.
	incomplete bool

	begin   begin
	pos     int    // index of the first key, or where the search for keyword starts; negative counts from the end
	keyword string // in upper case

	find  find
	last  int // findRange: from the first key when not negative, else from the end of the call
	limit int // findRange with a negative last: take a limit-th of what is left; 0 and 1 take all
	step  int // both: distance between keys
	numAt int // findKeynum: where the count is, from where the spec begins
	first int // findKeynum: where the first key is, from where the spec begins
}

// keys appends the keys the spec finds in the call. ok is false when there may
// be others.
func (s *spec) keys(dst []Key, args [][]byte) (keys []Key, ok bool) {
	at, ok := s.start(args)
	if at == 0 {
		return dst, ok
	}
	first, last, fits := s.span(at, args)
	if !fits {
		return dst, false
	}
	for i := first; i <= last; i += s.step {
		dst = append(dst, Key{Index: i, Access: s.access})
	}
	return dst, ok && !s.incomplete
}

// start returns where the spec begins, 0 for nowhere. ok is false when it may
// begin elsewhere too.
func (s *spec) start(args [][]byte) (at int, ok bool) {
	switch s.begin {
	case beginIndex:
		return s.pos, true
	case beginKeyword:
		return s.search(args)
	}
	return 0, false
}

// search looks for the keyword. A keyword met twice may be the value of another
// option the first time, and only the server's own parser can tell: ok is false
// then.
func (s *spec) search(args [][]byte) (at int, ok bool) {
	from, to, by := s.pos, len(args), 1
	if s.pos < 0 {
		from, to, by = len(args)+s.pos, 0, -1
	}
	for i := from; i > 0 && i < len(args) && i != to; i += by {
		if !fold(args[i], s.keyword) {
			continue
		}
		if at != 0 {
			return at, false
		}
		at = i + 1
	}
	return at, true
}

// span returns the indexes of the first and last key of a spec that begins at
// at; last is before first when there are none. fits is false when the call is
// too short for what it says.
func (s *spec) span(at int, args [][]byte) (first, last int, fits bool) {
	if s.step <= 0 || at < 0 {
		return 0, -1, false
	}
	switch s.find {
	case findRange:
		first = at
		switch {
		case s.last >= 0:
			last = first + s.last
		case s.limit > 1:
			last = first + (len(args)-first)/s.limit - 1
		default:
			last = len(args) + s.last
		}
		if s.last == -1 && first == len(args) && s.begin == beginIndex {
			return first, first - 1, true // an optional list, left out: PFMERGE dst
		}
	case findKeynum:
		if at+s.numAt >= len(args) || at+s.numAt < 0 {
			return 0, -1, false
		}
		n, ok := count(args[at+s.numAt])
		first = at + s.first
		if n == 0 && ok {
			return first, first - 1, true
		}
		if !ok || n > len(args) {
			return 0, -1, false
		}
		last = first + (n-1)*s.step
	default:
		return 0, -1, false
	}
	return first, last, first > 0 && first <= last && last < len(args)
}

// maxCount is past any number of arguments a server takes in one call.
const maxCount = 1 << 26

// count reads a number of keys as the server does: digits only, no sign, no
// leading zero.
func count(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	for _, d := range b {
		if d < '0' || d > '9' || n > maxCount {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, true
}

// IsWord reports whether an argument is a keyword, which is in upper case, to the server.
func IsWord(arg []byte, keyword string) bool { return fold(arg, keyword) }

// fold reports whether b is the keyword, which is in upper case, to a server
// that compares ASCII letters of any case up to a NUL byte.
func fold(b []byte, keyword string) bool {
	b = cut(b)
	if len(b) != len(keyword) {
		return false
	}
	for i := range b {
		c := b[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != keyword[i] {
			return false
		}
	}
	return true
}

// cut returns b up to its first NUL byte, where a C string ends.
func cut(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}
