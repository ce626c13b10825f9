package tokenstore_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// elsewhere runs a test on every store, for a proxy whose lock provider is another.
func elsewhere(t *testing.T, test func(*server)) {
	t.Helper()
	each(t, func(s *server) {
		s.store = s.another("etcd")
		test(s)
	})
}

// register registers a grant that an owner was given.
func (s *server) register(owner string, grant uint64, expected tokenstore.Basis) tokenstore.Begin {
	s.Helper()
	b, err := s.store.Register(s.Context(), record(), claim(owner), grant, expected)
	if err != nil {
		s.Fatalf("register %d for %s: %v", grant, owner, err)
	}
	return b
}

// look is a read's that takes no hold.
func (s *server) look() tokenstore.Basis {
	s.Helper()
	t, err := s.store.Look(s.Context(), record(), claim("a"))
	if err != nil || t.Stamp() == (tokenstore.Stamp{}) {
		s.Fatalf("a look sees %+v, %v", t, err)
	}
	return tokenstore.Basis{Stored: t.Stamp()}
}

func TestAGrantFromElsewhereCountsOnceItIsRegistered(t *testing.T) {
	elsewhere(t, func(s *server) {
		if b := s.register("a", 7, tokenstore.Basis{}); !b.Granted || b.Grant != 7 || b.Continuous || !b.Missing {
			s.Fatalf("%+v", b)
		}
		s.heldBy("a")
		s.wire().commit(holding("a", 7, 1), "SET", "k", "v").applied()
		s.heldBy("")
		if b := s.register("b", 9, tokenstore.Basis{Grant: 7}); !b.Granted || !b.Continuous || b.Missing {
			s.Errorf("nobody came in between: %+v", b)
		}
		s.wire().commit(holding("a", 7, 2), "SET", "k", "stale").refused(tokenstore.Superseded)
	})
}

func TestAGrantFromElsewhereThatIsNotNewerIsBehind(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		for _, grant := range []uint64{3, 7} {
			if b := s.register("b", grant, tokenstore.Basis{}); b.Granted || !b.Behind || b.Newest != 7 || b.Above != 7 {
				s.Errorf("grant %d: %+v", grant, b)
			}
		}
		s.heldBy("a")
		if b := s.register("a", 7, tokenstore.Basis{}); !b.Granted || b.Grant != 7 {
			s.Errorf("said twice: %+v", b)
		}
		s.lapse()
		if b := s.register("a", 7, tokenstore.Basis{}); b.Granted || !b.Behind {
			s.Errorf("after its end: %+v", b)
		}
	})
}

func TestWhoHasReadUnderAGrantFromElsewhereTakesItUpAgain(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.wire().commit(holding("a", 7, 1), "SET", "k", "v").applied()
		s.heldBy("")
		if b := s.register("b", 7, tokenstore.Basis{}); b.Granted || !b.Behind {
			s.Errorf("who has not: %+v", b)
		}
		if b := s.register("a", 7, tokenstore.Basis{Grant: 7}); !b.Granted || b.Grant != 7 || b.Seq != 1 || !b.Continuous {
			s.Errorf("%+v", b)
		}
		s.heldBy("a")
		s.wire().commit(holding("a", 7, 1), "SET", "k", "twice").refused(tokenstore.Stored)
		s.wire().commit(holding("a", 7, 2), "SET", "k", "w").applied()
		s.register("b", 8, tokenstore.Basis{})
		if b := s.register("a", 7, tokenstore.Basis{Grant: 7}); b.Granted || !b.Behind {
			s.Errorf("after another: %+v", b)
		}
	})
}

func TestATokenUnderAGrantFromElsewhereIsStoredOnce(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		first := holding("a", 7, 1)
		first.Keep = true
		s.wire().commit(first, "SET", "k", "v").applied()
		s.wire().commit(first, "SET", "k", "again").refused(tokenstore.Stored)
		s.wire().commit(holding("a", 7, 2), "SET", "k", "next").applied()
	})
}

// Two providers may give the same number.
func TestAGrantOfAnotherProvidersIsNoneThoughTheRecordHasItsNumber(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.redis.FlushAll(s.Context())
		if b, err := s.another("consul").Register(s.Context(), record(), claim("b"), 7, tokenstore.Basis{}); err != nil || !b.Granted {
			s.Fatalf("%+v, %v", b, err)
		}
		s.wire().commit(holding("a", 7, 1), "SET", "k", "stale").refused(tokenstore.Foreign)
		if got := s.value("k"); got != "" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestAWriteWithoutAGrantNeverReachesAStoreThatDoesNotGrant(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.wire().commit(blind("a"), "SET", "k", "v").refused(tokenstore.Ungranted)
		seen := s.look()
		a := blind("a")
		a.Read = seen.Stored
		s.wire().commit(a, "SET", "k", "v").refused(tokenstore.Ungranted)
		s.register("b", 7, tokenstore.Basis{})
		s.wire().commit(blind("a"), "SET", "k", "v").refused(tokenstore.Ungranted)
		if _, err := s.store.Begin(s.Context(), record(), claim("a"), "", tokenstore.Basis{}); err == nil {
			s.Error("the store granted by itself")
		}
		if got := s.value("k"); got != "" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestALostRecordRefusesAGrantFromElsewhereAndTakesTheNext(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.redis.FlushAll(s.Context())
		s.wire().commit(holding("a", 7, 1), "SET", "k", "stale").refused(tokenstore.Missing)
		if b := s.register("b", 8, tokenstore.Basis{Grant: 7}); !b.Granted || b.Continuous {
			s.Errorf("%+v", b)
		}
		s.wire().commit(holding("a", 7, 1), "SET", "k", "stale").refused(tokenstore.Superseded)
		s.wire().commit(holding("b", 8, 1), "SET", "k", "v").applied()
	})
}

func TestNoTwoRecordsHaveAStampInCommonWhereGrantsComeFromElsewhere(t *testing.T) {
	elsewhere(t, func(s *server) {
		stamps := map[tokenstore.Stamp]bool{}
		note := func(b tokenstore.Basis) {
			if stamps[b.Stored] {
				s.Errorf("%+v was seen before", b)
			}
			stamps[b.Stored] = true
		}
		for grant := uint64(1); grant < 4; grant++ {
			seen := s.look() // makes the record
			note(seen)
			if b := s.register("a", grant, seen); !b.Continuous {
				s.Errorf("a registration changes what was seen: %+v", b)
			}
			if again := s.look(); again != seen {
				s.Errorf("seen %+v, then %+v", seen, again)
			}
			s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
			note(s.look())
			if b := s.register("b", grant+10, seen); b.Continuous {
				s.Errorf("what was seen before a write is current: %+v", b)
			}
			s.redis.FlushAll(s.Context())
			if b := s.register("b", grant+20, seen); b.Continuous {
				s.Errorf("what was seen in a record that is lost is current: %+v", b)
			}
			note(s.look()) // of a record that a registration has made
			s.redis.FlushAll(s.Context())
		}
	})
}

func TestAUsedUpGrantFromElsewhereRefusesItsWrite(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.release(claim("a"), 7, true)
		s.wire().commit(holding("a", 7, 1), "SET", "k", "stale").refused(tokenstore.Superseded)
		if got := s.newest(); got != 8 {
			s.Errorf("the newest grant is %d", got)
		}
		s.heldBy("")
		if b := s.register("b", 8, tokenstore.Basis{}); !b.Granted { // the next in line's may be the very next
			s.Errorf("%+v", b)
		}
		if b := s.register("c", 8, tokenstore.Basis{}); !b.Behind { // and is its alone
			s.Errorf("%+v", b)
		}
		s.wire().commit(holding("b", 8, 1), "SET", "k", "v").applied()
		s.wire().commit(holding("a", 7, 2), "SET", "k", "stale").refused(tokenstore.Superseded)
	})
}

func TestANumberThatNobodyIsKnownToHaveIsNotGrantedWhenThatIsForgotten(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.release(claim("a"), 7, true)
		s.lapse()
		if b := s.register("b", 8, tokenstore.Basis{}); !b.Behind {
			s.Errorf("%+v", b)
		}
		if b := s.register("b", 9, tokenstore.Basis{}); !b.Granted {
			s.Errorf("%+v", b)
		}
	})
}

func TestWaitersThatAnotherProviderLeftAreHandedNothing(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.listen("p")
		s.redis.ZAdd(s.Context(), record().Keys()[2], redis.Z{Score: 1, Member: "p.1\nowner\nhere\naddress\nname"})
		s.register("a", 7, tokenstore.Basis{})
		s.release(claim("a"), 7, false)
		s.heldBy("")
		if got := s.newest(); got != 7 {
			s.Errorf("the newest grant is %d", got)
		}
	})
}

func TestAWriteThatPassedMakesStaleWhatOthersHaveRead(t *testing.T) {
	elsewhere(t, func(s *server) {
		passed := func() {
			p := blind("x")
			p.Passed = true
			s.wire().commit(p, "SET", "k", "passed").applied()
		}
		passed() // there is no record to tell it to
		seen := s.look()
		s.register("a", 7, seen)
		passed()
		s.heldBy("")
		s.wire().commit(holding("a", 7, 1), "SET", "k", "stale").refused(tokenstore.Superseded)
		for range 5 {
			passed()
		}
		if b := s.register("b", 9, seen); !b.Granted || b.Continuous {
			s.Errorf("the provider's next grant: %+v", b)
		}
		seen = s.look()
		passed()
		if b := s.register("c", 11, seen); !b.Granted || b.Continuous {
			s.Errorf("what was seen before: %+v", b)
		}
	})
}

func TestPassedAndGrantedWritesAreAppliedTogetherOrNotAtAll(t *testing.T) {
	elsewhere(t, func(s *server) {
		other := tokenstore.NewRecord(tokenstore.Area{}, "chat", "s2")
		p := blind("a").of(other)
		p.Passed = true
		s.register("a", 7, tokenstore.Basis{})
		w := s.wire()
		if o := w.block(false, []string{"MSET", "k", "v", "l", "v"}, holding("a", 7, 1), p); o.reply != "OK" {
			s.Errorf("EXEC %q", o.exec)
		}
		s.register("b", 8, tokenstore.Basis{})
		if o := w.block(false, []string{"MSET", "k", "w", "l", "w"}, holding("a", 7, 2), p); o.reply != nil || s.value("l") != "v" {
			s.Errorf("EXEC %q", o.exec)
		}
	})
}

// A failover may take a registration back. The number that was given then is no longer above what is used up behind it.
func TestANumberThatIsUsedUpRefusesWhoWasGivenItBeforeAFailover(t *testing.T) {
	elsewhere(t, func(s *server) {
		s.register("a", 7, tokenstore.Basis{})
		s.release(claim("a"), 7, true)
		s.wire().commit(holding("b", 8, 1), "SET", "k", "stale").refused(tokenstore.Superseded)
		for _, resume := range []bool{false, true} {
			if _, err := s.store.Renew(s.Context(), record(), claim("b"), 8, resume); !errors.Is(err, tokenstore.ErrLost) {
				s.Errorf("renewed, resume %t: %v, want it lost", resume, err)
			}
		}
		a, err := s.store.Aftermath(s.Context(), tokenstore.Question{Parts: []tokenstore.Commit{holding("b", 8, 1).Commit}})
		if err != nil || a.Fate != tokenstore.Untold {
			s.Errorf("what became of its commit is told: %d, %v", a.Fate, err)
		}
		if b := s.register("c", 8, tokenstore.Basis{}); !b.Granted { // a new registration is another matter
			s.Errorf("%+v", b)
		}
		s.wire().commit(holding("c", 8, 1), "SET", "k", "v").applied()
	})
}
