package proxy

import (
	"bytes"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Redis does not know the proxy's own commands, so it is asked for others of the same meaning: as the client's user, over
// the client's connection, to queue them in a transaction that is given up. It looks at the rights before it
// queues a command. Each would do no harm if it were carried out.

// noSet is a write that Redis never carries out: NX and XX together are no syntax.
var noSet = [][]byte{[]byte("NX"), []byte("XX")}

// mayTouch returns what Redis says to a user that may neither read nor write a key, nil to one that may. Further commands of
// the proxy's own may go along; their replies follow in c.exchange from index further on.
func (c *client) mayTouch(key []byte, along []byte, n int) (refusal []byte, further int, err error) {
	request := resp.AppendCommand(append(c.send[:0], multi...), []byte("GET"), key)
	request = resp.AppendCommand(request, append([][]byte{[]byte("SET"), key, nil}, noSet...)...)
	request = append(append(request, discard...), along...)
	c.send = request
	if err := c.queueInVain(request, 4+n); err != nil {
		return nil, 0, err
	}
	if read := c.exchange.Frame(1); forbids(read) && forbids(c.exchange.Frame(2)) {
		return bytes.Clone(read), 4, nil
	}
	return nil, 4, nil
}

// adminProbes are commands of the admin category that change nothing.
var adminProbes = [][][]byte{
	{[]byte("CONFIG"), []byte("GET"), []byte("maxmemory")},
	{[]byte("ACL"), []byte("LIST")},
	{[]byte("SLOWLOG"), []byte("LEN")},
}

// isAdmin returns what Redis says to a user that lacks one of the admin commands, nil to one that has them. A server may not
// have them all.
func (c *client) isAdmin() (refusal []byte, err error) {
	begin, end := c.inVain()
	c.send = append(c.send[:0], begin...)
	for _, probe := range adminProbes {
		c.send = resp.AppendCommand(c.send, probe...)
	}
	c.send = append(c.send, end...)
	if err := c.queueInVain(c.send, len(adminProbes)+2); err != nil {
		return nil, err
	}
	known := false
	for i := range adminProbes {
		switch f := c.exchange.Frame(1 + i); {
		case !isError(f):
			known = true
		case !bytes.HasPrefix(f, []byte("-ERR unknown command")):
			return bytes.Clone(f), nil
		default:
			refusal = f
		}
	}
	if known {
		return nil, nil
	}
	return bytes.Clone(refusal), nil
}

// mayScan returns what Redis says to a user that may not look through the keys.
func (c *client) mayScan() (refusal []byte, err error) {
	begin, end := c.inVain()
	request := append(resp.AppendCommandStrings(append(c.send[:0], begin...), "SCAN", "0", "COUNT", "1"), end...)
	c.send = request
	if err := c.queueInVain(request, 3); err != nil {
		return nil, err
	}
	if f := c.exchange.Frame(1); isError(f) {
		return bytes.Clone(f), nil
	}
	return nil, nil
}

// inVain is what commands are queued between that are not to be carried out. In front of a cluster those that are for all nodes
// can't be queued, and are carried out.
func (c *client) inVain() (begin, end string) {
	if c.srv.clustered {
		return ping, ping
	}
	return multi, discard
}

// queueInVain sends a transaction that is given up, where it disturbs no WATCH of the client's.
func (c *client) queueInVain(request []byte, frames int) error {
	up, err := c.writesOn(body{})
	if err != nil {
		return err
	}
	c.unwatched(up)
	c.exchange.Reset(frames, -1, false, nil)
	return c.roundTripOn(up, c.exchange, request)
}

// forbids reports whether a reply says that the user lacks the right.
func forbids(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte("-NOPERM ")) || bytes.HasPrefix(frame, []byte("-NOAUTH "))
}
