package tokenstore_test

import (
	"errors"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// forget makes the store forget the scripts.
func (s *server) forget() {
	s.Helper()
	if err := s.redis.ScriptFlush(s.Context()).Err(); err != nil {
		s.Fatal(err)
	}
}

func TestABeginAtAStoreThatForgotTheScriptsSaysSoAndGrantsNothing(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		ask := func() (tokenstore.Begin, error) {
			return s.store.ParseBegin(w.replies(s.store.AppendBegin(nil, record(), claim("a"), "", tokenstore.Basis{}), 1)[0])
		}
		s.forget()
		if b, err := ask(); !errors.Is(err, tokenstore.ErrNoScript) {
			s.Fatalf("%+v, %v", b, err)
		}
		s.heldBy("")
		if err := s.store.Load(s.Context()); err != nil {
			s.Fatal(err)
		}
		if b, err := ask(); err != nil || !b.Granted {
			s.Errorf("%+v, %v", b, err)
		}
	})
}

func TestTheProxysOwnCallsLoadForgottenScriptsThemselves(t *testing.T) {
	each(t, func(s *server) {
		s.forget()
		grant := s.grant(claim("a"))
		s.forget()
		s.renewed(claim("a"), grant, false)
		s.beginAs(claim("b"), "p.1", 0)
		s.forget()
		s.leave(claim("b"), "p.1")
		s.forget()
		s.release(claim("a"), grant, false)
		s.heldBy("")
	})
}

func TestAStaleWriteIsRefusedByAStoreThatForgotTheScripts(t *testing.T) {
	each(t, func(s *server) {
		stale := s.grant(claim("a"))
		s.lapse()
		s.grant(claim("b"))
		s.forget()
		s.wire().commit(holding("a", stale, 1), "SET", "k", "v").refused(tokenstore.Superseded)
		s.forget()
		s.wire().commit(blind("a"), "SET", "k", "v").refused(tokenstore.Held)
		s.forget()
		s.redis.Del(s.Context(), record().Keys()...)
		s.wire().commit(holding("a", stale, 1), "SET", "k", "v").refused(tokenstore.Missing)
		if got := s.value("k"); got != "" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestABlindWriteIsGrantedByAStoreThatForgotTheScripts(t *testing.T) {
	each(t, func(s *server) {
		s.forget()
		if o := s.wire().commit(blind("a"), "SET", "k", "v").applied(); o.settled != s.newest() {
			s.Errorf("settled as %d, the newest grant is %d", o.settled, s.newest())
		}
	})
}

func TestAHoldersWriteThatAStoreCouldNotSettleIsSettledAfterwards(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.forget()
		a := holding("a", grant, 1)
		o := s.wire().commit(a, "SET", "k", "v")
		if o.check.Verdict != tokenstore.Good || o.reply != "OK" || !errors.Is(o.unset, tokenstore.ErrNoScript) {
			s.Fatalf("%+v", o)
		}
		s.heldBy("a") // its hold stands as long as it is not settled
		if s.begin(claim("b")).Granted {
			s.Error("another was granted the session")
		}
		if err := s.store.Settle(s.Context(), &a.Commit); err != nil {
			s.Fatal(err)
		}
		s.heldBy("")
		s.wire().commit(a, "SET", "k", "twice").refused(tokenstore.Stored)
	})
}
