package tokenstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// attempt is a write that presents a token.
type attempt struct{ tokenstore.Commit }

func holding(owner string, grant, seq uint64) attempt {
	return attempt{tokenstore.Commit{Record: record(), Claim: claim(owner), Grant: grant, Seq: seq}}
}

func blind(owner string) attempt {
	return attempt{tokenstore.Commit{Record: record(), Claim: claim(owner), Seq: 1}}
}

func (a attempt) keep() attempt {
	a.Keep = true
	return a
}

func (a attempt) of(r *tokenstore.Record) attempt {
	a.Record = r
	return a
}

// outcome is what the store answered to a commit's block.
type outcome struct {
	*server
	check   tokenstore.Check
	err     error  // of the check
	queued  []byte // reply to the client's command
	exec    []byte // reply to the EXEC
	reply   any    // to the client's command, if the block was applied
	settled uint64
	unset   error // of the settlement
}

// commit sends the whole block of a write over the wire, in one piece.
func (w *wire) commit(a attempt, command ...string) *outcome {
	w.Helper()
	return w.block(false, command, a)
}

// fenced is a commit without a check: the WATCH that stands on the wire is the fence.
func (w *wire) fenced(a attempt, command ...string) *outcome {
	w.Helper()
	return w.block(true, command, a)
}

func (w *wire) block(watched bool, command []string, attempts ...attempt) *outcome {
	w.Helper()
	parts := make([]tokenstore.Commit, len(attempts))
	for i := range attempts {
		parts[i] = attempts[i].Commit
	}
	bytes, block := w.store.AppendCommit(nil, 0, parts, nil, []byte(harness.Encode(command...)), 1, watched)
	frames := w.replies(bytes, block.Frames)
	o := &outcome{server: w.server, queued: frames[block.Command], exec: frames[block.Exec]}
	for i := range block.Checks {
		if o.check, o.err = w.store.ParseCheck(frames[block.Check(i)]); o.err != nil || o.check.Verdict != tokenstore.Good {
			break
		}
	}
	answer, err := harness.Decode(o.exec)
	if err != nil {
		w.Fatal(err)
	}
	if elements, ok := answer.([]any); ok {
		if len(elements) != 1+len(parts) {
			w.Fatalf("EXEC answered %q", o.exec)
		}
		o.reply = elements[0]
		switch settle := elements[len(parts)].(type) {
		case harness.ReplyError:
			o.settled, o.unset = w.store.ParseSettle(resp.AppendError(nil, string(settle)))
		case string:
			o.settled, o.unset = w.store.ParseSettle(resp.AppendBulkString(nil, settle))
		default:
			w.Fatalf("EXEC answered %q", o.exec)
		}
	}
	return o
}

// applied fails the test unless the write was applied, check and settlement being good.
func (o *outcome) applied() *outcome {
	o.Helper()
	if o.reply == nil || o.err != nil || o.unset != nil {
		o.Fatalf("check %+v %v, EXEC %q: not applied", o.check, o.err, o.exec)
	}
	return o
}

// refused fails the test unless the check had this verdict and EXEC applied nothing.
func (o *outcome) refused(verdict tokenstore.Verdict) *outcome {
	o.Helper()
	if o.check.Verdict != verdict || o.reply != nil || string(o.exec) != "*-1\r\n" {
		o.Fatalf("check %+v %v, EXEC %q: want it refused as %s", o.check, o.err, o.exec, verdict)
	}
	return o
}

func TestAWriteUnderTheNewestGrantIsApplied(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		o := s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
		if o.check.Verdict != tokenstore.Good || string(o.queued) != "+QUEUED\r\n" || o.reply != "OK" || o.settled != grant {
			s.Errorf("%+v", o)
		}
		if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", grant, grant); got != want {
			s.Errorf("the record says %q, want %q", got, want)
		}
		if got := s.value("k"); got != "v" {
			s.Errorf("the value is %q", got)
		}
		s.heldBy("") // released with it
	})
}

func TestAWriteMayKeepItsHold(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		since := s.holder().Since
		s.redis.PExpire(s.Context(), record().Keys()[1], time.Second)
		s.wire().commit(holding("a", grant, 1).keep(), "SET", "k", "v").applied()
		s.heldBy("a")
		if h := s.holder(); !h.Since.Equal(since) || h.Name != "a's name" {
			s.Errorf("held by %+v, since %v", h, since)
		}
		if left := s.redis.PTTL(s.Context(), record().Keys()[1]).Val(); left <= time.Second {
			s.Errorf("the lease was not extended: %v", left)
		}
	})
}

func TestAWriteAfterTheEndOfItsHoldIsAppliedWhenNobodyCame(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		s.release(claim("a"), grant, false)
		s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
	})
}

func TestABlindWriteIsGrantedAsItIsApplied(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		first := w.commit(blind("a"), "SET", "k", "v").applied()
		if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", first.settled, first.settled); got != want {
			s.Errorf("the record says %q, want %q", got, want)
		}
		second := w.commit(blind("b"), "SET", "k", "w").applied()
		if second.settled <= first.settled {
			s.Errorf("grant %d after %d", second.settled, first.settled)
		}
		s.heldBy("")
	})
}

func TestAHoldersOwnBlindWriteIsApplied(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		if o := s.wire().commit(blind("a"), "SET", "k", "v").applied(); o.settled <= grant {
			s.Errorf("grant %d after %d", o.settled, grant)
		}
	})
}

func TestARefusedWriteAppliesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		verdict tokenstore.Verdict
		attempt func(*server) attempt
		check   func(*server, tokenstore.Check) // what the answer has to tell
	}{
		"when its record is missing": {
			verdict: tokenstore.Missing,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.redis.Del(s.Context(), record().Keys()[0])
				return holding("a", grant, 1)
			},
		},
		"when the store was flushed": {
			verdict: tokenstore.Missing,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.redis.FlushAll(s.Context())
				return holding("a", grant, 1)
			},
		},
		"when another was granted the session": {
			verdict: tokenstore.Superseded,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.lapse()
				s.grant(claim("b")) // it has only begun to read
				return holding("a", grant, 1)
			},
			check: func(s *server, c tokenstore.Check) {
				if c.Token.Grant != s.newest() || c.Holder.Owner != "b" || c.Holder.Grant != c.Token.Grant {
					s.Errorf("%+v", c)
				}
			},
		},
		"when another has come and gone": {
			verdict: tokenstore.Superseded,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.lapse()
				s.wire().commit(holding("b", s.grant(claim("b")), 1), "SET", "k", "theirs").applied()
				return holding("a", grant, 1)
			},
			check: func(s *server, c tokenstore.Check) {
				if c.Token.Grant != s.newest() || c.Token.StoredGrant != c.Token.Grant || c.Holder.Held() {
					s.Errorf("%+v", c)
				}
			},
		},
		"when another wrote blindly": {
			verdict: tokenstore.Superseded,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.lapse()
				s.wire().commit(blind("b"), "SET", "k", "theirs").applied()
				return holding("a", grant, 1)
			},
		},
		"when its grant was revoked": {
			verdict: tokenstore.Superseded,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.release(claim("a"), grant, true)
				return holding("a", grant, 1)
			},
		},
		"when a grant larger than any is presented": {
			verdict: tokenstore.Superseded,
			attempt: func(s *server) attempt { return holding("a", s.grant(claim("a"))+1, 1) },
		},
		"when its token is stored already": {
			verdict: tokenstore.Stored,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.wire().commit(holding("a", grant, 2), "SET", "k", "once").applied()
				return holding("a", grant, 2)
			},
			check: func(s *server, c tokenstore.Check) {
				if c.Token.StoredGrant != c.Token.Grant || c.Token.StoredSeq != 2 {
					s.Errorf("%+v", c)
				}
			},
		},
		"when a later token is stored": {
			verdict: tokenstore.Stored,
			attempt: func(s *server) attempt {
				grant := s.grant(claim("a"))
				s.wire().commit(holding("a", grant, 10), "SET", "k", "once").applied()
				return holding("a", grant, 9)
			},
		},
		"when it is blind and another holds the session": {
			verdict: tokenstore.Held,
			attempt: func(s *server) attempt {
				s.grant(claim("b"))
				return blind("a")
			},
			check: func(s *server, c tokenstore.Check) {
				if c.Holder.Owner != "b" {
					s.Errorf("%+v", c)
				}
			},
		},
		"when it is blind and the session is reserved for a waiter": {
			verdict: tokenstore.Held,
			attempt: func(s *server) attempt {
				p := s.listen("p")
				grant := s.grant(claim("b"))
				s.beginAs(claim("c"), "p.1", 0)
				s.release(claim("b"), grant, false)
				p.hears("p.1")
				return blind("a")
			},
		},
		"when it is blind and others wait": {
			verdict: tokenstore.Queued,
			attempt: func(s *server) attempt {
				s.grant(claim("b"))
				s.beginAs(claim("c"), "p.1", 0)
				s.lapse()
				return blind("a")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				a := tc.attempt(s)
				value, token, newest := s.value("k"), s.token(), uint64(0)
				if token != "" {
					newest = s.newest()
				}
				w := s.wire()
				o := w.commit(a, "SET", "k", "mine").refused(tc.verdict)
				if o.err != nil || string(o.queued) != "+QUEUED\r\n" {
					s.Errorf("%+v", o)
				}
				if tc.check != nil {
					tc.check(s, o.check)
				}
				if got := s.value("k"); got != value {
					s.Errorf("the value is %q, was %q", got, value)
				}
				if got := s.token(); got != token && token != "" {
					s.Errorf("the record says %q, was %q", got, token)
				}
				// The refused grant stays refused.
				if a.Grant > 0 && tc.verdict != tokenstore.Stored {
					w.commit(a, "SET", "k", "mine").refused(tokenstore.Superseded)
				}
				if got := s.newest(); got < newest {
					s.Errorf("the newest grant is %d, was %d", got, newest)
				}
			})
		})
	}
}

func TestAWriteOnAnotherProvidersRecordIsRefused(t *testing.T) {
	for name, a := range map[string]attempt{"of a holder": holding("a", 7, 1), "that is blind": blind("a")} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				s.redis.Set(s.Context(), record().Keys()[0], "7 0 0 etcd", ttl)
				o := s.wire().commit(a, "SET", "k", "v").refused(tokenstore.Foreign)
				var foreign *tokenstore.ProviderError
				if !errors.As(o.err, &foreign) || foreign.Record != "etcd" || foreign.Configured != "redis" {
					s.Errorf("%v", o.err)
				}
				if got := s.value("k"); got != "" {
					s.Errorf("the value is %q", got)
				}
				if got := s.token(); got != "7 0 0 etcd" {
					s.Errorf("the record says %q", got)
				}
			})
		})
	}
}

func TestAWriteToSeveralSessionsIsAppliedToAllOrNone(t *testing.T) {
	one, other := tokenstore.NewRecord(tokenstore.Area{}, "chat", "one"), tokenstore.NewRecord(tokenstore.Area{}, "chat", "other")
	set := []string{"MSET", "k", "v", "l", "w"}
	each(t, func(s *server) {
		begin := func(r *tokenstore.Record, owner string) attempt {
			b, err := s.store.Begin(s.Context(), r, claim(owner), "", tokenstore.Basis{})
			if err != nil {
				s.Fatal(err)
			}
			return holding(owner, s.granted(b), 1).of(r)
		}
		w := s.wire()
		first, second := begin(one, "a"), begin(other, "a")
		w.block(false, set, first, second).applied()

		first, second = begin(one, "a"), begin(other, "a")
		s.redis.Del(s.Context(), other.Keys()...)
		begin(other, "b")
		before := s.value(one.Keys()[0])
		s.redis.Del(s.Context(), "k", "l")
		w.block(false, set, first, second).refused(tokenstore.Superseded)
		if s.value("k") != "" || s.value("l") != "" || s.value(one.Keys()[0]) != before {
			s.Error("something was applied")
		}
		w.block(false, set, second, first).refused(tokenstore.Superseded)
		if s.value("k") != "" || s.value("l") != "" || s.value(one.Keys()[0]) != before {
			s.Error("something was applied")
		}
	})
}

func TestACommandThatRedisRefusesIsNotApplied(t *testing.T) {
	each(t, func(s *server) {
		grant := s.grant(claim("a"))
		before := s.token()
		o := s.wire().commit(holding("a", grant, 1), "SET", "k")
		if o.check.Verdict != tokenstore.Good || o.queued[0] != '-' || !strings.HasPrefix(string(o.exec), "-EXECABORT") {
			s.Errorf("%+v", o)
		}
		if got := s.token(); got != before {
			s.Errorf("the record says %q, was %q", got, before)
		}
		s.heldBy("a")
	})
}

func TestACommandThatFailsIsSettled(t *testing.T) {
	each(t, func(s *server) {
		s.redis.LPush(s.Context(), "k", "x")
		grant := s.grant(claim("a"))
		o := s.wire().commit(holding("a", grant, 1), "INCR", "k").applied()
		if reply, ok := o.reply.(harness.ReplyError); !ok || !strings.HasPrefix(string(reply), "WRONGTYPE") {
			s.Errorf("the client's reply is %v", o.reply)
		}
		if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", grant, grant); got != want {
			s.Errorf("the record says %q, want %q", got, want)
		}
		s.heldBy("")
	})
}

func TestACommitHandsTheSessionToTheFirstInLine(t *testing.T) {
	for name, before := range map[string]func(*server){
		"when it ends a hold":             func(*server) {},
		"when its hold has ended already": func(s *server) { s.lapse() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				p := s.listen("p")
				grant := s.grant(claim("a"))
				s.beginAs(claim("b"), "p.1", 0)
				before(s)
				s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied()
				handed := p.hears("p.1")
				s.heldBy("b")
				if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", handed, grant); got != want {
					s.Errorf("the record says %q, want %q", got, want)
				}
			})
		})
	}
}

// stand takes the WATCH that is a fence without a check.
func (w *wire) stand() {
	w.Helper()
	if reply := w.replies(w.store.AppendWatch(nil, record()), 1)[0]; string(reply) != "+OK\r\n" {
		w.Fatalf("WATCH: %q", reply)
	}
}

func TestTheWatchTakenWithAReadIsAFenceOfItsOwn(t *testing.T) {
	stands := func(s *server) (*wire, uint64) {
		grant := s.grant(claim("a"))
		w := s.wire()
		w.stand()
		return w, grant
	}
	for name, between := range map[string]func(*server, uint64){
		"nothing": func(*server, uint64) {},
		"arriving waiters": func(s *server, _ uint64) {
			s.beginAs(claim("b"), "p.1", 0)
			s.beginAs(claim("b"), "p.1", 0)
		},
		"a leaving waiter": func(s *server, _ uint64) {
			s.beginAs(claim("b"), "p.1", 0)
			s.leave(claim("b"), "p.1")
		},
		"a renewal":           func(s *server, grant uint64) { s.renewed(claim("a"), grant, false) },
		"the end of the hold": func(s *server, _ uint64) { s.lapse() },
		"a release":           func(s *server, grant uint64) { s.release(claim("a"), grant, false) },
	} {
		t.Run("which stands after "+name, func(t *testing.T) {
			each(t, func(s *server) {
				w, grant := stands(s)
				between(s, grant)
				w.fenced(holding("a", grant, 1), "SET", "k", "v").applied()
				if got, want := s.token(), fmt.Sprintf("%d %d 1 redis", grant, grant); got != want {
					s.Errorf("the record says %q, want %q", got, want)
				}
			})
		})
	}
	for name, between := range map[string]func(*server, uint64){
		"another's begin": func(s *server, _ uint64) {
			s.lapse()
			s.grant(claim("b"))
		},
		"another's blind write": func(s *server, _ uint64) {
			s.lapse()
			s.wire().commit(blind("b"), "SET", "k", "theirs").applied()
		},
		"a hand-over": func(s *server, grant uint64) {
			p := s.listen("p")
			s.beginAs(claim("b"), "p.1", 0)
			s.release(claim("a"), grant, false)
			p.hears("p.1")
		},
		"a revocation":       func(s *server, grant uint64) { s.release(claim("a"), grant, true) },
		"the record's loss":  func(s *server, _ uint64) { s.redis.Del(s.Context(), record().Keys()[0]) },
		"a write of its own": func(s *server, grant uint64) { s.wire().commit(holding("a", grant, 1), "SET", "k", "first").applied() },
	} {
		t.Run("which falls after "+name, func(t *testing.T) {
			each(t, func(s *server) {
				w, grant := stands(s)
				between(s, grant)
				value := s.value("k")
				if o := w.fenced(holding("a", grant, 1), "SET", "k", "mine"); o.reply != nil || string(o.exec) != "*-1\r\n" {
					s.Errorf("EXEC answered %q", o.exec)
				}
				if got := s.value("k"); got != value {
					s.Errorf("the value is %q, was %q", got, value)
				}
			})
		})
	}
}

func TestEveryKeyOfARecordGoesAwayByItself(t *testing.T) {
	each(t, func(s *server) {
		p := s.listen("p")
		most := map[string]time.Duration{record().Keys()[0]: ttl, record().Keys()[1]: lease, record().Keys()[2]: ttl}
		look := func(after string, want ...int) {
			s.Helper()
			for i, key := range record().Keys() {
				left := s.redis.PTTL(s.Context(), key).Val()
				switch {
				case !slices.Contains(want, i):
					if left != -2 {
						s.Errorf("after %s: %s is there", after, key)
					}
				case left <= 0 || left > most[key]:
					s.Errorf("after %s: %s has a TTL of %v", after, key, left)
				}
				// The record was last used long ago; the next use counts from now.
				if i != 1 {
					s.redis.PExpire(s.Context(), key, time.Minute)
				}
			}
		}
		const token, hold, queue = 0, 1, 2
		w := s.wire()
		w.commit(blind("a"), "SET", "k", "v").applied()
		look("a blind write", token)
		grant := s.grant(claim("a"))
		look("a begin", token, hold)
		s.beginAs(claim("b"), "p.1", 0)
		look("a begin that waits", token, hold, queue)
		s.renewed(claim("a"), grant, false)
		look("a renewal", token, hold, queue)
		w.commit(holding("a", grant, 1).keep(), "SET", "k", "v").applied()
		look("a commit that keeps the hold", token, hold, queue)
		w.commit(blind("c"), "SET", "k", "v").refused(tokenstore.Held)
		look("a refused write", token, hold, queue)
		w.commit(holding("a", grant, 2), "SET", "k", "v").applied()
		look("a hand-over", token, hold)
		s.release(claim("b"), p.hears("p.1"), true)
		look("a revocation", token)
		s.redis.Del(s.Context(), record().Keys()[0])
		w.commit(holding("a", grant, 3), "SET", "k", "v").refused(tokenstore.Missing)
		look("a write without a record", token)
		if err := s.store.Settle(s.Context(), &tokenstore.Commit{Record: record(), Claim: claim("a"), Grant: s.newest(), Seq: 1, Keep: true}); err != nil {
			s.Fatal(err)
		}
		look("a settlement of its own", token, hold)
	})
}

func TestUsesOfARecordPutOffItsEnd(t *testing.T) {
	for name, use := range map[string]func(*server, uint64){
		"a begin": func(s *server, grant uint64) {
			s.release(claim("a"), grant, false)
			s.grant(claim("a"))
		},
		"a begin again": func(s *server, _ uint64) { s.grant(claim("a")) },
		"a write":       func(s *server, grant uint64) { s.wire().commit(holding("a", grant, 1), "SET", "k", "v").applied() },
		"a refused one": func(s *server, grant uint64) {
			s.wire().commit(holding("a", grant-1, 1), "SET", "k", "v").refused(tokenstore.Superseded)
		},
		"a blind write": func(s *server, _ uint64) { s.wire().commit(blind("a"), "SET", "k", "v").applied() },
		"a revocation":  func(s *server, grant uint64) { s.release(claim("a"), grant, true) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(s *server) {
				grant := s.grant(claim("a"))
				s.redis.PExpire(s.Context(), record().Keys()[0], time.Minute)
				use(s, grant)
				if left := s.redis.PTTL(s.Context(), record().Keys()[0]).Val(); left <= time.Minute || left > ttl {
					s.Errorf("the record has a TTL of %v", left)
				}
			})
		})
	}
}

func TestAnAnswerThatIsNoAnswerIsAnError(t *testing.T) {
	each(t, func(s *server) {
		for _, frame := range []string{"$2\r\nok\r\n", "*2\r\n$4\r\nheld\r\n$1\r\n1\r\n", ":1\r\n", "-ERR no\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n", ""} {
			if check, err := s.store.ParseCheck([]byte(frame)); err == nil {
				s.Errorf("a check of %q is %+v", frame, check)
			}
			if b, err := s.store.ParseBegin([]byte(frame)); err == nil {
				s.Errorf("a begin of %q is %+v", frame, b)
			}
			if frame != ":1\r\n" {
				if grant, err := s.store.ParseSettle([]byte(frame)); err == nil {
					s.Errorf("a settlement of %q is %d", frame, grant)
				}
			}
		}
		if _, err := s.store.ParseSettle([]byte("$" + strconv.Itoa(len("12")) + "\r\n12\r\n")); err != nil {
			s.Error(err)
		}
	})
}
