package status

import (
	"fmt"
	"strconv"
)

// ID names a session in URLs: 16 hexadecimal digits.
type ID uint64

// String returns the digits.
func (i ID) String() string { return fmt.Sprintf("%016x", uint64(i)) }

// MarshalText is String.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads the digits.
func (i *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("%q is no session's id: it has 16 hexadecimal digits", text)
	}
	*i = ID(n)
	return nil
}
