package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

const (
	// handshakeTime bounds a client's TLS handshake.
	handshakeTime = 10 * time.Second
	// wrongEvery is the time between two lines in the log about one client's wrong side.
	wrongEvery = time.Minute
	// wrongMost bounds the addresses that are remembered for that.
	wrongMost = 1000
	// tlsHandshake begins each TLS connection.
	tlsHandshake = 0x16
)

// errTLS says that a client speaks TLS where none is spoken.
var errTLS = errors.New("it speaks TLS where none is spoken")

// tlsAlert tells a client that speaks TLS that there is none: a fatal alert, handshake_failure.
var tlsAlert = []byte{0x15, 3, 1, 0, 2, 2, 40}

// wrongs remembers which hosts have lately come to the wrong side.
type wrongs struct {
	mu sync.Mutex
	at map[string]time.Time
}

// tell reports whether a host's mistake is to be logged.
func (w *wrongs) tell(addr net.Addr, now time.Time) bool {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		host = addr.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.at[host]; known && now.Sub(at) < wrongEvery {
		return false
	}
	if w.at == nil || len(w.at) >= wrongMost {
		w.at = map[string]time.Time{}
	}
	w.at[host] = now
	return true
}

// handshake is the start of a client's connection under TLS; of another there is none.
func (s *Server) handshake(nc net.Conn) error {
	covered, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	err := covered.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil {
		_ = nc.SetWriteDeadline(time.Now().Add(lastReplies))
		_, _ = header.Conn.Write(resp.AppendError(nil, fmt.Sprintf("ERR fence-proxy %s speaks TLS here: connect with rediss://", s.name)))
		err = fmt.Errorf("it does not speak TLS: have it connect with rediss://, or to listen: %w", err)
	}
	if s.wrongs.tell(nc.RemoteAddr(), time.Now()) {
		s.log.Warn("TLS client turned away", "client", nc.RemoteAddr().String(), "error", err)
	}
	return err
}

// speaksTLS reports whether the first that a client has sent is TLS, and tells it so.
func (c *client) speaksTLS() bool {
	if c.in.taken > 0 || len(c.in.bytes()) == 0 || c.in.bytes()[0] != tlsHandshake {
		return false
	}
	if _, covered := c.nc.Conn.(*tls.Conn); covered {
		return false
	}
	_, _ = c.nc.Write(tlsAlert)
	if c.srv.wrongs.tell(c.nc.RemoteAddr(), time.Now()) {
		c.srv.log.Warn("client turned away: it speaks TLS, and this port does not: have it connect with redis://, or to tls.listen", "client", c.address())
	}
	return true
}
