package upstream

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// What Redis sends unasked comes between the replies: messages and confirmations of subscriptions,
// invalidations, lines of MONITOR. RESP3 has a type of its own for it but for MONITOR. In RESP2 only
// the first element of an array tells a message from a reply, so the start of a frame that may be
// one is held back until it is known what it is.

// fate is what becomes of the frame that is being read.
type fate byte

const (
	aReply    fate = iota // it is one: see Conn.take
	undecided             // its start is held back
	passed                // it was sent unasked: downstream with it
	dropped               // … and nobody's business
	kept                  // … and is looked at as a whole
)

// longestWord is the length of "punsubscribe".
const longestWord = 12

// enough is how many bytes of a channel or a key tell whether it is hidden.
const enough = 64

// longestLine is how many bytes of a line of MONITOR are searched for what is hidden.
const longestLine = 16 << 10

type kind byte

const (
	otherKind kind = iota
	message
	patternMessage
	invalidation
	confirmation
)

// kindOf is what the first element of a message says.
func kindOf(word []byte) kind {
	switch string(word) {
	case "message", "smessage":
		return message
	case "pmessage":
		return patternMessage
	case "invalidate":
		return invalidation
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return confirmation
	}
	return otherKind
}

// suspect reports whether a frame that begins with this byte may not be a reply.
func (c *Conn) suspect(typ byte) bool {
	switch typ {
	case '>':
		return true
	case '+':
		return c.mode.Monitors
	case '*':
		return !c.mode.RESP3 && (c.mode.Subscribed() || c.awaited().confirms != "")
	}
	return false
}

// unasked takes a part of a frame that may not be a reply, and returns how much that was.
func (c *Conn) unasked(data []byte) (n int, err error) {
	n, done, err := c.framer.Scan(data)
	if err != nil {
		return n, fmt.Errorf("the upstream does not speak RESP: %w", err)
	}
	part := data[:n]
	if c.fate == undecided || c.fate == kept {
		c.held = append(c.held, part...)
		part = c.held
	}
	if c.fate == undecided {
		if c.fate = c.judge(c.held, done); c.fate == aReply && c.stray {
			c.fate = passed
		}
	}
	switch {
	case c.fate == aReply:
		return n, c.again()
	case c.fate == undecided && !done, c.fate == kept && !done:
		return n, nil
	case c.fate == dropped:
		part = nil
	case c.fate == kept:
		part = c.visible(part)
	}
	err = c.pushed(part, done)
	c.held = c.held[:0]
	if done {
		c.fate = aReply
		if cap(c.held) > outKept {
			c.held = nil
		}
	}
	return n, err
}

// again takes what was held back as the start of a reply.
func (c *Conn) again() error {
	c.framer.Reset()
	held := c.held
	c.held = nil
	for len(held) > 0 {
		n, err := c.take(held)
		if err != nil {
			return err
		}
		held = held[n:]
	}
	return nil
}

// pushed takes a part of what was sent unasked downstream. A reply of the proxy's own waits until
// all of it is there.
func (c *Conn) pushed(part []byte, done bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(part) > 0 {
		if _, err := c.down.Write(part); err != nil {
			return err
		}
		c.midst = !done
	}
	if !done {
		return nil
	}
	c.midst = false
	if c.fate == kept {
		c.confirm()
	}
	return c.locals()
}

// confirm takes in what was kept if it is a confirmation, and counts it where one is awaited.
func (c *Conn) confirm() {
	v, _, err := resp.ParseValue(c.held)
	if err != nil {
		return
	}
	before := c.mode
	word := c.mode.confirmation(v)
	if word == "" || c.head == len(c.waiting) || c.waiting[c.head].confirms != word {
		return
	}
	w := &c.waiting[c.head]
	if w.frames == 0 { // of all there are, or of none
		w.frames = max(before.count(word), 1)
	}
	if w.frames--; w.frames == 0 {
		c.pop()
	}
}

// judge decides on a frame from its start.
func (c *Conn) judge(start []byte, done bool) fate {
	if start[0] == '+' {
		return c.judgeLine(start, done)
	}
	count, rest, ok := number(start)
	if !ok {
		return undecided
	}
	unknown := passed
	if start[0] == '*' {
		unknown = aReply
		if count != 3 && count != 4 {
			return aReply
		}
	}
	word, length, rest, ok := bulk(rest)
	switch {
	case !ok:
		return undecided
	case length < 0 || length > longestWord:
		return unknown
	case len(word) < length:
		return undecided
	}
	switch kindOf(word) {
	case message:
		return c.judgeMessage(rest)
	case patternMessage:
		pattern, length, rest, ok := bulk(rest)
		if !ok || len(pattern) < length {
			return undecided
		}
		return c.judgeMessage(rest)
	case confirmation:
		return kept
	case invalidation:
		if start[0] == '>' {
			return kept
		}
	}
	return unknown
}

// judgeLine decides on a status: lines of MONITOR begin with a time and an address. Those that name
// what is hidden as an argument are left out.
func (c *Conn) judgeLine(start []byte, done bool) fate {
	rest := start[1:]
	for _, after := range [...]byte{'.', ' '} {
		digits := 0
		for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
			digits++
		}
		switch {
		case digits == len(rest):
			return undecided
		case digits == 0 || rest[digits] != after:
			return aReply
		}
		rest = rest[digits+1:]
	}
	switch {
	case len(rest) > 0 && rest[0] != '[':
		return aReply
	case !done && (len(rest) == 0 || len(rest) < longestLine):
		return undecided
	case c.Hidden == nil:
		return passed
	}
	for {
		at := bytes.Index(rest, []byte(` "`))
		if at < 0 {
			return passed
		}
		if rest = rest[at+2:]; c.Hidden(rest) {
			return dropped
		}
	}
}

// judgeMessage decides on a message from its channel on.
func (c *Conn) judgeMessage(rest []byte) fate {
	channel, length, rest, ok := bulk(rest)
	switch {
	case !ok || len(channel) < min(length, enough):
		return undecided
	case c.Hidden == nil:
		return passed
	case c.Hidden(channel):
		return dropped
	}
	if after, ok := bytes.CutPrefix(channel, []byte("__keyspace@")); ok {
		if _, key, _ := bytes.Cut(after, []byte("__:")); c.Hidden(key) {
			return dropped
		}
		return passed
	}
	event := bytes.HasPrefix(channel, []byte("__keyevent@"))
	if !event && string(channel) != "__redis__:invalidate" {
		return passed
	}
	if length > enough {
		return passed // no channel of Redis's own
	}
	if len(rest) == 0 {
		return undecided
	}
	if rest[0] == '*' {
		return kept
	}
	key, length, _, ok := bulk(rest)
	switch {
	case !ok || event && len(key) < min(length, enough):
		return undecided
	case event && c.Hidden(key):
		return dropped
	}
	return passed
}

// visible returns an invalidation without the keys that are hidden, nothing if all are. Anything
// else is returned as it is.
func (c *Conn) visible(frame []byte) []byte {
	v, _, err := resp.ParseValue(frame)
	if err != nil || c.Hidden == nil || len(v.Elems) < 2 {
		return frame
	}
	keys := v.Elems[len(v.Elems)-1]
	if keys.Type != '*' || keys.Null {
		return frame
	}
	left := make([]resp.Value, 0, len(keys.Elems))
	for _, k := range keys.Elems {
		if !c.Hidden(k.Str) {
			left = append(left, k)
		}
	}
	switch len(left) {
	case len(keys.Elems):
		return frame
	case 0:
		return nil
	}
	out := append([]byte{frame[0]}, strconv.Itoa(len(v.Elems))...)
	out = append(out, "\r\n"...)
	for _, e := range v.Elems[:len(v.Elems)-1] {
		out = resp.AppendBulk(out, e.Str)
	}
	out = resp.AppendArray(out, len(left))
	for _, k := range left {
		out = resp.AppendBulk(out, k.Str)
	}
	return out
}

// number reads the line with a length at the start of b. ok is false when it is not all there.
func number(b []byte) (n int, rest []byte, ok bool) {
	end := bytes.IndexByte(b, '\n')
	if end < 2 {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(b[1 : end-1]))
	if err != nil {
		n = -1
	}
	return n, b[end+1:], true
}

// bulk reads the bulk string at the start of b: as much of it as is there, its length, and what
// follows. length is negative for anything that is no string; ok is false when not even that is
// known.
func bulk(b []byte) (text []byte, length int, rest []byte, ok bool) {
	if len(b) > 0 && b[0] != '$' {
		return nil, -1, nil, true
	}
	length, b, ok = number(b)
	if !ok || length < 0 {
		return nil, length, nil, ok
	}
	if len(b) < length+2 {
		return b[:min(len(b), length)], length, nil, true
	}
	return b[:length], length, b[length+2:], true
}
