package proxy

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// An idle client whose upstream connection ends is carried over: at its next command it gets a new
// one, in the same database and protocol and under the same name. Nothing that was sent is sent
// again. What can't be said again, closes the client; and so does CLIENT KILL, as far as the proxy sees it.

// killTakes is how long after a CLIENT KILL a connection that ends counts as killed.
const killTakes = time.Second

// kills remembers the last CLIENT KILL of all clients, in nanoseconds.
type kills struct{ last atomic.Int64 }

func (k *kills) seen()        { k.last.Store(time.Now().UnixNano()) }
func (k *kills) lately() bool { return time.Since(time.Unix(0, k.last.Load())) < killTakes }

// canBeCarried reports whether the client is idle, and a new connection can be like the old one.
func (c *client) canBeCarried() bool {
	s := &c.state
	return !c.leaving.Load() && !c.up.Owes() && !c.up.Outstanding() && !c.hears() &&
		!s.alone && s.login == nil && !s.multi && !s.watching && !s.known && !c.srv.kills.lately()
}

// drop lets go of an upstream connection that has ended.
func (c *client) drop() {
	_ = c.up.Close()
	<-c.received
	c.up = nil
	c.carried, c.identified = true, false
	c.elsewhere.some = true
	c.watched.gone()
	c.adrift.Store(false)
}

// introduce tells a new upstream connection who the client is.
func (c *client) introduce() {
	if c.state.name != "" {
		c.up.Drop(resp.AppendCommandStrings(nil, "CLIENT", "SETNAME", c.state.name), 1)
	}
	for _, info := range c.state.info {
		c.up.Drop(info, 1)
	}
}

// introduced notes the library that a client says it is, whether or not Redis is new enough to listen.
func (c *client) introduced(args [][]byte) {
	if len(args) == 4 && isWord(args[0], "CLIENT") && isWord(args[1], "SETINFO") && isWord(args[2], "LIB-NAME") {
		c.state.library, c.regroup = string(args[3]), true
	}
}

// inform passes CLIENT SETINFO, and keeps what it says.
func (c *client) inform(req resp.Request) error {
	x, err := c.sync(req.Raw, true)
	if err != nil || x.StreamType != '+' || c.state.multi {
		return err
	}
	about := bytes.ToLower(req.Args[2]) // LIB-NAME or LIB-VER
	c.state.info = slices.DeleteFunc(c.state.info, func(info []byte) bool { return bytes.Contains(bytes.ToLower(info), about) })
	c.state.info = append(c.state.info, slices.Clone(req.Raw))
	return nil
}
