package proxy

import (
	"bytes"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The reserved prefix is closed to clients: a command that names a key under it is refused, and
// replies that list keys leave them out.

var reservedPrefix = []byte(tokenstore.Prefix)

func isReserved(key []byte) bool { return bytes.HasPrefix(key, reservedPrefix) }

// listsKeys reports whether a command's reply is a list of keys.
func listsKeys(name string) bool { return name == "scan" || name == "keys" || name == "randomkey" }

// nothing asks for what nobody writes, and gets the null of the client's protocol.
var nothing = resp.AppendCommandStrings(nil, "GET", tokenstore.Prefix)

// randomTries bounds how often RANDOMKEY is asked again for a key that is not reserved.
const randomTries = 64

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
	for range randomTries {
		x, err := c.sync(req.Raw, false)
		if err != nil {
			return err
		}
		frame := x.Frame(0)
		if name != "randomkey" {
			return c.local(unlisted(name, frame))
		}
		if v, _, err := resp.ParseValue(frame); err != nil || !isReserved(v.Str) {
			return c.local(frame)
		}
	}
	_, err := c.sync(nothing, true)
	return err
}
