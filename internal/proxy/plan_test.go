package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// meaning is what a plan says, in words.
func meaning(p plan) string {
	kind := "read"
	switch {
	case len(p.parts)+len(p.reached) == 0:
		return "pass"
	case len(p.parts) == 0:
		kind = "pass"
	case p.writes && p.atomic:
		kind = "atomic"
	case p.writes:
		kind = "write"
	}
	if p.reads {
		kind = "reading " + kind
	}
	for _, q := range p.parts {
		kind += " " + q.sequence.Record.Session
		if db := q.sequence.Record.DB; db != 0 {
			kind += fmt.Sprintf("@%d", db)
		}
		if len(q.keys) > 1 {
			kind += fmt.Sprintf("(%d keys)", len(q.keys))
		}
	}
	for _, r := range p.reached {
		kind += fmt.Sprintf(" by %s*%s", r.prefix, r.suffix)
	}
	return kind
}

// means is what a call means to the guard.
func (c *client) means(words string) (string, error) {
	args := call(words)
	cmd, _ := c.srv.commands.table.Lookup(args)
	p, err := c.plan(cmd, args)
	return meaning(p), err
}

func TestACommandMeans(t *testing.T) {
	for _, tc := range []struct{ call, want string }{
		{"GET agent:s1:k", "read s1"},
		{"get agent:s1:k", "read s1"},
		{"HGETALL agent:s1:k", "read s1"},
		{"LRANGE agent:s1:k 0 -1", "read s1"},
		{"EXISTS agent:s1:k", "read s1"},
		{"OBJECT ENCODING agent:s1:k", "read s1"},
		{"XREAD COUNT 1 STREAMS agent:s1:k 0", "read s1"},
		{"EVAL_RO return 1 agent:s1:k", "read s1"},
		{"GETEX agent:s1:k", "read s1"},
		{"PFCOUNT agent:s1:k", "read s1"},

		{"SET agent:s1:k v", "write s1"},
		{"SET agent:s1:k v NX", "write s1"},
		{"DEL agent:s1:k", "write s1"},
		{"HSET agent:s1:k f v", "write s1"},
		{"LPOP agent:s1:k", "write s1"},
		{"GETDEL agent:s1:k", "write s1"},
		{"GETSET agent:s1:k v", "write s1"},
		{"EVAL return 1 agent:s1:k", "write s1"},
		{"GEORADIUS other 1 1 1 m STORE agent:s1:k", "write s1"},
		{"ZUNIONSTORE agent:s1:k 2 a b", "write s1"},
		{"SORT other STORE agent:s1:k", "write s1"},

		{"COPY agent:s1:k other", "reading atomic s1"},
		{"SUNIONSTORE other agent:s1:k agent:s2:k", "reading atomic s1 s2"},
		{"SORT agent:s1:k STORE other", "reading atomic s1"},
		{"ZRANGESTORE agent:free:k agent:s1:k 0 -1", "reading atomic s1"},
		{"GETEX agent:s1:k EX 10", "reading atomic s1"},
		{"GETEX agent:s1:k PERSIST", "reading atomic s1"},
		{"GETEX agent:s1:k EXAT 1", "reading write s1"}, // perhaps it deletes the key
		{"GETEX agent:s1:k pxat 1", "reading write s1"},

		{"RPUSH agent:s1:k v", "atomic s1"},
		{"APPEND agent:s1:k v", "atomic s1"},
		{"INCR agent:s1:k", "atomic s1"},
		{"HINCRBY agent:s1:k f 1", "atomic s1"},
		{"SADD agent:s1:k v", "atomic s1"},
		{"SETNX agent:s1:k v", "atomic s1"},
		{"XADD agent:s1:k * f v", "atomic s1"},
		{"BLPOP agent:s1:k agent:s2:k 0", "atomic s1 s2"},
		{"XREAD BLOCK 0 STREAMS agent:s1:k $", "read s1"},

		{"EXPIRE agent:s1:k 10", "pass"},
		{"PEXPIRE agent:s1:k 10", "pass"},
		{"PERSIST agent:s1:k", "pass"},
		{"EXPIRE agent:s1:k nonsense", "pass"}, // Redis refuses it
		{"EXPIRE agent:s1:k", "pass"},
		{"EXPIRE agent:s1:k 0", "write s1"}, // it deletes the key
		{"PEXPIRE agent:s1:k -5", "write s1"},
		{"EXPIREAT agent:s1:k 1", "write s1"}, // perhaps it does
		{"PEXPIREAT agent:s1:k 1", "write s1"},

		{"GET other", "pass"},
		{"SET other v", "pass"},
		{"GET agent:free:k", "pass"},
		{"SET agent:free:k v", "pass"},
		{"PING", "pass"},
		{"ECHO agent:s1:k", "pass"}, // a word, no key
		{"SET other agent:s1:k", "pass"},
		{"PUBLISH agent:s1:k v", "pass"},
		{"SUBSCRIBE agent:s1:k", "pass"},
		{"WATCH agent:s1:k", "pass"}, // it reads no value
		{"FLUSHALL", "pass"},
		{"KEYS agent:*", "pass"},
		{"NOSUCH other", "pass"}, // Redis may know it

		{"MGET agent:s1:a agent:s1:b", "read s1(2 keys)"},
		{"MGET agent:s2:a other agent:s1:a agent:s2:b", "read s1 s2(2 keys)"},
		{"MGET agent:free:a agent:s1:a", "read s1"},
		{"MSET agent:s2:a 1 agent:s1:a 2", "write s1 s2"},
		{"MSETNX agent:s2:a 1 agent:s1:a 2", "atomic s1 s2"},
		{"RENAME agent:s2:a agent:s1:a", "write s1 s2"},
		{"RENAME other agent:s1:a", "write s1"},
		{"COPY agent:s1:a agent:s2:a", "write s1 s2"},
		{"LMOVE agent:s1:a agent:s2:a LEFT RIGHT", "write s1 s2"},
		{"GET agent:unfit", "read =agent:unfit"}, // a session of its own
		{"MGET shared:a agent:s1:a", "read s1 shared:a"},

		{"SORT other BY w_*", "pass"},
		{"SORT other BY agent:free:*", "pass"},
		{"SORT other BY agent:s1:w_*", "pass by agent:s1:w_*"},
		{"SORT other GET agent:s*:d->f GET # GET agent:*->", "pass by agent:s*:d by agent:*->"},
		{"SORT_RO other BY nosort GET a*", "pass by a*"},
		{"SORT agent:s1:k GET agent:s2:*", "read s1 by agent:s2:*"},
		{"SORT agent:s1:k GET agent:s2:* STORE agent:s3:k", "write s1 s3 by agent:s2:*"},

		{"MOVE agent:s1:a 1", "write s1 s1@1"},
		{"MOVE other 1", "pass"},
		{"COPY agent:s1:a agent:s2:a DB 1", "write s1 s2@1"},
		{"COPY agent:s1:a agent:s2:a DB 1 REPLACE DB 0", "write s1 s2"},
		{"COPY agent:s1:a DB DB 1", "reading atomic s1"},
		{"COPY other agent:s1:a DB 1", "write s1@1"},
	} {
		t.Run(tc.call, func(t *testing.T) {
			c, _ := connect(t, offline(t), "tcp")
			got, err := c.means(tc.call)
			if err != nil || got != tc.want {
				t.Errorf("it means %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestACommandIsDenied(t *testing.T) {
	nothing := func(*state) {}
	multi := func(s *state) { s.multi = true }
	for _, tc := range []struct {
		call  string
		state func(*state)
		want  string // "": it is not
	}{
		{"GET fence-proxy:{chat:s1}:t", nothing, `the key "fence-proxy:{chat:s1}:t" is reserved`},
		{"DEL other fence-proxy:x", nothing, "is reserved"},
		{"NOSUCH fence-proxy:x", nothing, "is reserved"},
		{"NOSUCH a agent:s1:k", nothing, `the command "NOSUCH" is not in the upstream's command table`},
		{"NOSUCH agent:free:k", nothing, ""},
		{"MOVE agent:s1:a 0", nothing, ""},
		{"COPY agent:s1:a agent:s2:a DB 0", nothing, ""},
		{"BLPOP agent:s1:a 0", nothing, ""},
		{"XREAD BLOCK 0 STREAMS agent:s1:a $", nothing, ""},
		{"XREAD STREAMS agent:s1:a 0", nothing, ""},
		{"BLPOP other 0", nothing, ""},
		{"GET agent:s1:a", multi, ""},
		{"BLPOP agent:s1:a 0", multi, ""}, // it doesn't block there
		{"GET other", multi, ""},
		{"EXPIRE agent:s1:a 10", multi, ""},
	} {
		t.Run(tc.call, func(t *testing.T) {
			c, _ := connect(t, offline(t), "tcp")
			tc.state(&c.state)
			_, err := c.means(tc.call)
			var denied *deniedError
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("denied: %v", err)
			case tc.want != "" && (!errors.As(err, &denied) || !strings.Contains(denied.reason, tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestLongNamesAreClippedInRefusals(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	long := strings.Repeat("x", 10_000)
	for _, words := range []string{"GET fence-proxy:" + long, long + " agent:s1:k"} {
		if _, err := c.means(words); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.400v", err)
		}
	}
}

func TestSequencesBelongToTheRulesOwner(t *testing.T) {
	s := offline(t)
	a, _ := connect(t, s, "tcp")
	b, _ := connect(t, s, "tcp")
	sequence := func(c *client, words string) any {
		args := call(words)
		cmd, _ := s.commands.table.Lookup(args)
		p, err := c.plan(cmd, args)
		if err != nil {
			t.Fatal(err)
		}
		return p.parts[0].sequence
	}
	if sequence(a, "GET agent:s1:k") == sequence(b, "GET agent:s1:k") {
		t.Error("two connections share a sequence")
	}
	if sequence(a, "GET agent:s1:k") != sequence(a, "SET agent:s1:other v") {
		t.Error("a connection has two sequences on a session")
	}
	if sequence(a, "GET shared:k") != sequence(b, "SET shared:k v") {
		t.Error("two connections do not share the proxy's sequence")
	}
	before := sequence(a, "GET agent:s1:k")
	a.state.db = 1
	if sequence(a, "GET agent:s1:k") == before {
		t.Error("two databases share a sequence")
	}
}

func TestTheSameKeyHasTheSameHash(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	hashes := func(words string) []uint64 {
		args := call(words)
		cmd, _ := c.srv.commands.table.Lookup(args)
		p, err := c.plan(cmd, args)
		if err != nil {
			t.Fatal(err)
		}
		return append([]uint64(nil), p.parts[0].keys...)
	}
	read := hashes("MGET agent:s1:a agent:s1:b")
	if written := hashes("SET agent:s1:b v"); written[0] != read[1] || written[0] == read[0] {
		t.Errorf("read %v, written %v", read, written)
	}
}
