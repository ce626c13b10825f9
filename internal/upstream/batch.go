package upstream

import "time"

// batch is the calls that a leader carries out together, and how far their replies have come.
type batch struct {
	calls  []*Call
	own    *Call // the leader's
	kept   int   // bytes of a call's replies that are kept; 0 is no limit
	next   int   // the call whose replies come
	frames int   // how many of them are still to come
	whole  int   // bytes of its whole replies
}

// complete takes a part of a reply, done if it is the last, to its call. It reports true when all
// calls have all their replies.
func (b *batch) complete(part chunkPart, done bool) bool {
	c := b.calls[b.next]
	c.take(part, b.kept)
	if !done {
		return false
	}
	if !c.over {
		b.whole = len(c.Replies)
	}
	if b.frames--; b.frames > 0 {
		return false
	}
	if c.over {
		c.Replies, c.err = c.Replies[:b.whole], ErrTooMuch
	}
	b.whole = 0
	if c.Timed {
		c.Came = time.Now()
	}
	b.wake(c)
	if b.next++; b.next == len(b.calls) {
		return true
	}
	b.frames = b.calls[b.next].Frames
	return false
}

// end ends the batch: with an error, the calls that are not complete get it, and what is whole of
// their replies.
func (b *batch) end(err error) {
	if err != nil && b.next < len(b.calls) {
		c := b.calls[b.next]
		c.Replies = c.Replies[:b.whole]
		for _, c := range b.calls[b.next:] {
			c.err = err
			b.wake(c)
		}
	}
	clear(b.calls)
	*b = batch{}
}

// send notes that the requests are about to be sent.
func (b *batch) send() {
	for _, c := range b.calls {
		if c.Timed {
			c.Sent = time.Now()
		}
	}
}

// wake tells a call that waits that it is done.
func (b *batch) wake(c *Call) {
	if c != b.own {
		c.wake <- false
	}
}
