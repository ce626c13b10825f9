package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// longestName is a bound for the names that plainName gives: all servers know names of this length.
const longestName = 200

// plainName is a name for a session, of letters, digits and "-._%~" only; no two sessions share one, and it is neither "." nor "..".
// Short sessions can be read in it: bytes that are none of these are written as in URLs. Long ones begin so, and
// end with "~" and a hash of the whole.
func plainName(session string) string {
	const digits = "0123456789ABCDEF"
	if session == "" {
		return "%"
	}
	var name strings.Builder
	for i := range len(session) {
		c := session[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0
		if plain {
			name.WriteByte(c)
		} else {
			name.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
		if name.Len() > longestName {
			hash := sha256.Sum256([]byte(session))
			ending := "~" + hex.EncodeToString(hash[:])
			return name.String()[:longestName-len(ending)] + ending
		}
	}
	return name.String()
}
