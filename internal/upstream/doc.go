// Package upstream is the way to Redis and back: bytes out, replies in, each reply to where it
// belongs. It knows frames, not commands.
//
// A Conn has two sides. The sender (the client's goroutine) appends requests and says what
// replies they will get; Flush sends them in one write. The receiver (Conn.Serve, one goroutine)
// frames what comes back and takes each reply, in order, to its place:
//
//	Pass           n replies, straight to the downstream, streamed as they come
//	PassConfirmed  the same for confirmations of subscriptions, of which there may be any number
//	Exchange       a block of replies of the fence's own: kept for the sender to read, except the
//	               client's own reply among them, which is streamed to the downstream if Decide says so
//	Raw            everything from here on goes to the downstream unframed (replication)
//
// A Shared connection carries the commands of many clients that leave no state behind: see there.
//
// What Redis sends unasked (messages, invalidations, lines of MONITOR) goes to the downstream whenever
// it comes, without what is hidden: message.go tells it from replies, by the connection's Mode. When
// the connection breaks, every exchange that is still open ends with ErrLost.
package upstream
