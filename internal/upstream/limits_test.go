package upstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

func TestRequestsAreCountedUntilTheyAreAnswered(t *testing.T) {
	s := newScene(t)
	unanswered := func(want int) {
		t.Helper()
		if n := s.Unanswered(); n != want {
			t.Errorf("%d requests wait, want %d", n, want)
		}
	}
	unanswered(0)
	s.Pass(nil, 2)
	s.Pass(nil, 1)
	x := s.exchange(2, -1, false, false)
	_ = s.Local([]byte("-no\r\n"))
	s.Drop(nil, 1)
	unanswered(6)
	room := s.Room(3)
	s.peer.pieces = [][]byte{[]byte("+1\r\n+2\r\n"), []byte("+3\r\n+x\r\n+y\r\n+z\r\n")}
	select {
	case <-room:
		t.Error("there is room for more than three")
	default:
	}
	s.replies()
	<-room
	s.done(x, nil)
	unanswered(0)
	<-s.Room(0)
	s.got("+1\r\n+2\r\n+3\r\n-no\r\n")
}

func TestThereIsRoomAtOnceOrWhenTheConnectionEnds(t *testing.T) {
	s := newScene(t)
	s.Pass(nil, 3)
	<-s.Room(3)
	room := s.Room(2)
	select {
	case <-room:
		t.Error("there is room for three")
	default:
	}
	s.replies()
	<-room
	<-s.Room(0)
}

func TestRepliesThatWaitForTheirPlaceAreKeptUpToALimit(t *testing.T) {
	s := newScene(t)
	s.Limit(Limits{Kept: 10 * (placeCost + 5)})
	s.Pass(nil, 1)
	for range 10 {
		if err := s.Local([]byte("-no\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Local([]byte("-no\r\n")); !errors.Is(err, ErrTooMuch) {
		t.Errorf("got %v", err)
	}
	s.replies("+1\r\n")
	s.got("+1\r\n" + strings.Repeat("-no\r\n", 10))
	if s.Conn.kept != 0 {
		t.Errorf("%d bytes count though nothing waits", s.Conn.kept)
	}
}

func TestAnExchangeKeepsNoMoreThanItMay(t *testing.T) {
	s := newScene(t)
	s.Limit(Limits{Kept: 30})
	x := s.exchange(1, -1, false, false)
	s.peer.pieces = [][]byte{[]byte("$100\r\nxxxxxxxxxxxxxxxxxxxxxxxxx"), []byte("xxxxxxxxxxxxxxxxxxx")}
	if err := s.Serve(); !errors.Is(err, ErrTooMuch) {
		t.Errorf("served until %v", err)
	}
	if !errors.Is(x.Err, ErrLost) {
		t.Errorf("the exchange ended with %v", x.Err)
	}
	s.done(x, ErrTooMuch)
}

func TestAReplyThatIsNestedTooDeepEndsTheService(t *testing.T) {
	s := newScene(t)
	s.Limit(Limits{Nesting: 3})
	s.Pass(nil, 2)
	s.peer.pieces = [][]byte{[]byte("*1\r\n*1\r\n*1\r\n:1\r\n"), []byte("*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n")}
	var protocol *resp.ProtocolError
	if err := s.Serve(); !errors.As(err, &protocol) || protocol.Limit != resp.LimitNesting {
		t.Errorf("served until %v", err)
	}
}

// Only the client whose replies they are is affected.
func TestACallWhoseRepliesAreTooMuchGetsThoseThatFit(t *testing.T) {
	e := newEcho(t)
	s := e.shared(t, 1)
	s.Limit(Limits{Kept: 19})
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"one", long, "two"}, "+one\r\n"},
		{[]string{long}, ""},
		{[]string{"one", "two", "three", "four"}, "+one\r\n+two\r\n"}, // and no part of a reply
	} {
		if got, err := say(s, c.lines...); got != c.want || !errors.Is(err, ErrTooMuch) {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
		if got, err := say(s, "next"); got != "+next\r\n" || err != nil {
			t.Errorf("then %q, %v", got, err)
		}
	}
	if n := e.dialled.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

func TestALargeBufferIsNotKept(t *testing.T) {
	s := newScene(t)
	x := s.exchange(1, -1, false, false)
	large := strings.Repeat("x", 1<<20)
	s.replies("$1048576\r\n" + large + "\r\n")
	s.done(x, nil)
	x.Reset(1, -1, false, nil)
	if cap(x.kept) > keepLen {
		t.Errorf("%d bytes are kept", cap(x.kept))
	}
}
