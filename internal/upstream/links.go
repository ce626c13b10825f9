package upstream

import (
	"bytes"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/internal/socket"
)

// Links counts connections of one kind.
type Links struct{ up, opened, lost atomic.Int64 }

// Counts returns how many are up, how many were made so far, and how many of these broke or were closed by Redis.
func (l *Links) Counts() (up, opened, lost int64) { return l.up.Load(), l.opened.Load(), l.lost.Load() }

func (l *Links) made() {
	if l != nil {
		l.up.Add(1)
		l.opened.Add(1)
	}
}

func (l *Links) ended(lost bool) {
	if l == nil {
		return
	}
	l.up.Add(-1)
	if lost {
		l.lost.Add(1)
	}
}

// Meter counts what goes on between the proxy and its upstream.
type Meter struct {
	Own, Shared Links
	Bytes       socket.Traffic
	// ReadOnly, if set before the first connection, is called when Redis refuses a write since it is a replica. It must
	// not wait.
	ReadOnly func()

	failed atomic.Int64
}

// refused looks at an error reply, or the start of one.
func (m *Meter) refused(frame []byte) {
	if m != nil && m.ReadOnly != nil && bytes.Contains(frame[:min(len(frame), refusalLooked)], readOnly) {
		m.ReadOnly()
	}
}

// readOnly is what a replica says to a write; to one in a script, before Redis 7, with words in front.
var readOnly = []byte("-READONLY ")

// refusalLooked is how much of an error is looked at, in bytes.
const refusalLooked = 256

// Failed returns how many connections could not be made so far.
func (m *Meter) Failed() int64 { return m.failed.Load() }

// Count has a connection counted, before Serve.
func (c *Conn) Count(by *Meter) {
	c.links, c.meter = &by.Own, by
	c.links.made()
	c.nc.Count(&by.Bytes)
}

// Count has the connection counted, before the first call.
func (s *Shared) Count(by *Meter) { s.meter = by }
