package tokenstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

func TestAllProxiesHaveOneSalt(t *testing.T) {
	each(t, func(s *server) {
		first, err := s.store.Salt(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		second, err := s.another("redis").Salt(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		if len(first) < 16 || first != second {
			s.Errorf("the salts are %q and %q", first, second)
		}
	})
}

func TestWhoHasComeSinceAHoldIsFound(t *testing.T) {
	each(t, func(s *server) {
		next := func(after uint64) uint64 {
			s.Helper()
			notes := []tokenstore.Note{{Rule: record().Rule, Session: record().Session, Grant: after}, {Rule: record().Rule, Session: "another"}}
			if err := s.another("redis").FindNext(s.Context(), notes); err != nil {
				s.Fatal(err)
			}
			if notes[1].Next != 0 {
				s.Errorf("a session without a record has %d", notes[1].Next)
			}
			return notes[0].Next
		}
		first := s.grant(claim("a"))
		if got := next(first); got != 0 {
			s.Errorf("after the hold itself: %d", got)
		}
		s.release(claim("a"), first, true)
		if got := next(first); got != 0 {
			s.Errorf("nobody has come: %d", got)
		}
		second := s.grant(claim("b"))
		if got := next(first); got != second {
			s.Errorf("the holder is %d, and not %d", second, got)
		}
	})
}

func TestNotesOfTheNewestHoldsAreFound(t *testing.T) {
	each(t, func(s *server) {
		note := func(db int, session string, grant uint64, trace string) tokenstore.Note {
			return tokenstore.Note{Area: tokenstore.Area{DB: db}, Rule: "r", Session: session, Grant: grant, Trace: trace}
		}
		const newest = 1_796_002_384_095_576
		for i := range uint64(40) {
			kept := []tokenstore.Note{note(0, "a", newest-39+i, "trace"+strings.Repeat("x", int(i))), note(1, "a", newest, "other"), note(0, "b", newest, "b's")}
			if err := s.store.KeepNotes(s.Context(), kept); err != nil {
				s.Fatal(err)
			}
		}
		found := []tokenstore.Note{note(0, "a", newest, ""), note(0, "a", newest-15, ""), note(0, "a", newest-16, ""), note(1, "a", newest, ""), note(0, "b", newest, ""), note(0, "c", newest, "")}
		if err := s.another("redis").FindNotes(s.Context(), found); err != nil {
			s.Fatal(err)
		}
		var traces []string
		for _, n := range found {
			traces = append(traces, n.Trace)
		}
		if want := []string{"trace" + strings.Repeat("x", 39), "trace" + strings.Repeat("x", 24), "", "other", "b's", ""}; !slices.Equal(traces, want) {
			s.Errorf("found %q, want %q", traces, want)
		}
		for _, key := range s.redis.Keys(s.Context(), "*").Val() {
			if ttl := s.redis.PTTL(s.Context(), key).Val(); ttl <= 0 {
				s.Errorf("%s stays for ever", key)
			}
		}
	})
}
