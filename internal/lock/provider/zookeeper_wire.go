package provider

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// zookeeperServers goes round the servers. Unlike go-zookeeper's own, it leaves names to the dialer, which looks them up every time, and
// tries all servers before it has the client pause.
type zookeeperServers struct {
	servers []string
	next    int
	tried   int // since a connection stood
}

func (p *zookeeperServers) Init(servers []string) error {
	p.servers = servers
	return nil
}

func (p *zookeeperServers) Len() int { return len(p.servers) }

func (p *zookeeperServers) Next() (server string, retryStart bool) {
	server = p.servers[p.next%len(p.servers)]
	retryStart = p.tried > 0 && p.tried%len(p.servers) == 0
	p.next++
	p.tried++
	return server, retryStart
}

func (p *zookeeperServers) Connected() { p.tried = 0 }

// zookeeperDialer connects.
type zookeeperDialer struct {
	tls       *tls.Config   // nil for plain connections
	handshake time.Duration // limit for everything until a server has answered
}

func newZooKeeperDialer(s *ZooKeeperSettings) (*zookeeperDialer, error) {
	// A server that accepts and never answers must not take up the time in which another could.
	d := &zookeeperDialer{handshake: min(max(s.SessionTimeout/4, 100*time.Millisecond), 2*time.Second)}
	if !s.TLS {
		return d, nil
	}
	d.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	return d, useFiles(d.tls, s.TLSCA, s.TLSCert, s.TLSKey)
}

func (d *zookeeperDialer) dial(ctx context.Context, address string) (*zookeeperWire, error) {
	dialed := time.Now()
	ctx, cancel := context.WithDeadline(ctx, dialed.Add(d.handshake))
	defer cancel()
	plain := &net.Dialer{}
	conn, err := plain.DialContext(ctx, "tcp", address)
	if err == nil && d.tls != nil {
		secure := tls.Client(conn, d.tlsFor(address))
		if err = secure.HandshakeContext(ctx); err != nil {
			err = errors.Join(err, conn.Close())
		}
		conn = secure
	}
	if err == nil {
		err = conn.SetReadDeadline(dialed.Add(d.handshake))
	}
	if err != nil {
		return nil, err
	}
	return &zookeeperWire{Conn: conn, dialed: dialed}, nil
}

func (d *zookeeperDialer) tlsFor(address string) *tls.Config {
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address)
	return config
}

// zookeeperWire is a connection. It does what go-zookeeper does not: it reads from the server's greeting what session timeout was
// agreed on, it limits the time until that greeting, for which go-zookeeper would wait for many session timeouts, and
// it marks its own errors among those that servers answer.
type zookeeperWire struct {
	net.Conn
	dialed   time.Time
	greeting []byte // its beginning: length, protocol version, timeout in ms; four bytes each
}

const zookeeperGreeting = 12

var errZooKeeperWire = errors.New("the connection broke")

func (w *zookeeperWire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errZooKeeperWire, err)
	}
	return n, err
}

func (w *zookeeperWire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if missing := zookeeperGreeting - len(w.greeting); missing > 0 {
		w.greeting = append(w.greeting, p[:min(n, missing)]...)
	}
	return n, err
}

// timeout is what was agreed on. It may be called once the greeting was read.
func (w *zookeeperWire) timeout() time.Duration {
	return time.Duration(int32(binary.BigEndian.Uint32(w.greeting[8:zookeeperGreeting]))) * time.Millisecond
}

func (w *zookeeperWire) SetReadDeadline(t time.Time) error {
	if len(w.greeting) < zookeeperGreeting {
		return nil // dial has set it
	}
	return w.Conn.SetReadDeadline(t)
}
