package tokenstore_test

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// migrate gives the records of the database to a provider, and returns what became of them.
func (s *server) migrate(to *tokenstore.Store, m tokenstore.Migration) []tokenstore.Moved {
	s.Helper()
	m.TTL = func(string) time.Duration { return ttl }
	var all []tokenstore.Moved
	if err := to.Migrate(s.Context(), 0, m, func(moved tokenstore.Moved) { all = append(all, moved) }); err != nil {
		s.Fatal(err)
	}
	return all
}

// Grants of the two providers: those of the store itself are by its clock, the others' may be any, also the same again.
func TestNoWriteUnderAFormerProvidersGrantIsAppliedEverAgain(t *testing.T) {
	each(t, func(s *server) {
		own, etcd := s.store, s.another("etcd")
		stale := []uint64{s.grant(claim("a"))}
		again := tokenstore.Migration{Force: true, Again: true}
		for round := range 3 {
			s.migrate(etcd, again)
			s.store = etcd
			for range 2 { // the second time it counts anew
				b := s.register("b", 7, tokenstore.Basis{})
				if !b.Granted || b.Grant <= stale[len(stale)-1] {
					s.Fatalf("round %d: %+v, after grants %d", round, b, stale)
				}
				s.refuseAll(stale)
				stale = append(stale, b.Grant)
				if b := s.register("c", 7, tokenstore.Basis{}); !b.Behind || b.Above != 7 {
					s.Errorf("round %d: %+v", round, b)
				}
				s.migrate(etcd, again)
				s.refuseAll(stale)
			}
			s.migrate(own, again)
			s.store = own
			s.refuseAll(stale)
			g := s.grant(claim("d"))
			s.refuseAll(stale)
			stale = append(stale, g)
		}
		if got := s.value("k"); got != "" {
			s.Errorf("the value is %q", got)
		}
	})
}

// refuseAll fails the test if a write under one of these grants is applied, of whatever proxy.
func (s *server) refuseAll(grants []uint64) {
	s.Helper()
	mine := s.store
	for _, provider := range []string{"redis", "etcd"} {
		s.store = s.another(provider)
		for _, grant := range grants {
			if o := s.wire().commit(holding("a", grant, 100), "SET", "k", "stale"); o.reply != nil {
				s.Errorf("a write under grant %d by a proxy of provider %s was applied", grant, provider)
			}
		}
	}
	s.store = mine
}

func TestTheWatchOfAReadFallsWithAMigration(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		w := s.wire()
		w.stand()
		s.migrate(s.another("etcd"), tokenstore.Migration{Force: true})
		if o := w.fenced(holding("a", grant, 1), "SET", "k", "stale"); o.reply != nil {
			s.Errorf("EXEC answered %q", o.exec)
		}
	})
}

func TestAMigrationLeavesAloneWhatIsHeld(t *testing.T) {
	each(t, func(s *server) {
		etcd := s.another("etcd")
		grant := s.grant(claim("a"))
		all := s.migrate(etcd, tokenstore.Migration{})
		if len(all) != 1 || !all[0].Holder.Held() || all[0].Session != "s1" || all[0].From != "redis" {
			t.Fatalf("%+v", all)
		}
		s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
		before := s.token()
		if all := s.migrate(etcd, tokenstore.Migration{Dry: true}); len(all) != 1 || all[0].Holder.Held() || s.token() != before {
			t.Fatalf("%+v, and the record is %q, was %q", all, s.token(), before)
		}
		if all := s.migrate(etcd, tokenstore.Migration{Rule: "other"}); len(all) != 0 {
			t.Fatalf("%+v", all)
		}
		if all := s.migrate(etcd, tokenstore.Migration{Rule: "chat"}); len(all) != 1 || all[0].Holder.Held() {
			t.Fatalf("%+v", all)
		}
		if all := s.migrate(etcd, tokenstore.Migration{}); len(all) != 0 {
			t.Fatalf("it is done: %+v", all)
		}
	})
}

// What is lost of a record's keys must not let an old grant count again.
func TestARecordThatLosesItsBaseTakesNoGrants(t *testing.T) {
	each(t, func(s *server) {
		s.grant(claim("a"))
		s.store = s.another("etcd")
		s.migrate(s.store, tokenstore.Migration{Force: true})
		if n := s.redis.Del(s.Context(), "fence-proxy:{chat:s1}:b").Val(); n != 1 {
			s.Fatal("it has no base")
		}
		if b := s.register("b", 7, tokenstore.Basis{}); !b.Behind {
			s.Errorf("%+v", b)
		}
		s.migrate(s.store, tokenstore.Migration{Again: true})
		if b := s.register("b", 7, tokenstore.Basis{}); !b.Granted {
			s.Errorf("%+v", b)
		}
	})
}
