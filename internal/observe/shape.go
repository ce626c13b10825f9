package observe

import (
	"strings"
	"unicode/utf8"
)

// variable stands in patterns for what differs from key to key.
const variable = "\x00"

// separators end a segment of a key; hash tags do, too.
const separators = ":/|{}"

// segments takes a key apart: each segment with the separator that ends it, and with what is variable
// in it replaced. What is behind maxDepth segments or maxText bytes is one variable.
func segments(key []byte) []string {
	text := string(key[:min(len(key), maxText)])
	var all []string
	for text != "" && len(all) < maxDepth {
		at := strings.IndexAny(text, separators)
		if at < 0 {
			all = append(all, shape(text))
			text = ""
			break
		}
		all = append(all, shape(text[:at])+text[at:at+1])
		text = text[at+1:]
	}
	if text != "" || len(key) > maxText {
		all = append(all, variable)
	}
	return all
}

func printable(text string) bool {
	for _, r := range text {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return false
		}
	}
	return true
}

// shape replaces what is variable in a segment.
func shape(segment string) string {
	if !printable(segment) || isToken(segment) || strings.ContainsRune(segment, '@') {
		return variable
	}
	var out strings.Builder
	for rest := segment; rest != ""; {
		if len(rest) >= 36 && isUUID(rest[:36]) {
			out.WriteString(variable)
			rest = rest[36:]
			continue
		}
		n := strings.IndexAny(rest, "-_.+ ")
		switch {
		case n < 0:
			n = len(rest)
		case n == 0:
			out.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if isID(rest[:n]) {
			out.WriteString(variable)
		} else {
			out.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	return joined(out.String())
}

// joined makes one variable of those that only signs separate: of a date, say.
func joined(shape string) string {
	for _, sign := range []string{"-", "_", ".", "+", " ", ""} {
		for {
			next := strings.ReplaceAll(shape, variable+sign+variable, variable)
			if next == shape {
				break
			}
			shape = next
		}
	}
	if strings.Trim(shape, variable+"+") == "" && shape != "" {
		return variable
	}
	return shape
}

// isID reports whether a word names one thing among many: a number, a hash, a random text.
func isID(word string) bool {
	digits, hexes, letters := 0, 0, 0
	for i := range len(word) {
		switch c := word[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
			hexes++
			letters++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			letters++
		default:
			return false
		}
	}
	switch n := len(word); {
	case digits == n:
		return true
	case digits+hexes == n && n >= 8 && digits > 0:
		return true
	default:
		return n >= 10 && digits >= 2 && letters >= 2
	}
}

// isToken reports whether a segment is a random text of all kinds of letters, which may have signs in it.
func isToken(segment string) bool {
	if len(segment) < 16 {
		return false
	}
	var digit, upper, lower bool
	for i := range len(segment) {
		switch c := segment[i]; {
		case '0' <= c && c <= '9':
			digit = true
		case 'A' <= c && c <= 'Z':
			upper = true
		case 'a' <= c && c <= 'z':
			lower = true
		case c == '-', c == '_', c == '=', c == '+', c == '.':
		default:
			return false
		}
	}
	return digit && upper && lower
}

func isUUID(text string) bool {
	for i := range len(text) {
		switch c := text[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
	}
	return true
}

// family replaces the numbers in a segment: those of one family may be one kind of name, as user1
// and user2.
func family(segment string) string {
	var out strings.Builder
	number := false
	for i := range len(segment) {
		c := segment[i]
		if digit := '0' <= c && c <= '9'; digit {
			if !number {
				out.WriteString(variable)
			}
			number = true
			continue
		}
		number = false
		out.WriteByte(c)
	}
	return out.String()
}
