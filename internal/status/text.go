package status

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names are kept up to so many bytes: keys may have half a gigabyte.
const (
	sessionMost = 192
	nameMost    = 64
)

// clip returns a name that pins little memory.
func clip(name string, most int) (text string, clipped bool) {
	if len(name) <= most {
		return name, false
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return strings.Clone(name[:end]), true
}

// Printable returns a name as it may be shown anywhere, in a terminal too: what is no text is written as \x1b.
func Printable(name string) string {
	for _, r := range name {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return escaped(name)
		}
	}
	return name
}

func escaped(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && size <= 1 || !unicode.IsPrint(r) {
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}
