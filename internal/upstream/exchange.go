package upstream

import (
	"bytes"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Exchange is a block of requests that are sent together, and the replies that come back. It may
// be used again once it is done.
type Exchange struct {
	// Frames is the number of replies.
	Frames int
	// Stream is the index of the reply that belongs to the client, or -1.
	Stream int
	// Open says that the last reply is an EXEC's: its array is taken apart, and its first element
	// is the client's reply. A nil or an error in its place is kept.
	Open bool
	// Decide is asked, by the receiver, when the client's reply begins with the type byte typ: true
	// streams it to the downstream, false drops it. The replies before it are there already.
	Decide func(typ byte) bool
	// Subscribes, if set after Reset, says that the reply is that of an EXEC with confirmations of
	// subscriptions among its elements.
	Subscribes bool
	// After, if set after Reset, is called by the receiver when the last reply is in: it says what
	// may come unasked from then on.
	After func(*Mode)
	// From and To: the replies from From on and before To go downstream as well, whatever they are.
	From, To int
	// Nonce, if set after Reset of an exchange of one reply, says what is in that reply: others that come before it go
	// downstream.
	Nonce []byte
	// Whole says that of an opened EXEC not only the first element is the client's, but all save
	// the last Tail ones. They go downstream as an array.
	Whole bool
	Tail  int
	// Makes, if set after Reset, says that the sender makes up for what the client has not got of the exchange when the connection
	// breaks, unless it has got a part of a reply.
	Makes bool

	// Streamed says that the client's reply went downstream, StreamType is its type byte.
	Streamed   bool
	StreamType byte
	// Opened says that the last reply was an array.
	Opened bool
	// Refused says that one of the replies between From and To was an error.
	Refused bool
	// Failed are the elements of an opened EXEC that are errors, counted from 0.
	Failed []int
	// Err is ErrLost when the connection broke before the last reply.
	Err error

	kept    []byte
	ends    []int
	header  []byte        // of an EXEC's array, while it is incomplete
	total   int           // Frames, or more when an EXEC's array was taken apart
	passes  bool          // the reply being read goes downstream
	dropped bool          // it is the client's and not wanted
	quiet   bool          // it goes nowhere, though it was wanted
	fate    atomic.Int32  // of what is the client's: see Withdraw
	Done    chan struct{} // receives when the last reply is in, or the connection broke
}

// NewExchange returns an exchange to be set up by Reset.
func NewExchange() *Exchange { return &Exchange{Done: make(chan struct{}, 1)} }

// Reset makes the exchange ready to be sent.
func (x *Exchange) Reset(frames, stream int, open bool, decide func(typ byte) bool) {
	*x = Exchange{
		Frames: frames, Stream: stream, Open: open, Decide: decide, total: frames,
		kept: modest(x.kept), ends: modest(x.ends), header: x.header[:0], Failed: x.Failed[:0], Done: x.Done,
	}
	select {
	case <-x.Done:
	default:
	}
}

// What becomes of the client's part of an exchange.
const (
	open      int32 = iota
	begun           // the client gets it
	withdrawn       // it does not
)

// Withdraw takes back what the client was to get of the exchange, and reports false if it has begun to
// get it. The replies are still awaited.
func (x *Exchange) Withdraw() bool { return x.fate.CompareAndSwap(open, withdrawn) }

// gives reports whether the client gets its part, from now on for good.
func (x *Exchange) gives() bool {
	return x.fate.Load() == begun || x.fate.CompareAndSwap(open, begun)
}

// Frame returns the i-th reply as it came; the streamed one is empty. Of an opened EXEC, the
// elements count as replies, from the EXEC's own index on.
func (x *Exchange) Frame(i int) []byte {
	if i >= len(x.ends) {
		return nil
	}
	start := 0
	if i > 0 {
		start = x.ends[i-1]
	}
	return x.kept[start:x.ends[i]]
}

func (x *Exchange) complete() bool { return len(x.ends) == x.total }

// begin is called at the start of each reply. It returns what goes downstream before it: the
// header of an array that the client gets a part of.
func (x *Exchange) begin(typ byte) (header []byte) {
	i := len(x.ends)
	x.passes, x.dropped = false, false
	switch {
	case i >= x.From && i < x.To:
		x.passes = x.gives()
	case x.Open && !x.Opened:
	case i == x.Stream:
		x.Streamed = x.Decide(typ) && x.gives()
		if x.Streamed && x.Whole {
			header = resp.AppendArray(nil, x.total-x.Tail-i)
		}
		fallthrough
	case x.Whole && i > x.Stream && i < x.total-x.Tail:
		x.passes, x.dropped = x.Streamed, !x.Streamed
	}
	return header
}

// streaming reports whether the reply being read goes downstream.
func (x *Exchange) streaming() bool { return x.passes }

// owes reports whether the client has got a part of what it is to get of the exchange, and not all.
func (x *Exchange) owes() bool {
	if x.Makes {
		return x.passes || x.Streamed && !x.Heard()
	}
	return x.Streamed || x.From < x.To && len(x.ends) < x.To && x.fate.Load() != withdrawn
}

// Heard reports whether the client has got all of the reply that was streamed to it.
func (x *Exchange) Heard() bool {
	if x.Whole {
		return x.Streamed && len(x.ends) >= x.total-x.Tail
	}
	return x.Streamed && len(x.ends) > x.Stream
}

// Unheard returns which of the replies from From on and before To the client has not got, when the connection broke.
func (x *Exchange) Unheard() (from, to int) { return max(x.From, min(len(x.ends), x.To)), x.To }

// keep keeps bytes of the reply being read, unless it is the client's and dropped.
func (x *Exchange) keep(data []byte) {
	if !x.dropped {
		x.kept = append(x.kept, data...)
	}
}

// other returns the reply that was read if it is not the one with the nonce.
func (x *Exchange) other() []byte {
	if x.Nonce == nil || bytes.Contains(x.kept, x.Nonce) {
		return nil
	}
	other := x.kept
	x.kept = nil
	return other
}

// end is called at the end of each reply.
func (x *Exchange) end(typ byte) {
	i, failed := len(x.ends), typ == '-' || typ == '!'
	switch {
	case i >= x.From && i < x.To:
		x.Refused = x.Refused || failed
	case x.Opened && failed:
		x.Failed = append(x.Failed, i-x.Frames+1)
	}
	if i == x.Stream {
		x.StreamType = typ
	}
	x.passes, x.dropped = false, false
	x.ends = append(x.ends, len(x.kept))
}

// atLast reports whether the reply that comes next is the block's last request's.
func (x *Exchange) atLast() bool { return len(x.ends) == x.Frames-1 }

// atExec reports whether the reply that comes next is an EXEC's, to be taken apart.
func (x *Exchange) atExec() bool { return x.Open && !x.Opened && x.atLast() }

// inHeader reports whether the header of an EXEC's reply has begun.
func (x *Exchange) inHeader() bool { return len(x.header) > 0 }

// opens takes the header of an EXEC's reply from data and returns how much that was, and whether
// the header is complete.
func (x *Exchange) opens(data []byte) (n int, complete bool) {
	for n < len(data) {
		x.header = append(x.header, data[n])
		n++
		if x.header[0] != '*' || data[n-1] == '\n' {
			complete = true
			break
		}
	}
	if count, null, _, ok := resp.ArrayHeader(x.header); complete && ok && !null && count > 0 {
		x.Opened = true
		x.total += int(count) - 1
		x.header = x.header[:0]
	}
	return n, complete
}
