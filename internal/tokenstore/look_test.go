package tokenstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// sees is a look, on the wire and over the proxy's own connection: both say the same.
func (w *wire) sees() tokenstore.Token {
	w.Helper()
	token, err := w.store.ParseLook(record(), w.replies(w.store.AppendLook(nil, record(), claim("a")), 1)[0])
	if err != nil {
		w.Fatal(err)
	}
	again, err := w.store.Look(w.Context(), record(), claim("b"))
	if err != nil || again != token {
		w.Errorf("%+v, and then %+v, %v", token, again, err)
	}
	return token
}

func TestALookFindsATokenInEveryRecord(t *testing.T) {
	for name, before := range map[string]func(s *server){
		"that is missing":         func(*server) {},
		"of a hold":               func(s *server) { s.grant(claim("c")) },
		"of a hold from the line": func(s *server) { s.beginAs(claim("c"), "p.1", 0) },
		"of an earlier version": func(s *server) {
			s.redis.Set(s.Context(), record().Keys()[0], "1700000000000000 0 0 redis", time.Minute)
		},
		"of a refused write": func(s *server) {
			s.wire().commit(holding("c", 1700000000000000, 1), "SET", "k", "stale")
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				before(s)
				if token := s.wire().sees(); token.Stamp() == (tokenstore.Stamp{}) || token.Grant == 0 {
					s.Errorf("%+v", token)
				}
			})
		})
	}
}

func TestALookLeavesAHoldAlone(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.wire().sees()
		s.heldBy("a")
		s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
	})
}

func TestAWriteAfterALookIsAppliedWhileNothingElseIsStored(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		reads := func(owner string) attempt {
			return attempt{tokenstore.Commit{Record: record(), Claim: claim(owner), Seq: 1, Read: w.sees().Stamp()}}
		}
		first, second := reads("a"), reads("b")
		w.commit(first, "SET", "k", "a's").applied()
		if o := w.commit(second, "SET", "k", "b's"); o.check.Verdict != tokenstore.Changed || o.reply != nil {
			s.Errorf("%+v, EXEC %q", o.check, o.exec)
		}
		lost := reads("b")
		s.redis.Del(s.Context(), record().Keys()...)
		if o := w.commit(lost, "SET", "k", "b's"); o.check.Verdict != tokenstore.Missing || o.reply != nil {
			s.Errorf("%+v, EXEC %q", o.check, o.exec)
		}
		w.sees() // which makes another record
		if o := w.commit(lost, "SET", "k", "b's"); o.check.Verdict != tokenstore.Changed || o.reply != nil {
			s.Errorf("%+v, EXEC %q", o.check, o.exec)
		}
		if got := s.value("k"); got != "a's" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestAWriteAfterALookWaitsForAHolder(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		read := attempt{tokenstore.Commit{Record: record(), Claim: claim("a"), Seq: 1, Read: w.sees().Stamp()}}
		grant := s.grant(claim("b"))
		if o := w.commit(read, "SET", "k", "a's"); o.check.Verdict != tokenstore.Held || o.reply != nil {
			s.Errorf("%+v, EXEC %q", o.check, o.exec)
		}
		s.release(claim("b"), grant, false)
		w.commit(read, "SET", "k", "a's").applied()
	})
}

func TestWhatWasReadAfterALookGoesOnUnderAGrantWhileNothingElseIsStored(t *testing.T) {
	each(t, func(s *server) {
		for _, waiter := range []string{"", "p.1"} { // the two ways through begin
			seen := tokenstore.Basis{Stored: s.wire().sees().Stamp()}
			b, err := s.store.Begin(s.Context(), record(), claim("a"), waiter, seen)
			if err != nil || !b.Granted || !b.Continuous {
				s.Errorf("%+v, %v", b, err)
			}
			s.wire().commit(holding("a", b.Grant, 1), "SET", "k", "v").applied()
			if b, err := s.store.Begin(s.Context(), record(), claim("b"), waiter, seen); err != nil || !b.Granted || b.Continuous {
				s.Errorf("%+v, %v", b, err)
			} else {
				s.release(claim("b"), b.Grant, false)
			}
		}
	})
}

func TestALookAtAnotherProvidersRecordSaysSo(t *testing.T) {
	each(t, func(s *server) {
		if _, err := s.another("etcd").Register(s.Context(), record(), claim("b"), 7, tokenstore.Basis{}); err != nil {
			s.Fatal(err)
		}
		before := s.token()
		var other *tokenstore.ProviderError
		if _, err := s.store.Look(s.Context(), record(), claim("a")); !errors.As(err, &other) || s.token() != before {
			s.Errorf("%v, and the record is %q, was %q", err, s.token(), before)
		}
	})
}
