package cluster

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// frameKind is what a frame that may have been sent unasked is.
type frameKind uint8

const (
	undecided frameKind = iota
	aReply
	message      // sent unasked
	confirmation // of a subscription: a reply, of which a request may get several
)

// longestWord is how long the first element of a message may be at most that is looked at, in bytes.
const longestWord = 32

// kindOf decides on a frame, an array or a push message, by its first element, and returns that.
func kindOf(frame []byte) (kind frameKind, word []byte) {
	other := aReply
	if frame[0] == '>' {
		other = message
	} else if frame[0] != '*' {
		return aReply, nil
	}
	end := bytes.IndexByte(frame, '\n')
	if end < 0 {
		return undecided, nil
	}
	rest := frame[end+1:]
	end = bytes.IndexByte(rest, '\n')
	switch {
	case end < 0 && (len(rest) == 0 || rest[0] == '$') && frame[1] != '0' && frame[1] != '-':
		return undecided, nil
	case end < 2 || rest[0] != '$':
		return other, nil
	}
	length, err := strconv.Atoi(string(rest[1 : end-1]))
	switch rest = rest[end+1:]; {
	case err != nil || length < 0 || length > longestWord:
		return other, nil
	case len(rest) < length:
		return undecided, nil
	}
	switch word = rest[:length]; string(word) {
	case "message", "pmessage", "smessage", "invalidate":
		return message, word
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return confirmation, word
	}
	return other, word
}

// subscriptions are those that stand on one connection, as its confirmations say.
type subscriptions struct{ channels, patterns, shards int }

func (s *subscriptions) any() bool { return s.channels+s.patterns+s.shards > 0 }

// confirmed takes in a confirmation: its word, and the number that it tells.
func (s *subscriptions) confirmed(word string, total int) {
	switch word {
	case "subscribe", "unsubscribe": // counted together with patterns
		s.channels = max(total-s.patterns, 0)
	case "psubscribe", "punsubscribe":
		s.patterns = max(total-s.channels, 0)
	default:
		s.shards = total
	}
}

// count is how many a word is about.
func (s *subscriptions) count(word string) int {
	switch word {
	case "subscribe", "unsubscribe":
		return s.channels
	case "psubscribe", "punsubscribe":
		return s.patterns
	}
	return s.shards
}

// listen looks anew whether something may be sent unasked. The caller holds mu.
func (f *front) listen() {
	f.hearing = f.session.tracks
	for _, c := range f.conns {
		f.hearing = f.hearing || c.subs.any()
	}
}

// hears reports whether a frame that begins with an array may be no reply to e.
func (c *conn) hears(e *entry) bool {
	return c.view[0] == '*' && c.f.session.proto == 2 && (c.subs.any() || e != nil && e.kind == confirms)
}

// messages delivers what c, and others that had to wait, were sent unasked. What is behind a reply whose turn has not come
// waits with it.
func (f *front) messages(c *conn) error {
	if err := f.messagesOf(c); err != nil || !f.hearing {
		return err
	}
	for _, other := range f.conns {
		if err := f.messagesOf(other); err != nil {
			return err
		}
	}
	return nil
}

func (f *front) messagesOf(c *conn) error {
	for c != nil && len(c.view) > 0 && (f.midst == nil || f.midst == c) {
		if c.framer.Partial() && !c.unasked {
			return nil // of a reply
		}
		if !c.framer.Partial() {
			switch what, _ := kindOf(c.view); {
			case c.view[0] != '>' && !c.hears(nil):
				if c.pending > 0 {
					return nil
				}
				// Nobody has asked: the node says why it ends the connection.
			case what == undecided, what == confirmation && c.pending > 0, what == aReply && c.pending > 0:
				return nil
			}
		}
		if done, err := f.message(c); err != nil || !done {
			return err
		}
	}
	return nil
}

// message takes what was sent unasked, or a part of it, to the client.
func (f *front) message(c *conn) (done bool, err error) {
	if !c.framer.Partial() {
		if kind, word := kindOf(c.view); kind == confirmation {
			return f.unsubscribed(c, string(word))
		}
	}
	c.framer.Interposed = true
	n, done, err := c.framer.Scan(c.view)
	if err != nil {
		return false, fmt.Errorf("%s does not speak RESP: %w", c.n.addr, err)
	}
	f.box.add(c.view[:n])
	c.view = c.view[n:]
	c.unasked, f.midst = !done, c
	if done {
		f.midst = nil
	}
	return done, nil
}

// unsubscribed takes a confirmation that nobody has asked for, once it is complete.
func (f *front) unsubscribed(c *conn, word string) (done bool, err error) {
	v, n, err := resp.ParseValue(c.view)
	if err != nil || len(v.Elems) < 3 {
		return false, nil //nolint:nilerr // it is not complete
	}
	c.subs.confirmed(word, int(v.Elems[2].Int))
	f.listen()
	f.box.add(c.view[:n])
	c.view = c.view[n:]
	return true, nil
}

// confirmation takes one of the confirmations that the first entry waits for.
func (f *front) confirmation(e *entry, c *conn) (more bool, err error) {
	v, n, err := resp.ParseValue(c.view)
	if err != nil || len(v.Elems) < 3 {
		return false, nil //nolint:nilerr // it is not complete
	}
	word := string(v.Elems[0].Str)
	before := c.subs
	c.subs.confirmed(word, int(v.Elems[2].Int))
	f.listen()
	if !e.quiet {
		f.box.add(c.view[:n])
	}
	c.view = c.view[n:]
	if word != e.word {
		return true, nil // of a shard's subscription, whose slot has gone
	}
	if e.left == 0 {
		e.left = max(before.count(word), 1)
	}
	if e.left--; e.left == 0 {
		f.answered(e)
	}
	return true, nil
}
