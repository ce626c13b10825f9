//go:build integration

package tokenstore_test

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func servers() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{"embedded": startEmbedded, "redis": startRedis}
}

func startRedis(t *testing.T) string {
	t.Helper()
	return harness.StartRedis(t).Addr
}

// onRedis runs a test on a real redis-server alone: for what the embedded store can't do.
func onRedis(t *testing.T, test func(*server)) {
	t.Helper()
	test(open(t, startRedis(t)))
}

func TestAFlushFellsTheWatchTakenWithARead(t *testing.T) {
	for name, flush := range map[string]func(*server){
		"FLUSHALL": func(s *server) { s.redis.FlushAll(s.Context()) },
		"FLUSHDB":  func(s *server) { s.redis.FlushDB(s.Context()) },
		"SWAPDB":   func(s *server) { s.redis.Do(s.Context(), "SWAPDB", 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			onRedis(t, func(s *server) {
				grant := s.grant(claim("a"))
				w := s.wire()
				w.stand()
				flush(s)
				if o := w.fenced(holding("a", grant, 1), "SET", "k", "mine"); o.reply != nil || string(o.exec) != "*-1\r\n" {
					s.Errorf("EXEC answered %q", o.exec)
				}
				if got := s.value("k"); got != "" {
					s.Errorf("the value is %q", got)
				}
			})
		})
	}
}

// exhaust takes the store's memory. Before 8.0 a real one then refuses all that MULTI would have to queue, be
// it a DEL: what is left are scripts that may run all the same.
func (s *server) exhaust() {
	s.Helper()
	s.redis.Set(s.Context(), "k", strings.Repeat("x", 1<<20), 0)
	if err := s.redis.ConfigSet(s.Context(), "maxmemory", "1mb").Err(); err != nil {
		s.Fatal(err)
	}
	if err := s.redis.Set(s.Context(), "other", "v", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
		s.Fatalf("the store still has memory: %v", err)
	}
}

func TestAStoreThatIsOutOfMemoryStillGrantsRenewsAndEndsHolds(t *testing.T) {
	onRedis(t, func(s *server) {
		p := s.listen("p")
		s.exhaust()
		grant := s.grant(claim("a"))
		s.renewed(claim("a"), grant, false)
		s.beginAs(claim("b"), "p.1", 0)
		s.beginAs(claim("c"), "p.2", 0)
		s.release(claim("a"), grant, false)
		p.hears("p.1")
		s.leave(claim("b"), "p.1")
		s.release(claim("c"), p.hears("p.2"), true)
		s.heldBy("")
	})
}

func TestAStoreThatIsOutOfMemorySaysSoAndAppliesNothing(t *testing.T) {
	onRedis(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.exhaust()
		token, w := s.token(), s.wire()
		commands := [][]string{{"SET", "k", "v"}, {"DEL", "k"}}
		if s.queuesWhenFull("DEL", "other") {
			commands = commands[:1] // the DEL is applied: below
		}
		for _, command := range commands {
			o := w.commit(holding("a", grant, 1), command...)
			if o.check.Verdict != tokenstore.Good || !strings.HasPrefix(string(o.queued), "-OOM ") || !strings.HasPrefix(string(o.exec), "-EXECABORT ") {
				s.Errorf("%s: %+v", command[0], o)
			}
		}
		if n := s.redis.StrLen(s.Context(), "k").Val(); n != 1<<20 {
			s.Errorf("the value has %d bytes", n)
		}
		if got := s.token(); got != token {
			s.Errorf("the record says %q, was %q", got, token)
		}
		s.heldBy("a")
		if len(commands) == 2 {
			s.redis.ConfigSet(s.Context(), "maxmemory", "0")
		}
		w.commit(holding("a", grant, 1), "DEL", "k").applied()
	})
}

// queuesWhenFull asks whether the store, which is full, takes a command in MULTI.
func (s *server) queuesWhenFull(command ...any) bool {
	s.Helper()
	conn := s.redis.Conn()
	defer conn.Close()
	conn.Do(s.Context(), "MULTI")
	err := conn.Do(s.Context(), command...).Err()
	conn.Do(s.Context(), "DISCARD")
	if err != nil && !strings.HasPrefix(err.Error(), "OOM") {
		s.Fatal(err)
	}
	return err == nil
}

func TestAStoreThatIsOutOfMemoryStillChecks(t *testing.T) {
	onRedis(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.exhaust()
		s.redis.Del(s.Context(), record().Keys()...)
		o := s.wire().commit(holding("a", grant, 1), "DEL", "k")
		if o.err != nil || o.check.Verdict != tokenstore.Missing || o.reply != nil {
			s.Errorf("%+v, EXEC %q", o.check, o.exec)
		}
		if b := s.beginAs(claim("a"), "", grant); b.Continuous {
			s.Error("the reads of a lost grant go on")
		}
	})
}

func TestAProxyThatWasCutOffListensAgain(t *testing.T) {
	onRedis(t, func(s *server) {
		p := s.listen("p")
		for range 3 {
			if n := s.redis.ClientKillByFilter(s.Context(), "TYPE", "pubsub").Val(); n != 1 {
				s.Fatalf("%d subscriptions were cut off", n)
			}
			p.subscribed()
		}
		grant := s.grant(claim("a"))
		s.beginAs(claim("b"), "p.1", 0)
		s.release(claim("a"), grant, false)
		p.hears("p.1")
	})
}

func TestAProxyListensAgainAfterARestartOfTheStore(t *testing.T) {
	server := harness.StartRedis(t)
	s := open(t, server.Addr)
	p := s.listen("p")
	server.RestartEmpty()
	p.subscribed()
	grant := s.grant(claim("a"))
	s.beginAs(claim("b"), "p.1", 0)
	s.release(claim("a"), grant, false)
	p.hears("p.1")
}

// A store that is full refuses a command that makes room, too, if it could not keep its reply: said again, it would
// be carried out again.
func TestAStoreThatIsOutOfMemoryCarriesNothingOutOnce(t *testing.T) {
	onRedis(t, func(s *server) {
		s.redis.Set(s.Context(), "n", "1", 0)
		s.exhaust()
		w := s.wire()
		for _, command := range [][]string{{"SET", "n", "2"}, {"DEL", "n"}} {
			if got, err := w.says(once(command[0], command...)); !strings.HasPrefix(got, "-OOM") || err != nil {
				s.Errorf("%s: %q %v", command[0], got, err)
			}
		}
		if got := s.value("n"); got != "1" {
			s.Errorf("the value is %q", got)
		}
	})
}
