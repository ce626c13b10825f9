package upstream

import "time"

// Call is a client's commands on a shared connection. It may be used again once Do has returned.
type Call struct {
	Requests []byte // not changed before Do returns
	Frames   int    // how many replies they get
	// Timed asks when the requests were sent and the last reply came.
	Timed      bool
	Sent, Came time.Time
	// Replies are the replies as they came; after an error those that are whole. They are valid until
	// Release.
	Replies []byte

	part chunkPart // which Replies are, unless they are own
	own  []byte
	over bool // its replies were too much, and the rest is not kept
	err  error
	wake chan bool // true: lead
}

// NewCall returns a call.
func NewCall() *Call { return &Call{wake: make(chan bool, 1)} }

// Release gives up the replies, and the memory that they are in: other replies are there too.
func (c *Call) Release() {
	if c.part.in != nil {
		c.part.in.release()
		c.part = chunkPart{}
	}
	c.Replies, c.own = nil, modest(c.own)
}

// take keeps a part of a reply, until there is too much of them. It is copied only where the replies
// are not all in one chunk.
func (c *Call) take(p chunkPart, most int) {
	data := p.bytes()
	if c.over = c.over || most > 0 && len(c.Replies)+len(data) > most; c.over {
		return
	}
	switch c.part.in {
	case p.in: // what is in one chunk came in one piece
		c.part.end = p.end
		c.Replies = c.part.bytes()
		return
	case nil:
		if len(c.Replies) == 0 {
			p.in.users.Add(1)
			c.part, c.Replies = p, data
			return
		}
	default:
		c.own = append(c.own, c.Replies...)
		c.part.in.release()
		c.part = chunkPart{}
	}
	c.own = append(c.own, data...)
	c.Replies = c.own
}
