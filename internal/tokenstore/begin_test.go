package tokenstore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestGrantsGrowFromHoldToHold(t *testing.T) {
	each(t, func(s *server) {
		last := uint64(0)
		for _, owner := range []string{"a", "b", "a", "a"} {
			grant := s.grant(claim(owner))
			if grant <= last {
				s.Fatalf("grant %d after %d", grant, last)
			}
			last = grant
			s.release(claim(owner), grant, false)
		}
	})
}

// far is above the clock for the next hundred years.
const far = 5_000_000_000_000_000

func TestGrantsGrowWhenTheStoresClockIsBehind(t *testing.T) {
	each(t, func(s *server) {
		s.redis.Set(s.Context(), record().Keys()[0], "5000000000000000 0 0 redis", ttl)
		if grant := s.grant(claim("a")); grant != far+1 {
			s.Errorf("grant %d", grant)
		}
	})
}

func TestGrantsGrowAcrossALossOfEverything(t *testing.T) {
	// Each way to issue a grant, at a store that has lost one which the proxy has seen.
	for name, issue := range map[string]func(*server) uint64{
		"by a begin": func(s *server) uint64 { return s.grant(claim("a")) },
		"by a blind write": func(s *server) uint64 {
			return s.wire().commit(blind("a"), "SET", "k", "v").applied().settled
		},
		"by a revocation": func(s *server) uint64 {
			// The record of a proxy that has seen less.
			s.redis.Set(s.Context(), record().Keys()[0], "1000 0 0 redis", ttl)
			s.release(claim("a"), 1000, true)
			return s.newest()
		},
		"by a hand-over": func(s *server) uint64 {
			ear := s.listen("p")
			other := s.another("redis") // and so has its owner
			held, err := other.Begin(s.Context(), record(), claim("a"), "", tokenstore.Basis{})
			if err != nil {
				s.Fatal(err)
			}
			s.beginAs(claim("b"), "p.1", 0)
			s.release(claim("a"), s.granted(held), false)
			return ear.hears("p.1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				s.redis.Set(s.Context(), record().Keys()[0], "5000000000000000 0 0 redis", ttl)
				seen, err := s.store.ParseVerify(s.wire().replies(s.store.AppendVerify(nil, record()), 1)[0])
				if err != nil || seen.Grant != far {
					s.Fatalf("%+v, %v", seen, err)
				}
				s.redis.FlushAll(s.Context())
				if grant := issue(s); grant <= far {
					s.Errorf("grant %d, though %d was seen", grant, uint64(far))
				}
			})
		})
	}
}

func TestEveryAnswerThatNamesAGrantKeepsLaterOnesAboveIt(t *testing.T) {
	for name, see := range map[string]func(*server){
		"a begin's": func(s *server) { s.grant(claim("a")) },
		"a begin in vain's": func(s *server) {
			if _, err := s.another("redis").Begin(s.Context(), record(), claim("b"), "", tokenstore.Basis{}); err != nil {
				s.Fatal(err)
			}
			s.begin(claim("a"))
		},
		"a begin's on the wire": func(s *server) {
			_, _ = s.store.ParseBegin(s.wire().replies(s.store.AppendBegin(nil, record(), claim("a"), "", tokenstore.Basis{}), 1)[0])
		},
		"a refused write's": func(s *server) { s.wire().commit(holding("a", 1, 1), "SET", "k", "v").refused(tokenstore.Superseded) },
		"a settlement's":    func(s *server) { s.wire().commit(blind("a"), "SET", "k", "v").applied() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				s.redis.Set(s.Context(), record().Keys()[0], "5000000000000000 0 0 redis", ttl)
				see(s)
				s.redis.FlushAll(s.Context())
				if grant := s.grant(claim("b")); grant < far {
					s.Errorf("grant %d, though %d was seen", grant, uint64(far))
				}
			})
		})
	}
}

func TestAStoreThatLostEverythingStillKnowsTheTime(t *testing.T) {
	each(t, func(s *server) {
		before := s.grant(claim("a"))
		s.redis.FlushAll(s.Context())
		b, err := s.another("redis").Begin(s.Context(), record(), claim("b"), "", tokenstore.Basis{})
		if err != nil {
			s.Fatal(err)
		}
		if after := s.granted(b); after <= before {
			s.Errorf("grant %d after %d, by a proxy that has seen neither", after, before)
		}
	})
}

func TestNothingIsGrantedOnAnotherProvidersRecord(t *testing.T) {
	each(t, func(s *server) {
		s.redis.Set(s.Context(), record().Keys()[0], "7 0 0 etcd", ttl)
		_, err := s.store.Begin(s.Context(), record(), claim("a"), "", tokenstore.Basis{})
		var foreign *tokenstore.ProviderError
		if !errors.As(err, &foreign) || foreign.Record != "etcd" || foreign.Configured != "redis" {
			s.Fatalf("%v", err)
		}
		s.heldBy("")
		if got := s.token(); got != "7 0 0 etcd" {
			s.Errorf("the record is now %q", got)
		}
	})
}

func TestAHolderThatBeginsAgainGoesOnWithItsHold(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		since := s.holder().Since
		s.redis.PExpire(s.Context(), record().Keys()[1], time.Second)
		again := s.beginAs(claim("a"), "", grant)
		if s.granted(again) != grant || !again.Continuous {
			s.Errorf("%+v, want grant %d to go on", again, grant)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= time.Second {
			s.Errorf("the lease was not extended: %v", left)
		}
		if now := s.holder().Since; !now.Equal(since) {
			s.Errorf("held since %v, was %v", now, since)
		}
		if other := s.begin(claim("a")); other.Continuous {
			s.Error("reads of no grant at all go on")
		}
	})
}

func TestAHolderThatBeginsAgainLearnsWhatItHasStored(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.wire().commit(holding("a", grant, 3).keep(), "SET", "k", "v").applied()
		if again := s.begin(claim("a")); again.Grant != grant || again.Seq != 3 {
			s.Errorf("%+v, want seq 3 of %d", again, grant)
		}
		s.wire().commit(holding("a", grant, 4), "SET", "k", "v").applied()
		if next := s.begin(claim("a")); next.Grant <= grant || next.Seq != 0 {
			s.Errorf("%+v, want seq 0 of a new grant", next)
		}
	})
}

func TestReadsGoOnOverTwoHoldsWhenNobodyCameBetween(t *testing.T) {
	each(t, func(s *server) {
		first := s.grant(claim("a"))
		s.release(claim("a"), first, false)
		second := s.beginAs(claim("a"), "", first)
		if s.granted(second) <= first || !second.Continuous {
			s.Errorf("%+v", second)
		}
	})
}

func TestReadsDoNotGoOnAfterSomethingCameBetween(t *testing.T) {
	for name, between := range map[string]func(*server, uint64){
		"another's hold": func(s *server, first uint64) {
			s.release(claim("a"), first, false)
			s.release(claim("b"), s.grant(claim("b")), false)
		},
		"another's blind write": func(s *server, first uint64) {
			s.release(claim("a"), first, false)
			s.wire().commit(blind("b"), "SET", "k", "v").applied()
		},
		"a revocation": func(s *server, first uint64) { s.release(claim("a"), first, true) },
		"a flush":      func(s *server, _ uint64) { s.redis.FlushAll(s.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				first := s.grant(claim("a"))
				between(s, first)
				second := s.beginAs(claim("a"), "", first)
				if s.granted(second) <= first || second.Continuous {
					s.Errorf("%+v", second)
				}
			})
		})
	}
}

func TestASessionThatIsHeldTellsByWhom(t *testing.T) {
	each(t, func(s *server) {
		before := time.Now().Add(-time.Minute)
		a := tokenstore.NewClaim("a", tokenstore.Identity{Proxy: "pod-1", Client: "10.0.0.1:999", Name: "wor\r\nker"}, lease, ttl)
		grant := s.granted(s.begin(a))
		b := s.begin(claim("b"))
		h := b.Holder
		if b.Granted || h.Owner != "a" || h.Grant != grant || h.Proxy != "pod-1" || h.Client != "10.0.0.1:999" || h.Name != "wor  ker" {
			s.Errorf("%+v", b)
		}
		if h.Since.Before(before) || h.Since.After(time.Now().Add(time.Minute)) {
			s.Errorf("held since %v", h.Since)
		}
		if b.LeaseLeft <= 0 || b.LeaseLeft > lease {
			s.Errorf("%v are left of the lease", b.LeaseLeft)
		}
		if got := s.queued(); len(got) != 0 {
			s.Errorf("who does not wait is queued: %v", got)
		}
		s.heldBy("a")
	})
}

func TestAHoldWhoseGrantIsNotTheNewestProtectsNobody(t *testing.T) {
	for name, token := range map[string]string{
		"superseded": "5000000000000000 0 0 redis",
		"lost":       "",
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				s.grant(claim("a"))
				s.redis.Set(s.Context(), record().Keys()[0], token, ttl)
				if token == "" {
					s.redis.Del(s.Context(), record().Keys()[0])
				}
				s.grant(claim("b"))
				s.heldBy("b")
			})
		})
	}
}

func TestWaitersStandInLine(t *testing.T) {
	each(t, func(s *server) {
		s.grant(claim("a"))
		for i, waiter := range []string{"p.1", "q.1", "p.2", "p.1", "q.1"} {
			b := s.beginAs(claim(waiter), waiter, 0)
			if b.Granted || b.Ahead != i%3 {
				s.Fatalf("%s: %+v, want %d ahead", waiter, b, i%3)
			}
		}
		if got := s.queued(); !slices.Equal(got, []string{"p.1", "q.1", "p.2"}) {
			s.Errorf("the line is %v", got)
		}
	})
}

func TestNoMoreWaitThanMay(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		other := s.another("redis") // without a limit, and in the same line
		if b, err := other.Begin(s.Context(), record(), claim("b"), "p.1", tokenstore.Basis{}); err != nil || b.Full || b.Ahead != 0 {
			s.Fatalf("%+v, %v", b, err)
		}
		s.store.LimitWaiters(2)
		s.beginAs(claim("c"), "p.2", 0)
		w := s.wire()
		for _, ask := range map[string]func() (tokenstore.Begin, error){
			"by itself": func() (tokenstore.Begin, error) {
				return s.store.Begin(s.Context(), record(), claim("d"), "p.3", tokenstore.Basis{})
			},
			"on the wire": func() (tokenstore.Begin, error) {
				return s.store.ParseBegin(w.replies(s.store.AppendBegin(nil, record(), claim("d"), "p.3", tokenstore.Basis{}), 1)[0])
			},
		} {
			b, err := ask()
			if err != nil || !b.Full || b.Granted || b.Ahead != 2 || b.Holder.Owner != "a" || b.Holder.Grant != grant {
				s.Errorf("%+v, %v", b, err)
			}
		}
		if got := s.queued(); !slices.Equal(got, []string{"p.1", "p.2"}) {
			s.Fatalf("the line is %v", got)
		}
		if b := s.begin(claim("d")); b.Full {
			s.Errorf("who does not wait is told %+v", b)
		}
		if b := s.beginAs(claim("c"), "p.2", 0); b.Full || b.Ahead != 1 {
			s.Errorf("who waits already is told %+v", b)
		}
		s.release(claim("a"), grant, false) // to p.1, which leaves the line
		p.hears("p.1")
		if b := s.beginAs(claim("d"), "p.3", 0); b.Full || b.Ahead != 1 {
			s.Errorf("%+v with room in the line", b)
		}
	})
}

func TestAHoldWhoseRecordIsLostIsNoticed(t *testing.T) {
	each(t, func(s *server) {
		if b := s.begin(claim("a")); b.RecordLost {
			s.Error("a new session's record is lost")
		}
		if b := s.begin(claim("a")); b.RecordLost {
			s.Error("a held session's record is lost")
		}
		s.redis.Del(s.Context(), record().Keys()[0])
		if b := s.begin(claim("b")); !b.Granted || !b.RecordLost {
			s.Errorf("%+v", b)
		}
		s.lapse()
		if b := s.begin(claim("a")); !b.Granted || b.RecordLost {
			s.Errorf("%+v after a lease that ended", b)
		}
	})
}

func TestReleasesHandTheSessionDownTheLine(t *testing.T) {
	each(t, func(s *server) {
		p, q := s.listen("p"), s.listen("q")
		holder, grant := claim("a"), s.grant(claim("a"))
		for _, waiter := range []string{"p.1", "q.1", "p.2"} {
			s.beginAs(claim(waiter), waiter, 0)
		}
		for _, next := range []struct {
			ear    *ear
			waiter string
		}{{p, "p.1"}, {q, "q.1"}, {p, "p.2"}} {
			s.release(holder, grant, false)
			handed := next.ear.hears(next.waiter)
			s.heldBy(next.waiter)
			if s.begin(claim("stranger")).Granted {
				s.Fatal("a stranger came before it")
			}
			b := s.beginAs(claim(next.waiter), next.waiter, grant)
			if s.granted(b) != handed || handed <= grant || b.Continuous {
				s.Fatalf("%s was handed grant %d and got %+v", next.waiter, handed, b)
			}
			holder, grant = claim(next.waiter), handed
		}
		s.release(holder, grant, false)
		s.heldBy("")
	})
}

func TestAWaiterThatTakesASessionByItselfLeavesTheLine(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.lapse() // without a word
		s.granted(s.beginAs(claim("b"), "p.1", 0))
		if got := s.queued(); !slices.Equal(got, []string{"p.2"}) {
			s.Errorf("the line is %v", got)
		}
	})
}

func TestWhoComesToAFreeSessionWithALineStandsBehindIt(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.lapse()
		if late := s.beginAs(claim("c"), "p.2", 0); late.Granted || late.Holder.Owner != "b" {
			s.Fatalf("%+v", late)
		}
		handed := p.hears("p.1")
		if got := s.granted(s.beginAs(claim("b"), "p.1", 0)); got != handed {
			s.Errorf("grant %d, was handed %d", got, handed)
		}
	})
}

func TestWaitersWhoseProxyIsGoneArePassedOver(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		for _, waiter := range []string{"gone.1", "gone.2", "p.1", "gone.3"} {
			s.beginAs(claim(waiter), waiter, 0)
		}
		s.release(claim("a"), grant, false)
		s.release(claim("p.1"), p.hears("p.1"), false)
		s.heldBy("")
		if got := s.queued(); len(got) != 0 {
			s.Errorf("the line is %v", got)
		}
		s.grant(claim("b"))
	})
}

func TestAHandOverIsReservedForAShortTime(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.release(claim("a"), grant, false)
		p.hears("p.1")
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= 0 || left > tokenstore.Reservation {
			s.Errorf("reserved for %v", left)
		}
		s.granted(s.beginAs(claim("b"), "p.1", 0))
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= tokenstore.Reservation || left > lease {
			s.Errorf("taken up for %v", left)
		}
	})
}

func TestAHandOverThatIsNotTakenUpGoesToTheNext(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.release(claim("a"), grant, false)
		missed := p.hears("p.1")
		s.lapse() // the reservation's end
		if taken := s.granted(s.beginAs(claim("c"), "p.2", 0)); taken <= missed {
			s.Errorf("grant %d after %d", taken, missed)
		}
		s.heldBy("c")
	})
}

func TestTheReplyOnTheWireSaysWhatBeginSays(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		ask := func(c *tokenstore.Claim, waiter string, expected uint64) (tokenstore.Begin, error) {
			return s.store.ParseBegin(w.replies(s.store.AppendBegin(nil, record(), c, waiter, tokenstore.Basis{Grant: expected}), 1)[0])
		}
		a, err := ask(claim("a"), "", 0)
		if err != nil {
			s.Fatal(err)
		}
		if again, err := ask(claim("a"), "", a.Grant); err != nil || again.Grant != a.Grant || !again.Continuous {
			s.Errorf("%+v, %v", again, err)
		}
		held, err := ask(claim("b"), "p.1", 0)
		if err != nil || held.Granted || held.Holder.Owner != "a" || held.LeaseLeft <= 0 || held.Ahead != 0 {
			s.Errorf("%+v, %v", held, err)
		}
		if second, err := ask(claim("c"), "p.2", 0); err != nil || second.Ahead != 1 {
			s.Errorf("%+v, %v", second, err)
		}
		s.redis.Set(s.Context(), record().Keys()[0], "7 0 0 etcd", ttl)
		var foreign *tokenstore.ProviderError
		if _, err := ask(claim("a"), "", 0); !errors.As(err, &foreign) {
			s.Errorf("%v", err)
		}
		s.redis.Del(s.Context(), record().Keys()...)
		s.redis.LPush(s.Context(), record().Keys()[0], "not a token")
		var refused *tokenstore.StoreError
		if _, err := ask(claim("a"), "", 0); !errors.As(err, &refused) || !strings.Contains(err.Error(), "WRONGTYPE") {
			s.Errorf("%v", err)
		}
	})
}

func TestAVerificationSaysWhatTheRecordSays(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		look := func() tokenstore.Token {
			token, err := s.store.ParseVerify(w.replies(s.store.AppendVerify(nil, record()), 1)[0])
			if err != nil {
				s.Fatal(err)
			}
			return token
		}
		if got := look(); got != (tokenstore.Token{}) {
			s.Errorf("%+v without a record", got)
		}
		grant := s.grant(claim("a"))
		if got := look(); got != (tokenstore.Token{Grant: grant, Provider: "redis"}) {
			s.Errorf("%+v under grant %d", got, grant)
		}
		w.commit(holding("a", grant, 2), "SET", "k", "v").applied()
		if got := look(); got != (tokenstore.Token{Grant: grant, StoredGrant: grant, StoredSeq: 2, Provider: "redis"}) {
			s.Errorf("%+v after a write", got)
		}
	})
}

func TestRecordsOfOtherSessionsAndDatabasesAreApart(t *testing.T) {
	each(t, func(s *server) {
		s.grant(claim("a"))
		for _, other := range []*tokenstore.Record{
			tokenstore.NewRecord(tokenstore.Area{}, "chat", "s2"), tokenstore.NewRecord(tokenstore.Area{}, "other", "s1"), tokenstore.NewRecord(tokenstore.Area{DB: 3}, "chat", "s1"),
		} {
			if b, err := s.store.Begin(s.Context(), other, claim("b"), "", tokenstore.Basis{}); err != nil || !b.Granted {
				s.Errorf("%v: %+v, %v", other, b, err)
			}
		}
		if n := s.redis.DBSize(s.Context()).Val(); n != 6 {
			s.Errorf("%d keys in database 0, want three records' token and hold", n)
		}
	})
}
