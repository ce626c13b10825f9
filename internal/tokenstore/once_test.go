package tokenstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// once is a command that is to be carried out once.
func once(id string, words ...string) *tokenstore.Once {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	return tokenstore.NewOnce(record(), []byte(id), time.Minute, false, args)
}

// says carries it out, or has it repeated.
func (w *wire) says(o *tokenstore.Once) (string, error) {
	w.Helper()
	reply, err := w.store.ParseOnce(w.replies(w.store.AppendOnce(nil, o), 1)[0])
	return string(reply), err
}

func (w *wire) looks(o *tokenstore.Once) (string, error) {
	w.Helper()
	kept, err := o.ParseLook(w.replies(o.AppendLook(nil), 1)[0])
	return string(kept), err
}

func TestACommandIsCarriedOutOnceAndItsReplyKept(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		for _, c := range []struct{ command, want string }{
			{"SET k 5", "+OK\r\n"},
			{"INCR k", ":6\r\n"},
			{"GETSET k v", "$1\r\n6\r\n"},
			{"SET k w NX", "$-1\r\n"},
			{"RPUSH l a b", ":2\r\n"},
			{"LPOP l 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
			{"LPOP l", "$-1\r\n"},
		} {
			if c.command == "LPOP l 2" && !errors.Is(s.redis.Do(s.Context(), "LPOP", "none", 2).Err(), redis.Nil) { // since 6.2
				s.redis.Del(s.Context(), "l")
				continue
			}
			o := once(c.command, strings.Fields(c.command)...)
			if kept, err := w.looks(o); kept != "" || err != nil {
				s.Errorf("%s: kept before: %q %v", c.command, kept, err)
			}
			for range 2 {
				if got, err := w.says(o); got != c.want || err != nil {
					s.Errorf("%s: %q %v, want %q", c.command, got, err, c.want)
				}
			}
			if kept, err := w.looks(once(c.command, strings.Fields(strings.ToLower(c.command[:3])+c.command[3:])...)); kept != c.want || err != nil {
				s.Errorf("%s: kept: %q %v", c.command, kept, err)
			}
		}
		if got := s.value("k"); got != "v" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestAnIDIsForOneCommand(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		if _, err := w.says(once("id", "INCRBY", "n", "11")); err != nil {
			s.Fatal(err)
		}
		for _, other := range [][]string{{"INCRBY", "n", "1"}, {"INCRBY", "n1", "1"}, {"DECRBY", "n", "11"}} {
			if _, err := w.says(once("id", other...)); !errors.Is(err, tokenstore.ErrOtherCommand) {
				s.Errorf("%q: %v", other, err)
			}
			if _, err := w.looks(once("id", other...)); !errors.Is(err, tokenstore.ErrOtherCommand) {
				s.Errorf("%q: %v", other, err)
			}
		}
		if got := s.value("n"); got != "11" {
			s.Errorf("the value is %q", got)
		}
	})
}

func TestNothingIsKeptOfACommandThatFails(t *testing.T) {
	each(t, func(s *server) {
		w := s.wire()
		s.redis.Set(s.Context(), "k", "text", 0)
		o := once("id", "INCR", "k")
		if got, err := w.says(o); !strings.HasPrefix(got, "-ERR value is not an integer") || err != nil {
			s.Errorf("%q %v", got, err)
		}
		if kept, err := w.looks(o); kept != "" || err != nil {
			s.Errorf("kept: %q %v", kept, err)
		}
		s.redis.Set(s.Context(), "k", "1", 0)
		if got, err := w.says(o); got != ":2\r\n" || err != nil {
			s.Errorf("%q %v", got, err)
		}
	})
}
