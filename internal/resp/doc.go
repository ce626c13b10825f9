// Package resp frames the Redis serialization protocol, RESP2 and RESP3,
// without allocating per command or per reply.
//
// # The pieces
//
//	client bytes ──▶ RequestParser ──▶ Request{Raw, Args}   one command
//	server bytes ──▶ Framer ─────────▶ n bytes, done?       one reply, streamed
//	whole reply  ──▶ ParseValue ─────▶ Value                one reply, decoded
//	             ◀── Append... ◀──────                      encoding
//
// A RequestParser looks into the commands of a client, because the proxy must
// know their names and keys. A Framer only finds where a reply of the server
// ends: the bytes are relayed as they come and never collected. ParseValue is
// for the few replies that the proxy reads itself (scripts, EXEC, COMMAND).
//
// # Terms
//
//   - request: one command as a client sends it, an array of bulk strings
//     ("*1\r\n$4\r\nPING\r\n") or an inline line ("PING\r\n").
//   - frame: one complete reply, nested elements and preceding attributes
//     included. A RESP3 push message is a frame of its own.
//   - header: the line that tells a length or count, such as "$4\r\n".
//
// # Invariants
//
// Input may be cut at any byte. Where it is cut changes neither the results
// nor the errors, and the work done is linear in the bytes received: what was
// understood once is not looked at again.
//
// A header is a claim, not a fact. No memory is reserved because of one; memory
// grows with the bytes that arrived, by a constant factor.
//
// An error is final. The position in the stream is lost, so RequestParser and
// Framer repeat the error until Reset; the connection has to be closed.
//
// # How strict requests are
//
// The request parser follows processMultibulkBuffer, processInlineBuffer and
// sdssplitargs of Redis 7.0, leniencies included, so that proxy and server
// never disagree on where a command ends:
//
//   - the byte after the '\r' of a header, and the two bytes after a bulk
//     string, are skipped whatever they are;
//   - numbers are strict: no sign but '-', no leading zeros;
//   - a NUL byte in a header or an inline line hides the end of that line, so
//     the request stays incomplete until the line is too long;
//   - "*0\r\n", "*-1\r\n" and blank lines are requests without arguments, which
//     get no reply.
//
// It differs in two places. Redis 7.0 takes up to 2147483647 arguments, Limits
// default to the 1048576 of older servers. Redis notices that a line is too
// long only if its end has not arrived yet; here a line of more than MaxInline
// bytes is always refused.
//
// # How strict replies are
//
// A Framer checks what it needs to find the end: types, lengths, terminators.
// The text of numbers, booleans and doubles is checked by ParseValue. Streamed
// strings and aggregates ("$?", "*?") are errors, Redis does not send them.
package resp
