package command

// Access is what a call does to a key.
type Access uint8

const (
	// Read means the key's value or existence is looked at.
	Read Access = iota + 1
	// Write means the key may change.
	Write
)

// String returns "read" or "write".
func (a Access) String() string {
	switch a {
	case Read:
		return "read"
	case Write:
		return "write"
	}
	return "unknown"
}

// Key is one key of a call: its index into the call's arguments, and what the
// call does to it.
type Key struct {
	Index  int
	Access Access
}
