package resp

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// The Append functions append one encoded value to dst and return the result,
// as the built-in append does.

// AppendCommand appends a request: an array of bulk strings.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = redcon.AppendArray(dst, len(args))
	for _, arg := range args {
		dst = redcon.AppendBulk(dst, arg)
	}
	return dst
}

// AppendCommandStrings is AppendCommand for strings.
func AppendCommandStrings(dst []byte, args ...string) []byte {
	dst = redcon.AppendArray(dst, len(args))
	for _, arg := range args {
		dst = redcon.AppendBulkString(dst, arg)
	}
	return dst
}

// AppendArray appends the header of an array; n values have to follow.
func AppendArray(dst []byte, n int) []byte { return redcon.AppendArray(dst, n) }

// AppendMap appends the header of a map of n pairs, or in RESP2 of the array that has them flat; 2n values
// have to follow.
func AppendMap(dst []byte, n int, resp3 bool) []byte {
	if !resp3 {
		return redcon.AppendArray(dst, 2*n)
	}
	return append(strconv.AppendInt(append(dst, '%'), int64(n), 10), "\r\n"...)
}

// AppendSet appends the header of a set, or in RESP2 of an array; n values have to follow.
func AppendSet(dst []byte, n int, resp3 bool) []byte {
	if !resp3 {
		return redcon.AppendArray(dst, n)
	}
	return append(strconv.AppendInt(append(dst, '~'), int64(n), 10), "\r\n"...)
}

// AppendDouble appends a double, given as text, or in RESP2 the bulk string that has it.
func AppendDouble(dst, text []byte, resp3 bool) []byte {
	if !resp3 {
		return redcon.AppendBulk(dst, text)
	}
	return append(append(append(dst, ','), text...), "\r\n"...)
}

// AppendBulk appends a bulk string.
func AppendBulk(dst, s []byte) []byte { return redcon.AppendBulk(dst, s) }

// AppendBulkString is AppendBulk for a string.
func AppendBulkString(dst []byte, s string) []byte { return redcon.AppendBulkString(dst, s) }

// AppendInt appends an integer.
func AppendInt(dst []byte, n int64) []byte { return redcon.AppendInt(dst, n) }

// AppendSimple appends a simple string ("+OK"). A '\r' or '\n' in s becomes a
// space.
func AppendSimple(dst []byte, s string) []byte { return redcon.AppendString(dst, s) }

// AppendError appends an error reply. msg starts with its code, as in "ERR
// syntax error". A '\r' or '\n' in msg becomes a space.
func AppendError(dst []byte, msg string) []byte { return redcon.AppendError(dst, msg) }

// AppendNull appends the null of RESP3, or the null bulk string of RESP2.
func AppendNull(dst []byte, resp3 bool) []byte {
	if resp3 {
		return append(dst, "_\r\n"...)
	}
	return redcon.AppendNull(dst)
}

// AppendNullArray appends the null of RESP3, or the null array of RESP2.
func AppendNullArray(dst []byte, resp3 bool) []byte {
	if resp3 {
		return append(dst, "_\r\n"...)
	}
	return append(dst, "*-1\r\n"...)
}
