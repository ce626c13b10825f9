package tokenstore_test

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// parkedID is the name of a waiter that blocks at the store.
var parkedID = tokenstore.Parks("p.1")

// parks lets b wait at the store for so long and returns what its begin will answer.
func (s *server) parks(left time.Duration) <-chan tokenstore.Begin {
	s.Helper()
	answer := make(chan tokenstore.Begin, 1)
	w := s.wire()
	w.RawConn.Send(string(s.store.AppendPark(nil, record(), claim("b"), parkedID, tokenstore.Basis{}, left)))
	go func() {
		defer close(answer)
		w.ReadReply() // what ended the wait
		if b, err := s.store.ParseBegin(w.ReadReply()); err == nil {
			answer <- b
		}
	}()
	return answer
}

// long is a wait that only its end ends.
const long = time.Hour

// short is a wait that is over soon.
const short = 10 * time.Millisecond

func TestAWaiterAtTheStoreIsGrantedWhatIsHandedToIt(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		grant := s.grant(claim("a"))
		if held := s.beginAs(claim("b"), parkedID, 0); held.Granted || held.Ahead != 0 {
			s.Fatalf("%+v, want it in line", held)
		}
		answer := s.parks(long)
		s.release(claim("a"), grant, false)
		if b := <-answer; !b.Granted || b.Grant <= grant {
			s.Errorf("%+v, want a grant above %d", b, grant)
		}
		s.heldBy("b")
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= 0 || left > tokenstore.Reservation {
			s.Errorf("granted for %v; nobody may be there to take it", left)
		}
		s.renewed(claim("b"), s.newest(), false)
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= tokenstore.Reservation {
			s.Errorf("renewed for %v", left)
		}
	})
}

// Redis 6 would take a thousandth of a second for ever.
func TestAWaitOfNoTimeAtTheStoreIsOverSoon(t *testing.T) {
	each(t, func(s *server) {
		s.grant(claim("a"))
		if b := <-s.parks(time.Nanosecond); b.Granted || b.Holder.Owner != "a" {
			s.Errorf("%+v", b)
		}
		w := s.wire()
		w.RawConn.Send(string(s.store.AppendStandby(nil, "p.1", time.Nanosecond)))
		if reply := string(w.ReadReply()); reply != "*-1\r\n" {
			s.Errorf("%q", reply)
		}
	})
}

func TestAHandOverBeforeTheWaitBeginsIsFoundThere(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), parkedID, 0)
		s.release(claim("a"), grant, false)
		if b := <-s.parks(long); !b.Granted {
			s.Errorf("%+v", b)
		}
	})
}

func TestAWaitAtTheStoreThatIsOverFindsItsPlaceInLine(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		s.grant(claim("a"))
		s.beginAs(claim("b"), parkedID, 0)
		if b := <-s.parks(short); b.Granted || b.Holder.Owner != "a" || b.Ahead != 0 {
			s.Errorf("%+v, want it held by a and next in line", b)
		}
	})
}

// Its client may be gone: what it waited for must not be granted to nobody.
func TestAWaiterAtTheStoreThatIsNotInLineIsGrantedNothing(t *testing.T) {
	for name, before := range map[string]func(*server){
		"the session is free": func(*server) {},
		"somebody holds it":   func(s *server) { s.grant(claim("a")) },
		"others are in line": func(s *server) {
			s.grant(claim("a"))
			s.beginAs(claim("c"), tokenstore.Parks("p.2"), 0)
			s.lapse()
		},
		"it has left the line": func(s *server) {
			s.grant(claim("a"))
			s.beginAs(claim("b"), parkedID, 0)
			s.leave(claim("b"), parkedID)
			s.lapse()
		},
		"it has given on what was handed to it": func(s *server) {
			grant := s.grant(claim("a"))
			s.beginAs(claim("b"), parkedID, 0)
			s.release(claim("a"), grant, false)
			s.leave(claim("b"), parkedID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				s.listen("p")
				before(s)
				token, line := s.value(record().Keys()[0]), s.queued()
				if b := <-s.parks(short); b.Granted || b.Ahead != -1 {
					s.Errorf("%+v, want nothing and no place in line", b)
				}
				if now := s.value(record().Keys()[0]); now != token {
					s.Errorf("the record says %q, was %q", now, token)
				}
				if now := s.queued(); len(now) != len(line) {
					s.Errorf("in line are %q, were %q", now, line)
				}
			})
		})
	}
}

// The holder is gone without a word, or the wake-up was lost: the proxy asks beside the wait.
func TestAQuestionBesideTheWaitEndsItIfItIsGranted(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		s.grant(claim("a"))
		s.beginAs(claim("b"), parkedID, 0)
		answer := s.parks(long)
		s.lapse()
		grant := s.granted(s.beginAs(claim("b"), parkedID, 0))
		if b := <-answer; !b.Granted || b.Grant != grant {
			s.Errorf("%+v, want the grant that the question got, %d", b, grant)
		}
	})
}

func TestWaitersAtTheStoreWhoseProxyIsGoneAreSkipped(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("gone"), tokenstore.Parks("gone.1"), 0)
		s.beginAs(claim("b"), parkedID, 0)
		answer := s.parks(long)
		s.release(claim("a"), grant, false)
		if b := <-answer; !b.Granted {
			s.Errorf("%+v", b)
		}
	})
}

func TestNothingStaysOfAWakeUpThatNobodyTakes(t *testing.T) {
	each(t, func(s *server) {
		s.listen("p")
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), parkedID, 0)
		s.release(claim("a"), grant, false)
		lists := s.redis.Keys(s.Context(), tokenstore.Prefix+"*:w:*").Val()
		if len(lists) != 1 {
			s.Fatalf("the lists that wake are %q", lists)
		}
		if left := s.redis.PTTL(s.Context(), lists[0]).Val(); left <= 0 || left > tokenstore.Reservation {
			s.Errorf("%s stays for %v", lists[0], left)
		}
		if b := <-s.parks(long); !b.Granted {
			s.Errorf("%+v", b)
		}
		if lists := s.redis.Keys(s.Context(), tokenstore.Prefix+"*:w:*").Val(); len(lists) > 0 {
			s.Errorf("%q stay", lists)
		}
	})
}
