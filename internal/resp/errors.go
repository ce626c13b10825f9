package resp

// ProtocolError reports bytes that are not RESP. The connection they came from
// cannot be used further.
type ProtocolError struct {
	msg string
}

// Error returns the text as Redis words it after "-ERR ", for example
// "Protocol error: invalid bulk length". It may hold a byte of the peer that is
// not UTF-8, but never '\r' or '\n'.
func (e *ProtocolError) Error() string { return e.msg }

// protocolError returns a ProtocolError that says "Protocol error: " + reason.
func protocolError(reason string) *ProtocolError {
	return &ProtocolError{msg: "Protocol error: " + reason}
}

// quoted returns c as it can stand in an error line.
func quoted(c byte) string {
	if c == '\r' || c == '\n' {
		c = ' '
	}
	return "'" + string([]byte{c}) + "'"
}
