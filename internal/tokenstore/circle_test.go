package tokenstore_test

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// waitsFor has c, who holds another session, stand in line for one and say so.
func (s *server) waitsFor(r *tokenstore.Record, c *tokenstore.Claim) {
	s.Helper()
	b, err := s.store.Begin(s.Context(), r, c, "p."+c.Owner, tokenstore.Basis{})
	if err != nil || b.Granted {
		s.Fatalf("%s waits: %+v, %v", c.Owner, b, err)
	}
	if err := s.store.Waits(s.Context(), r, c, "p."+c.Owner, time.Hour); err != nil {
		s.Fatal(err)
	}
}

// victim reports whether c is the victim of a circle that it finds itself in.
func (s *server) victim(r *tokenstore.Record, c *tokenstore.Claim) bool {
	s.Helper()
	_, victim, err := s.store.InCircle(s.Context(), r, c.Owner)
	if err != nil {
		s.Fatal(err)
	}
	return victim
}

func TestOfEachCircleOneOwnerIsTheVictim(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		a, b := claim("a"), claim("b")
		x, y := record(), tokenstore.NewRecord(tokenstore.Area{}, "chat", "s2")
		begun := func(r *tokenstore.Record, c *tokenstore.Claim) uint64 {
			began, err := s.store.Begin(s.Context(), r, c, "", tokenstore.Basis{})
			if err != nil {
				s.Fatal(err)
			}
			return s.granted(began)
		}
		begun(x, a)
		held := begun(y, b)
		s.waitsFor(y, a)
		if s.victim(y, a) {
			s.Fatal("b only holds")
		}
		s.waitsFor(x, b)
		if !s.victim(x, b) {
			s.Fatal("nobody gives way")
		}
		if s.victim(y, a) || s.victim(x, b) {
			s.Error("a second victim")
		}
		keys := s.redis.Keys(s.Context(), "fence-proxy:circle:*").Val()
		if len(keys) != 1 || s.redis.PTTL(s.Context(), keys[0]).Val() < time.Second {
			s.Errorf("%v: there may be a second victim before the first has given way", keys)
		}

		// b gives way, and at once there is another circle of the two.
		if err := s.store.Leave(s.Context(), x, b, "p.b"); err != nil {
			s.Fatal(err)
		}
		if s.victim(y, a) {
			s.Error("b has left the line")
		}
		if err := s.store.Leave(s.Context(), y, a, "p.a"); err != nil {
			s.Fatal(err)
		}
		if err := s.store.Release(s.Context(), y, b, held, false); err != nil {
			s.Fatal(err)
		}
		begun(y, b)
		s.waitsFor(y, a)
		s.waitsFor(x, b)
		if !s.victim(y, a) {
			s.Error("nobody gives way in the next circle")
		}
	})
}
