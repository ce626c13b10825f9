package command

import (
	"bytes"
)

// walk reads the keys of a call as the server's own parser does, for a command
// whose specs cannot. An option it does not know makes the call incomplete: a
// newer server may know it.
type walk func(dst []Key, args [][]byte, c *Command) (keys []Key, complete bool)

// Patterns returns the patterns from which a SORT makes keys that it reads beside those of its call. ok is false for other
// commands, and for a call that can't be read, of which whatever may be a pattern is one.
func (c *Command) Patterns(args [][]byte) (patterns [][]byte, ok bool) {
	if c.Name != "sort" && c.Name != "sort_ro" {
		return nil, false
	}
	if _, patterns, ok = readSort(nil, args, c); ok {
		return patterns, true
	}
	for _, a := range args[1:] {
		if bytes.IndexByte(a, '*') >= 0 {
			patterns = append(patterns, a)
		}
	}
	return patterns, false
}

// Derives reports whether a call whose keys can't be told may touch keys that are not among its
// arguments: nobody knows what a module does.
func (c *Command) Derives() bool { return c.Is(FlagModule) }

// exactly returns the walk of the command of that name, or nil. These are the
// commands whose specs, in the server's own table, are unknown, incomplete,
// variable, or can be made to point at the wrong arguments.
func exactly(name string) walk {
	switch name {
	case "sort", "sort_ro":
		// STORE may be anywhere, and BY and GET read keys that only the values
		// name; the server marks both specs "unknown".
		return sortKeys
	case "migrate":
		// The spec of KEYS is "incomplete": searched from the end, it takes a key
		// called "keys" for the keyword.
		return migrateKeys
	case "xread", "xreadgroup":
		// The spec takes the first STREAMS it meets, though a group or consumer
		// may bear that name.
		return streamKeys
	case "georadius", "georadiusbymember":
		// The spec takes the first STORE it meets; the server stores to the last.
		return geoKeys
	case "bitfield":
		// The spec's flags are "variable": only SET and INCRBY write.
		return bitfieldKeys
	case "json.mget":
		// RedisJSON registers the first key only.
		return allButLast
	}
	return nil
}

// sortKeys reads SORT key [BY pattern] [LIMIT off count] [GET pattern]...
// [ASC|DESC] [ALPHA] [STORE dst]. Every dst is reported, though the last wins. A
// pattern with an asterisk reads keys made from the sorted values: not complete.
func sortKeys(dst []Key, args [][]byte, c *Command) ([]Key, bool) {
	keys, patterns, ok := readSort(dst, args, c)
	return keys, ok && len(patterns) == 0
}

func readSort(dst []Key, args [][]byte, c *Command) (keys []Key, patterns [][]byte, ok bool) {
	if len(args) < 2 {
		return dst, nil, false
	}
	dst = append(dst, Key{Index: 1, Access: Read})
	for i := 2; i < len(args); i++ {
		left := len(args) - i - 1
		switch o := args[i]; {
		case fold(o, "ASC"), fold(o, "DESC"), fold(o, "ALPHA"):
		case fold(o, "LIMIT") && left >= 2:
			i += 2
		case fold(o, "STORE") && left >= 1 && !c.Is(FlagReadOnly):
			i++
			dst = append(dst, Key{Index: i, Access: Write})
		case (fold(o, "BY") || fold(o, "GET")) && left >= 1:
			i++
			if bytes.IndexByte(args[i], '*') >= 0 {
				patterns = append(patterns, args[i])
			}
		default:
			return dst, nil, false
		}
	}
	return dst, patterns, true
}

// migrateKeys reads MIGRATE host port key|"" db timeout [COPY] [REPLACE]
// [AUTH password] [AUTH2 user password] [KEYS key...]. The keys leave the
// server, so all are written.
func migrateKeys(dst []Key, args [][]byte, _ *Command) ([]Key, bool) {
	if len(args) < 6 {
		return dst, false
	}
	for i := 6; i < len(args); i++ {
		left := len(args) - i - 1
		switch o := args[i]; {
		case fold(o, "COPY"), fold(o, "REPLACE"):
		case fold(o, "AUTH") && left >= 1:
			i++
		case fold(o, "AUTH2") && left >= 2:
			i += 2
		case fold(o, "KEYS") && len(args[3]) == 0:
			for i++; i < len(args); i++ {
				dst = append(dst, Key{Index: i, Access: Write})
			}
			return dst, true
		default:
			return append(dst, Key{Index: 3, Access: Write}), false
		}
	}
	return append(dst, Key{Index: 3, Access: Write}), true
}

// streamKeys reads the options of XREAD and XREADGROUP up to STREAMS, whose
// first half of arguments are keys and whose second half are IDs.
func streamKeys(dst []Key, args [][]byte, c *Command) ([]Key, bool) {
	access, group := Read, c.Is(FlagWrite)
	if group {
		access = Write // the group moves forward in the key
	}
	for i := 1; i < len(args); i++ {
		left := len(args) - i - 1
		switch o := args[i]; {
		case (fold(o, "COUNT") || fold(o, "BLOCK")) && left >= 1:
			i++
		case group && fold(o, "GROUP") && left >= 2:
			i += 2
		case group && fold(o, "CLAIM") && left >= 1:
			i++
		case group && fold(o, "NOACK"):
		case fold(o, "STREAMS"):
			for k := 1; k <= (left+1)/2; k++ {
				dst = append(dst, Key{Index: i + k, Access: access})
			}
			return dst, left > 0 && left%2 == 0
		default:
			return dst, false
		}
	}
	return dst, false
}

// geoKeys reads GEORADIUS key longitude latitude radius unit [options] and
// GEORADIUSBYMEMBER key member radius unit [options]. Every destination of STORE
// and STOREDIST is reported, though the last wins.
func geoKeys(dst []Key, args [][]byte, c *Command) ([]Key, bool) {
	options := 6
	if c.Name == "georadiusbymember" {
		options = 5
	}
	if len(args) < options {
		return dst, false
	}
	dst = append(dst, Key{Index: 1, Access: Read})
	for i := options; i < len(args); i++ {
		left := len(args) - i - 1
		switch o := args[i]; {
		case fold(o, "WITHCOORD"), fold(o, "WITHDIST"), fold(o, "WITHHASH"),
			fold(o, "ANY"), fold(o, "ASC"), fold(o, "DESC"):
		case fold(o, "COUNT") && left >= 1:
			i++
		case (fold(o, "STORE") || fold(o, "STOREDIST")) && left >= 1:
			i++
			dst = append(dst, Key{Index: i, Access: Write})
		default:
			return dst, false
		}
	}
	return dst, true
}

// bitfieldKeys reads BITFIELD key [GET type offset] [OVERFLOW how] [SET type
// offset value] [INCRBY type offset value]...: a read when it only gets, a write
// when in doubt.
func bitfieldKeys(dst []Key, args [][]byte, _ *Command) ([]Key, bool) {
	if len(args) < 2 {
		return dst, false
	}
	access := Read
	for i := 2; i < len(args) && access == Read; i++ {
		left := len(args) - i - 1
		switch o := args[i]; {
		case fold(o, "GET") && left >= 2:
			i += 2
		case fold(o, "OVERFLOW") && left >= 1:
			i++
		default:
			access = Write
		}
	}
	return append(dst, Key{Index: 1, Access: access}), true
}

// allButLast reads a call whose last argument is the only one that is no key.
func allButLast(dst []Key, args [][]byte, _ *Command) ([]Key, bool) {
	for i := 1; i < len(args)-1; i++ {
		dst = append(dst, Key{Index: i, Access: Read})
	}
	return dst, true
}
