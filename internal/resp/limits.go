package resp

import "math"

// Limits bound what a client may send. Fields that are zero or negative take
// the defaults.
type Limits struct {
	// MaxBulk is the most bytes of one argument. Default 512 MiB, as
	// proto-max-bulk-len; not applied to inline requests.
	MaxBulk int64

	// MoreBulk, if there is one, is asked for MaxBulk anew when an argument is
	// beyond it: the server's limit may have been raised.
	MoreBulk func() int64

	// MaxArgs is the most arguments of one request, the command name included.
	// Default 2^31-1, as Redis 7.0's; not applied to inline requests, which MaxInline
	// bounds.
	MaxArgs int

	// MaxInline is the most bytes of an inline request or of a header line,
	// without the terminator. Default 64 KiB, as PROTO_INLINE_MAX_SIZE.
	MaxInline int

	// MaxRequest is the most bytes of one request, headers included; each of its
	// arguments counts for ArgCost more. Default 1 GiB, as client-query-buffer-limit.
	MaxRequest int64

	// Unauthenticated: who sends has not logged in, and may send 10 arguments of 16 KiB at
	// most, as at Redis.
	Unauthenticated bool
}

// What a request may have of somebody who has not logged in.
const (
	unauthenticatedArgs = 10
	unauthenticatedBulk = 16 << 10
)

// ArgCost is the memory that an argument takes besides its own bytes: its place in
// the request, and its slice.
const ArgCost = 40

// withDefaults returns l with every field positive and usable as an int.
func (l Limits) withDefaults() Limits {
	if l.MaxBulk <= 0 {
		l.MaxBulk = 512 << 20
	}
	if l.MaxArgs <= 0 {
		l.MaxArgs = math.MaxInt32
	}
	if l.MaxInline <= 0 {
		l.MaxInline = 64 << 10
	}
	if l.MaxRequest <= 0 {
		l.MaxRequest = 1 << 30
	}
	l.MaxRequest = min(l.MaxRequest, math.MaxInt-2)
	l.MaxInline = min(l.MaxInline, math.MaxInt-2)
	return l
}
