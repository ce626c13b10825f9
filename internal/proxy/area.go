package proxy

import "github.com/fence-proxy/fence-proxy/internal/tokenstore"

// area is where a key of a database lives, and so its session's record.
func (s *Server) area(db int, key []byte) tokenstore.Area {
	at := tokenstore.Area{DB: db}
	if s.clustered {
		at.Slot = tokenstore.SlotOf(key)
	}
	return at
}

// area is where a key of the client's database lives.
func (c *client) area(key []byte) tokenstore.Area { return c.srv.area(c.state.db, key) }
