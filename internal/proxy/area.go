package proxy

import (
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// area is where a key of a database lives that a rule guards, and so its session's record.
func (s *Server) area(r *rule.Rule, db int, key []byte) tokenstore.Area {
	if !s.clustered {
		return tokenstore.Area{DB: db}
	}
	return tokenstore.AreaInCluster(key, r.Spans())
}

// area is where a key of the client's database lives.
func (c *client) area(r *rule.Rule, key []byte) tokenstore.Area {
	return c.srv.area(r, c.state.db, key)
}
