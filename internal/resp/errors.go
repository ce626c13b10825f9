package resp

// ProtocolError reports bytes that are not RESP. The connection they came from
// cannot be used further.
type ProtocolError struct {
	// Limit names what they are too much of: one of the constants, or "" if they
	// are no RESP at all.
	Limit Limit

	msg string
}

// Limit is something that bytes may be too much of.
type Limit string

// The limits.
const (
	LimitRequest   Limit = "request"   // Limits.MaxRequest
	LimitBulk      Limit = "bulk"      // Limits.MaxBulk
	LimitArguments Limit = "arguments" // Limits.MaxArgs
	LimitInline    Limit = "inline"    // Limits.MaxInline
	LimitNesting   Limit = "nesting"   // a request within a request, or Framer.MaxDepth
)

// Error returns the text as Redis words it after "-ERR ", for example
// "Protocol error: invalid bulk length". It may hold a byte of the peer that is
// not UTF-8, but never '\r' or '\n'.
func (e *ProtocolError) Error() string { return e.msg }

// protocolError returns a ProtocolError that says "Protocol error: " + reason.
func protocolError(reason string) *ProtocolError {
	return &ProtocolError{msg: "Protocol error: " + reason}
}

// tooMuch is protocolError for bytes beyond a limit.
func tooMuch(limit Limit, reason string) *ProtocolError {
	e := protocolError(reason)
	e.Limit = limit
	return e
}

// isAggregate tells the types that have values within.
func isAggregate(typ byte) bool {
	switch typ {
	case '*', '~', '>', '%', '|':
		return true
	}
	return false
}

// quoted returns c as it can stand in an error line.
func quoted(c byte) string {
	if c == '\r' || c == '\n' {
		c = ' '
	}
	return "'" + string([]byte{c}) + "'"
}
