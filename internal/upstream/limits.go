package upstream

import "errors"

// ErrTooMuch says that a client is owed more bytes of replies than are kept for one.
var ErrTooMuch = errors.New("the replies kept for the client are more than limits.output_buffer")

const (
	// placeCost is about what a reply of the proxy's own takes in memory besides its bytes.
	placeCost = 96
	// keepLen is the length from which on a buffer is not used again.
	keepLen = 64 << 10
)

// Limits bound what replies may cost. A zero is no limit.
type Limits struct {
	Nesting int // how deep a reply may be nested
	Kept    int // bytes of replies that are kept for one client, not passed on as they come
}

// Limit sets the connection's limits, before it is used. Serve ends with ErrTooMuch or a
// *resp.ProtocolError when the upstream's replies go beyond them.
func (c *Conn) Limit(l Limits) {
	c.limits = l
	c.framer.MaxDepth = l.Nesting
}

// Limit sets the connection's limits, before it is used. Do returns ErrTooMuch to the call whose replies
// go beyond them, and ErrLost to all when one is nested too deep.
func (s *Shared) Limit(l Limits) {
	s.kept = l.Kept
	s.framer.MaxDepth = l.Nesting
}

// Unanswered returns how many requests wait for a reply.
func (c *Conn) Unanswered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Room returns a channel that is closed once no more than most requests wait for a reply, or none will
// get one any more. There is one at a time.
func (c *Conn) Room(most int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := make(chan struct{})
	c.room, c.roomAt = room, most
	c.answered(0)
	return room
}

// answered counts n replies less to wait for. Called with mu held.
func (c *Conn) answered(n int) {
	c.open -= n
	if c.room != nil && (c.open <= c.roomAt || c.err != nil) {
		close(c.room)
		c.room = nil
	}
}

// keepLocal counts the bytes of a reply of the proxy's own that has to wait. Called with mu held.
func (c *Conn) keepLocal(reply []byte) error {
	cost := len(reply) + placeCost
	if c.limits.Kept > 0 && c.kept+cost > c.limits.Kept {
		return ErrTooMuch
	}
	c.kept += cost
	return nil
}

// modest empties a slice for further use, unless it has grown large.
func modest[T any](s []T) []T {
	if cap(s) > keepLen {
		return nil
	}
	return s[:0]
}
