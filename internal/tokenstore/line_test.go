package tokenstore_test

import (
	"slices"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Whoever looks at a line can take each place out of it, also that for which the session is reserved.
func TestALineTellsWhoStandsInIt(t *testing.T) {
	each(t, func(s *server) {
		line := func(want ...string) []tokenstore.Place {
			s.Helper()
			places, err := s.store.Line(s.Context(), record())
			if err != nil {
				s.Fatal(err)
			}
			var names []string
			for _, p := range places {
				names = append(names, p.Waiter)
				if c := claim(p.Owner); p.Identity != c.Identity {
					s.Errorf("%s is %+v, want %+v", p.Owner, p.Identity, c.Identity)
				}
			}
			if !slices.Equal(names, want) {
				s.Fatalf("in line are %v, want %v", names, want)
			}
			return places
		}
		line()
		p := s.listen("p")
		grant := s.grant(claim("a"))
		line()
		for i, waiter := range []string{"p.1", "p.2b", "p.3"} {
			s.beginAs(claim(string(rune('b'+i))), waiter, 0)
		}
		line("p.1", "p.2b", "p.3")
		s.release(claim("a"), grant, false)
		p.hears("p.1")
		for i, place := range line("p.1", "p.2b", "p.3") {
			if i == 1 {
				continue
			}
			c := tokenstore.NewClaim(place.Owner, place.Identity, lease, ttl)
			if err := s.store.Leave(s.Context(), record(), c, place.Waiter); err != nil {
				s.Fatal(err)
			}
		}
		s.heldBy("c")
		s.granted(s.beginAs(claim("c"), "p.2b", 0))
		line()
	})
}
