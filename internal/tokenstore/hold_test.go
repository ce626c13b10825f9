package tokenstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// holder is who holds the session.
func (s *server) holder() tokenstore.Holder {
	s.Helper()
	b := s.begin(claim("who asks"))
	if b.Granted {
		s.Fatal("nobody holds the session")
	}
	return b.Holder
}

func (s *server) renewed(c *tokenstore.Claim, grant uint64, resume bool) {
	s.Helper()
	if _, err := s.store.Renew(s.Context(), record(), c, grant, resume); err != nil {
		s.Fatalf("renew for %s: %v", c.Owner, err)
	}
}

func (s *server) leave(c *tokenstore.Claim, waiter string) {
	s.Helper()
	if err := s.store.Leave(s.Context(), record(), c, waiter); err != nil {
		s.Fatalf("leave for %s: %v", c.Owner, err)
	}
}

func TestARenewalExtendsTheLease(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.redis.PExpire(s.Context(), record().Keys()[1], time.Second)
		token := s.token()
		s.renewed(claim("a"), grant, false)
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= time.Second || left > lease {
			s.Errorf("%v are left of the lease", left)
		}
		if got := s.token(); got != token {
			s.Errorf("the record says %q, was %q", got, token)
		}
		s.heldBy("a")
	})
}

func TestALapsedHoldIsTakenUpAgainOnRequest(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.lapse()
		if _, err := s.store.Renew(s.Context(), record(), claim("a"), grant, false); !errors.Is(err, tokenstore.ErrLapsed) {
			s.Fatalf("%v, want it lapsed", err)
		}
		s.heldBy("")
		s.renewed(claim("a"), grant, true)
		s.heldBy("a")
		if got := s.newest(); got != grant {
			s.Errorf("the hold goes on under grant %d, was %d", got, grant)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= 0 || left > lease {
			s.Errorf("%v are left of the lease", left)
		}
	})
}

func TestALostHoldIsNotRenewed(t *testing.T) {
	for name, tc := range map[string]struct {
		lose   func(*server, uint64)
		holder string
		gone   bool
	}{
		"to a holder": {
			lose:   func(s *server, _ uint64) { s.lapse(); s.grant(claim("b")) },
			holder: "b",
		},
		"to one that has left": {
			lose: func(s *server, _ uint64) { s.lapse(); s.release(claim("b"), s.grant(claim("b")), false) },
		},
		"to a revocation": {
			lose: func(s *server, grant uint64) { s.release(claim("a"), grant, true) },
		},
		"with its record": {
			lose: func(s *server, _ uint64) { s.redis.FlushAll(s.Context()) },
			gone: true,
		},
		"with its token": {
			lose: func(s *server, _ uint64) { s.redis.Del(s.Context(), record().Keys()[0]) },
			gone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				grant := s.grant(claim("a"))
				tc.lose(s, grant)
				before := s.token()
				for _, resume := range []bool{false, true} {
					h, err := s.store.Renew(s.Context(), record(), claim("a"), grant, resume)
					if !errors.Is(err, tokenstore.ErrLost) {
						s.Fatalf("%v, want it lost", err)
					}
					if h.Owner != tc.holder || (h.Grant == 0) != tc.gone || !tc.gone && h.Grant != s.newest() {
						s.Errorf("lost to %+v", h)
					}
				}
				if got := s.token(); got != before {
					s.Errorf("the record says %q, was %q", got, before)
				}
			})
		})
	}
}

func TestAReleaseOfAnothersHoldDoesNothing(t *testing.T) {
	each(t, func(s *server) {
		old := s.grant(claim("a"))
		s.lapse()
		grant := s.grant(claim("b"))
		token := s.token()
		s.release(claim("a"), old, false) // no longer the newest
		s.release(claim("a"), old, true)
		s.release(claim("a"), grant, false) // another's
		s.release(claim("a"), grant, true)
		s.release(claim("b"), grant+1, true)
		s.heldBy("b")
		if got := s.token(); got != token {
			s.Errorf("the record says %q, was %q", got, token)
		}
	})
}

func TestAReleasedGrantMayStillWriteAndARevokedOneMayNot(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		grant := s.grant(claim("a"))
		w.commit(holding("a", grant, 1).keep(), "SET", "k", "v").applied()
		s.release(claim("a"), grant, false)
		s.heldBy("")
		w.commit(holding("a", grant, 2), "SET", "k", "v").applied()

		grant = s.grant(claim("a"))
		s.release(claim("a"), grant, true)
		s.heldBy("")
		w.commit(holding("a", grant, 1), "SET", "k", "v").refused(tokenstore.Superseded)
	})
}

func TestAReleaseOfALapsedHoldStillHandsTheSessionOn(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.lapse()
		s.release(claim("a"), grant, false)
		p.hears("p.1")
		s.heldBy("b")
	})
}

func TestARevocationKeepsTheTokenThatIsStored(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.wire().commit(holding("a", grant, 1).keep(), "SET", "k", "v").applied()
		s.release(claim("a"), grant, true)
		if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", s.newest(), grant); got != want {
			s.Errorf("the record says %q, want %q", got, want)
		}
	})
}

func TestAWaiterThatGivesUpLeavesTheLine(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.leave(claim("b"), "p.1")
		s.leave(claim("b"), "p.1") // twice is once
		s.leave(claim("x"), "p.9") // and a stranger never stood there
		if got := s.queued(); !slices.Equal(got, []string{"p.2"}) {
			s.Errorf("the line is %v", got)
		}
		s.heldBy("a")
		s.release(claim("a"), grant, false)
		p.hears("p.2")
	})
}

func TestAWaiterThatGivesUpHandsOnWhatWasReservedForIt(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.release(claim("a"), grant, false)
		first := p.hears("p.1")
		s.leave(claim("b"), "p.1")
		if second := p.hears("p.2"); second <= first {
			s.Errorf("grant %d after %d", second, first)
		}
		s.heldBy("c")
		s.leave(claim("c"), "p.2")
		s.heldBy("")
	})
}

func TestAWaiterThatGivesUpDoesNotEndAHoldThatWasTakenUp(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.release(claim("a"), grant, false)
		p.hears("p.1")
		s.granted(s.beginAs(claim("b"), "p.1", 0))
		s.leave(claim("b"), "p.1")
		s.heldBy("b")
	})
}

func TestASettlementCanBeRepeatedOutsideItsCommit(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		settle := func(keep bool, seq uint64) {
			s.Helper()
			err := s.store.Settle(s.Context(), &tokenstore.Commit{Record: record(), Claim: claim("a"), Grant: grant, Seq: seq, Keep: keep})
			if err != nil {
				s.Fatal(err)
			}
		}
		settle(true, 1)
		s.heldBy("a")
		if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", grant, grant); got != want {
			s.Errorf("the record says %q, want %q", got, want)
		}
		settle(false, 2)
		p.hears("p.1")
		s.heldBy("b")
	})
}
