package sentinel

import (
	"crypto/tls"
	"net"
)

// member is an open connection to a node. It leaves when its owner closes it.
type member struct {
	of   *Dialer
	nc   net.Conn
	addr string
}

func (m *member) left() {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	delete(m.of.open, m)
}

// sever closes the connection without a word to the other side, for which it might have to wait.
func (m *member) sever() {
	nc := m.nc
	if covered, ok := nc.(*tls.Conn); ok {
		nc = covered.NetConn()
	}
	_ = nc.Close()
}

// conn is the connection as its owner has it: of the same kind, since sockets are read and written in ways of their own.
func (m *member) conn() net.Conn {
	switch nc := m.nc.(type) {
	case *net.TCPConn:
		return &plain{nc, m}
	case *tls.Conn:
		return &covered{nc, m}
	}
	return &other{m.nc, m}
}

type plain struct {
	*net.TCPConn
	member *member
}

// Close implements net.Conn.
func (c *plain) Close() error { c.member.left(); return c.TCPConn.Close() }

type covered struct {
	*tls.Conn
	member *member
}

// Close implements net.Conn.
func (c *covered) Close() error { c.member.left(); return c.Conn.Close() }

type other struct {
	net.Conn
	member *member
}

// Close implements net.Conn.
func (c *other) Close() error { c.member.left(); return c.Conn.Close() }
