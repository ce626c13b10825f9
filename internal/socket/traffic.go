package socket

import "sync/atomic"

// Traffic counts the bytes of many connections. Each of them counts in one of several places, so that they seldom meet there.
type Traffic struct {
	places [16]place
	next   atomic.Uint32
}

// place is a cache line of its own.
type place struct {
	received, sent atomic.Int64
	_              [48]byte
}

// Bytes returns how many were received and sent so far.
func (t *Traffic) Bytes() (received, sent int64) {
	for i := range t.places {
		received += t.places[i].received.Load()
		sent += t.places[i].sent.Load()
	}
	return received, sent
}

// Count has a connection's bytes counted from now on, before it is used.
func (c *Conn) Count(in *Traffic) {
	c.traffic = &in.places[in.next.Add(1)%uint32(len(in.places))]
}

func (c *Conn) received(n int) {
	if c.traffic != nil && n > 0 {
		c.traffic.received.Add(int64(n))
	}
}

func (c *Conn) sent(n int) {
	if c.traffic != nil && n > 0 {
		c.traffic.sent.Add(int64(n))
	}
}
