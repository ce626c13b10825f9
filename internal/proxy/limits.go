package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

// Limits bound what clients may ask for. A zero is no limit. Their names in messages are those in the
// configuration: limits.connections, limits.output_buffer …
type Limits struct {
	Connections   int           // clients at a time
	Request       size.Size     // bytes of one request, see resp.Limits.MaxRequest; 0 is 1 GiB
	Nesting       int           // depth of a reply of Redis
	Pipeline      int           // commands of a client that wait for Redis before no more are read from it
	OutputBuffer  size.Size     // bytes of replies kept for one client
	OutputTimeout time.Duration // how long a client may take none of the replies that wait for it
	Waiters       int           // clients that wait for one session
}

// keepLen is the length from which on a buffer is not used again.
const keepLen = 64 << 10

// usualBulk is Redis's default for proto-max-bulk-len, for when it may not be asked.
const usualBulk = 512 << 20

// bulkTimeout bounds asking for proto-max-bulk-len.
const bulkTimeout = 2 * time.Second

// maxBulk asks the upstream how long an argument may be.
func (s *Server) maxBulk(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	most := int64(usualBulk)
	config, err := s.store.Client(0).ConfigGet(ctx, "proto-max-bulk-len").Result()
	if err != nil {
		s.log.Debug("proto-max-bulk-len not learned, its default counts", "error", err)
	} else if n, err := strconv.ParseInt(config["proto-max-bulk-len"], 10, 64); err == nil {
		most = n
	}
	s.bulk.Store(most)
	return most
}

// requests are the limits of a client's requests.
func (s *Server) requests() resp.Limits {
	return resp.Limits{
		MaxBulk: s.bulk.Load(), MoreBulk: func() int64 { return s.maxBulk(context.Background()) },
		MaxRequest: int64(s.limits.Load().Request),
	}
}

// requestsOfStrangers are the limits of one who has not logged in.
func (s *Server) requestsOfStrangers() resp.Limits {
	return resp.Limits{Unauthenticated: true, MaxBulk: s.bulk.Load(), MaxRequest: int64(s.limits.Load().Request)}
}

// unread counts a request that can't be read, and says which setting may be raised.
func (c *client) unread(err error) error {
	var protocol *resp.ProtocolError
	if !errors.As(err, &protocol) {
		return err
	}
	if protocol.Limit == "" {
		c.srv.metrics.RequestRefused("protocol")
	} else {
		c.srv.metrics.RequestRefused(string(protocol.Limit))
	}
	if protocol.Limit == resp.LimitRequest {
		return &requestError{err: protocol, limit: c.srv.limits.Load().Request, proxy: c.srv.name}
	}
	return err
}

// full reports whether no more clients may come.
func (s *Server) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limits.Load().Connections > 0 && len(s.clients) >= s.limits.Load().Connections
}

// turnAway tells a client that there are too many, as Redis does, and closes its connection. A new
// connection has room for the message.
func (s *Server) turnAway(nc net.Conn) {
	s.metrics.ConnectionRefused()
	if !s.crowded {
		s.crowded = true
		s.log.Warn("clients are turned away: raise limits.connections", "connections", s.limits.Load().Connections)
	}
	_ = nc.SetDeadline(time.Now().Add(lastReplies)) // also of a handshake
	_, _ = nc.Write(resp.AppendError(nil, fmt.Sprintf("ERR max number of clients reached (limits.connections of fence-proxy %s is %d)",
		s.name, s.limits.Load().Connections)))
	_ = nc.Close()
}
