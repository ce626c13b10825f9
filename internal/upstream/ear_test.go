package upstream

import (
	"strings"
	"testing"
)

// ear remembers what it has heard, a "|" between two parts and a "." at the end.
type ear struct{ heard strings.Builder }

func (e *ear) Hear(part []byte, done bool) {
	e.heard.Write(part)
	if done {
		e.heard.WriteByte('.')
	} else {
		e.heard.WriteByte('|')
	}
}

func (e *ear) Lost() { e.heard.WriteString("lost") }

func TestAnEarHearsTheReplyToOneRequest(t *testing.T) {
	s := newScene(t)
	first, second, third := &ear{}, &ear{}, &ear{}
	s.Pass([]byte("a"), 1)
	s.Ear = first
	s.Pass([]byte("b"), 1)
	s.Pass([]byte("c"), 1)
	s.Ear = second
	s.Send(NewExchange(), nil) // nothing is sent
	x := s.exchange(1, -1, false, false)
	s.Ear = third
	s.Pass([]byte("d"), 1)
	s.replies("+A\r\n$4\r\nbb", "bb\r\n+C\r\n", "*1\r\n:1\r\n")
	s.done(x, nil)
	s.got("+A\r\n$4\r\nbbbb\r\n+C\r\n")
	for e, want := range map[*ear]string{first: "$4\r\nbb|bb\r\n.", second: "*1\r\n:1\r\n.", third: "lost"} {
		if got := e.heard.String(); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
}

func TestAnEarHearsNoMessages(t *testing.T) {
	s := newScene(t)
	s.SetMode(Mode{RESP3: true})
	e := &ear{}
	s.Ear = e
	s.Pass([]byte("a"), 1)
	message := ">3\r\n+message\r\n$1\r\nx\r\n$1\r\ny\r\n"
	s.replies(message + "$1\r\na\r\n" + message)
	s.got(message + "$1\r\na\r\n" + message)
	if got := e.heard.String(); got != "$1\r\na\r\n." {
		t.Errorf("heard %q", got)
	}
}

func TestAnEarIsLeftWhereNothingIsAppended(t *testing.T) {
	s := newScene(t)
	s.replies()
	e := &ear{}
	s.Ear = e
	s.Pass([]byte("a"), 1)
	if s.Ear != e || e.heard.Len() > 0 {
		t.Errorf("heard %q", &e.heard)
	}
}
