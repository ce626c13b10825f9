package tokenstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// acquired is the claim of a grant that was acquired by itself.
func acquired(name string) *tokenstore.Claim { return claim(tokenstore.ApartPrefix + name) }

// under is a write that presents a grant which was acquired by itself.
func under(name string, grant uint64) attempt {
	return attempt{tokenstore.Commit{Record: record(), Claim: acquired(name), Grant: grant, Apart: true}}
}

func (s *server) renewsGrant(grant uint64) error {
	s.Helper()
	_, err := s.store.RenewGrant(s.Context(), record(), acquired("renewed"), grant)
	return err
}

func (s *server) releasesGrant(grant uint64) bool {
	s.Helper()
	_, ended, err := s.store.ReleaseGrant(s.Context(), record(), acquired("whoever"), grant)
	if err != nil {
		s.Fatal(err)
	}
	return ended
}

func TestTheStoreCountsTheWritesUnderAGrantAndLeavesItsHold(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(acquired("a"))
		s.redis.PExpire(s.Context(), record().Keys()[1], 20*time.Second)
		hold := s.value(record().Keys()[1])
		for seq := 1; seq <= 3; seq++ {
			s.wire().commit(under("anybody", grant), "SET", "k", "v").applied()
			if got, want := s.token(), fmt.Sprintf("%d %d %d redis", grant, grant, seq); got != want {
				s.Errorf("the record says %q, want %q", got, want)
			}
		}
		if got := s.value(record().Keys()[1]); got != hold {
			s.Errorf("the hold is %q, was %q", got, hold)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left > 20*time.Second {
			s.Errorf("its lease was extended to %v", left)
		}
	})
}

func TestAGrantWhoseLeaseHasEndedMayWriteUntilSomebodyComes(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(acquired("a"))
		s.lapse()
		s.wire().commit(under("a", grant), "SET", "k", "1").applied()
		s.heldBy("")
		s.grant(claim("b"))
		s.wire().commit(under("a", grant), "SET", "k", "2").refused(tokenstore.Superseded)
		if got := s.value("k"); got != "1" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestAGrantIsRenewedByWhoeverPresentsIt(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(acquired("a"))
		s.redis.PExpire(s.Context(), record().Keys()[0], time.Minute)
		s.redis.PExpire(s.Context(), record().Keys()[1], time.Second)
		if err := s.renewsGrant(grant); err != nil {
			s.Fatal(err)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= time.Second || left > lease {
			s.Errorf("%v are left of the lease", left)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[0]).Val(); left <= time.Minute {
			s.Errorf("the record would go in %v", left)
		}
		s.heldBy(tokenstore.ApartPrefix + "a")
		s.lapse()
		if err := s.renewsGrant(grant); err != nil {
			s.Fatal(err)
		}
		s.heldBy(tokenstore.ApartPrefix + "renewed")
		s.lapse()
		s.grant(claim("b"))
		if err := s.renewsGrant(grant); !errors.Is(err, tokenstore.ErrLost) {
			s.Errorf("%v, want it lost", err)
		}
		s.heldBy("b")
	})
}

func TestAGrantThatIsReleasedIsUsedUpAndTheSessionHandedOn(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(acquired("a"))
		s.beginAs(claim("b"), "p.1", 0)
		if !s.releasesGrant(grant) {
			s.Error("it had ended")
		}
		if next := p.hears("p.1"); next <= grant {
			s.Errorf("grant %d after %d", next, grant)
		}
		s.heldBy("b")
		if s.releasesGrant(grant) {
			s.Error("it ended twice")
		}
		s.heldBy("b")
		s.wire().commit(under("a", grant), "SET", "k", "stale").refused(tokenstore.Superseded)
	})
}

func TestTheGrantOfAnOwnerIsNotForOthersToEnd(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		if s.releasesGrant(grant) {
			s.Error("it was released")
		}
		if err := s.renewsGrant(grant); !errors.Is(err, tokenstore.ErrLost) {
			s.Errorf("%v, want it refused", err)
		}
		s.heldBy("a")
		s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
	})
}

func TestAnyHoldCanBeBroken(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		holder, broken, err := s.store.Break(s.Context(), record(), claim("operator"))
		if err != nil || !broken || holder.Owner != "a" || holder.Grant != grant {
			s.Fatalf("%+v %v %v", holder, broken, err)
		}
		p.hears("p.1")
		s.heldBy("b")
		s.wire().commit(holding("a", grant, 1), "SET", "k", "stale").refused(tokenstore.Superseded)
		s.lapse()
		if _, broken, _ := s.store.Break(s.Context(), record(), claim("operator")); broken {
			s.Error("there was nothing to break")
		}
	})
}

func TestARecordIsInspected(t *testing.T) {
	each(t, func(s *server) {
		if i, err := s.store.Inspect(s.Context(), record(), 2); err != nil || i.Holder.Held() || i.Token.Grant != 0 || i.Waiting != 0 {
			s.Fatalf("%+v %v", i, err)
		}
		grant := s.grant(claim("a"))
		for n := range 3 {
			s.beginAs(claim(fmt.Sprint("b", n)), fmt.Sprint("p.", n), 0)
		}
		i, err := s.store.Inspect(s.Context(), record(), 2)
		if err != nil || i.Token.Grant != grant || i.Holder.Owner != "a" || i.LeaseLeft <= 0 || i.LeaseLeft > lease || i.Waiting != 3 {
			s.Fatalf("%+v %v", i, err)
		}
		if len(i.First) != 2 || i.First[0].Name != "b0's name" || i.First[1].Client != "b1's address" {
			s.Errorf("first in line: %+v", i.First)
		}
	})
}

func TestHoldsAreListedByRule(t *testing.T) {
	each(t, func(s *server) {
		const many = 30
		for n := range many {
			r := tokenstore.NewRecord(tokenstore.Area{}, []string{"chat", "(none)"}[n%2], fmt.Sprint("s:", n))
			if _, err := s.store.Begin(s.Context(), r, claim(fmt.Sprint(n)), "", tokenstore.Basis{}); err != nil {
				s.Fatal(err)
			}
		}
		s.redis.Set(s.Context(), "fence-proxy:{chat:x}:o:odd}:h", "no hold", 0)
		s.redis.Del(s.Context(), tokenstore.NewRecord(tokenstore.Area{}, "chat", "s:0").Keys()[0]) // a hold counts with its grant only
		list := func(rule string, most int) ([]tokenstore.Hold, bool) {
			s.Helper()
			holds, complete, err := s.store.Holds(s.Context(), 0, rule, most)
			if err != nil {
				s.Fatal(err)
			}
			return holds, complete
		}
		if holds, complete := list("", 1000); len(holds) != many-1 || !complete {
			s.Errorf("%d holds, all: %v", len(holds), complete)
		}
		if holds, complete := list("(none)", 1000); len(holds) != many/2 || !complete || !strings.HasPrefix(holds[0].Session, "s:") {
			s.Errorf("%d holds, all: %v", len(holds), complete)
		}
		if holds, complete := list("", 10); len(holds) != 10 || complete {
			s.Errorf("%d holds, all: %v", len(holds), complete)
		}
		over, cancel := context.WithTimeout(s.Context(), 0)
		defer cancel()
		if holds, complete, err := s.store.Holds(over, 0, "", 1000); err != nil || complete {
			s.Errorf("when the time is over: %d holds, all: %v, %v", len(holds), complete, err)
		}
	})
}
