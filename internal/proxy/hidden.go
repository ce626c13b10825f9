package proxy

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// The reserved prefix is closed to clients: a command that names a key under it is refused, and
// replies that list keys leave them out.

var reservedPrefix = []byte(tokenstore.Prefix)

func isReserved(key []byte) bool { return bytes.HasPrefix(key, reservedPrefix) }

// listsKeys reports whether a command's reply is a list of keys, or of channels.
func listsKeys(name string) bool {
	return name == "scan" || name == "keys" || name == "randomkey" || name == "pubsub|channels"
}

// nothing asks for what nobody writes, and gets the null of the client's protocol.
var nothing = resp.AppendCommandStrings(nil, "GET", tokenstore.Prefix)

const (
	// randomTries bounds how often RANDOMKEY is asked again for a key that is not reserved.
	randomTries = 16
	// randomPage is how many keys are looked at together then.
	randomPage = "1000"
)

// unlisted returns a reply of SCAN or KEYS without the reserved keys: the frame itself when there
// are none.
func unlisted(name string, frame []byte) []byte {
	if !bytes.Contains(frame, reservedPrefix) {
		return frame
	}
	v, _, err := resp.ParseValue(frame)
	if err != nil || v.IsError() {
		return frame
	}
	keys := v
	var out []byte
	if name == "scan" {
		if len(v.Elems) != 2 {
			return frame
		}
		out = resp.AppendBulk(resp.AppendArray(out, 2), v.Elems[0].Str)
		keys = v.Elems[1]
	}
	kept := keys.Elems[:0]
	for _, k := range keys.Elems {
		if !isReserved(k.Str) {
			kept = append(kept, k)
		}
	}
	out = resp.AppendArray(out, len(kept))
	for _, k := range kept {
		out = resp.AppendBulk(out, k.Str)
	}
	return out
}

// list passes a command whose reply lists keys, and leaves the reserved ones out.
func (c *client) list(name string, req resp.Request) error {
	if name == "randomkey" {
		frame, err := c.randomKey()
		if err != nil {
			return err
		}
		return c.local(frame)
	}
	x, err := c.sync(req.Raw, false)
	switch {
	case errors.Is(err, upstream.ErrTooMuch):
		return c.broken(err)
	case err != nil:
		return err
	}
	return c.local(unlisted(name, x.Frame(0)))
}

// randomKey asks Redis for a key until it is not a reserved one. Where nearly all are, it looks through them.
func (c *client) randomKey() ([]byte, error) {
	question := resp.AppendCommandStrings(nil, "RANDOMKEY")
	for range randomTries {
		x, err := c.sync(question, false)
		if err != nil {
			return nil, err
		}
		frame := x.Frame(0)
		if v, _, err := resp.ParseValue(frame); err != nil || !isReserved(v.Str) {
			return frame, nil
		}
	}
	for _, cursor := range []string{strconv.FormatUint(uint64(rand.Uint32()), 10), "0"} {
		if frame, err := c.scanForKey(cursor); frame != nil || err != nil {
			return frame, err
		}
	}
	x, err := c.sync(nothing, false)
	return x.Frame(0), err
}

// scanForKey looks for a key that is not reserved from a cursor on. It returns nil when there is none.
func (c *client) scanForKey(cursor string) ([]byte, error) {
	for {
		x, err := c.sync(resp.AppendCommandStrings(nil, "SCAN", cursor, "COUNT", randomPage), false)
		if err != nil {
			return nil, err
		}
		v, _, err := resp.ParseValue(unlisted("scan", x.Frame(0)))
		if err != nil || len(v.Elems) != 2 {
			return nil, err // the client's user may lack the right
		}
		if keys := v.Elems[1].Elems; len(keys) > 0 {
			return resp.AppendBulk(nil, keys[rand.IntN(len(keys))].Str), nil
		}
		if cursor = string(v.Elems[0].Str); cursor == "0" {
			return nil, nil
		}
	}
}

// listing is a queued command whose reply lists keys.
type listing struct {
	name string
	at   int // among the queued commands
}

// queue notes a command that Redis queues.
func (s *state) queue(name string) {
	switch name {
	case "multi", "watch", "exec", "discard", "quit", "reset":
		return // carried out at once
	}
	if listsKeys(name) {
		s.listings = append(s.listings, listing{name, s.queued})
	}
	s.queued++
}

// unlistedExec returns an EXEC's reply without the reserved keys in the lists among its elements.
func (c *client) unlistedExec(frame []byte, t *state) ([]byte, error) {
	count, null, pos, ok := resp.ArrayHeader(frame)
	if !ok || null || int(count) != t.queued {
		return frame, nil
	}
	frame = bytes.Clone(frame) // asking for another key uses the exchange again
	out := append([]byte(nil), frame[:pos]...)
	listings := t.listings
	for at := 0; pos < len(frame); {
		var f resp.Framer
		n, _, err := f.Scan(frame[pos:])
		if err != nil {
			return nil, err
		}
		element := frame[pos : pos+n]
		pos += n
		switch {
		case element[0] == '>' && !t.queuedSubscribe: // sent meanwhile
			out = append(out, element...)
			continue
		case len(listings) > 0 && listings[0].at == at:
			if element, err = c.unlistedElement(listings[0].name, element); err != nil {
				return nil, err
			}
			listings = listings[1:]
		}
		out = append(out, element...)
		at++
	}
	return out, nil
}

func (c *client) unlistedElement(name string, element []byte) ([]byte, error) {
	if name != "randomkey" {
		return unlisted(name, element), nil
	}
	if v, _, err := resp.ParseValue(element); err != nil || !isReserved(v.Str) {
		return element, nil
	}
	return c.randomKey()
}

// listed gives the client the reply of a guarded transaction that was kept, without the reserved keys in its lists.
func (c *client) listed(b body) error {
	elements := make([][]byte, b.count)
	for i := range elements {
		elements[i] = bytes.Clone(c.exchange.Frame(c.exchange.Frames - 1 + i))
	}
	for _, l := range c.state.listings {
		element, err := c.unlistedElement(l.name, elements[l.at])
		if err != nil {
			return err
		}
		elements[l.at] = element
	}
	return c.local(bytes.Join(append([][]byte{resp.AppendArray(nil, b.count)}, elements...), nil))
}
