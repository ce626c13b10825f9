package upstream

import (
	"strings"
	"testing"
)

func TestAClientGetsNothingOfAnExchangeThatIsWithdrawn(t *testing.T) {
	for name, set := range map[string]func(*Exchange){
		"a command": func(x *Exchange) { x.Reset(2, 1, false, func(byte) bool { return true }) },
		"a transaction": func(x *Exchange) {
			x.Reset(2, 1, true, func(byte) bool { return true })
			x.From, x.To = 0, 1
			x.Whole = true
		},
		"one that is kept":  func(x *Exchange) { x.Reset(2, -1, false, nil) },
		"one not permitted": func(x *Exchange) { x.Reset(2, 1, false, func(byte) bool { return false }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := NewExchange()
			set(x)
			s.Send(x, nil)
			if !x.Withdraw() {
				t.Error("it has begun before a reply came")
			}
			if err := s.Local([]byte("-over\r\n")); err != nil {
				t.Error(err)
			}
			s.replies("+OK\r\n*1\r\n:1\r\n")
			s.done(x, nil)
			if x.Streamed {
				t.Error("it says that the client has got its reply")
			}
			s.got("-over\r\n")
		})
	}
}

// What is said instead is said though the connection breaks.
func TestAnExchangeThatIsWithdrawnOwesNothing(t *testing.T) {
	s := newScene(t)
	x := NewExchange()
	x.Reset(2, 1, true, func(byte) bool { return true })
	x.To = 1
	s.Send(x, nil)
	x.Withdraw()
	if err := s.Local([]byte("-over\r\n")); err != nil {
		t.Error(err)
	}
	s.replies("+OK\r\n")
	s.done(x, ErrLost)
	s.got("-over\r\n")
}

func TestAnExchangeThatHasBegunIsNotWithdrawn(t *testing.T) {
	for _, reply := range []string{"$3\r\nabc\r\n", "$3\r\nab", "$"} {
		s := newScene(t)
		x := s.exchange(2, 1, false, true)
		s.replies("+OK\r\n" + reply)
		if x.Withdraw() || !x.Streamed {
			t.Errorf("%q: it has begun, and was withdrawn", reply)
		}
		s.got(reply)
	}
	s := newScene(t)
	x := NewExchange()
	x.Reset(2, 1, true, func(byte) bool { return true })
	x.To = 1
	s.Send(x, nil)
	s.replies("+OK\r\n") // MULTI's
	if x.Withdraw() {
		t.Error("a transaction was withdrawn whose client knows that it has begun")
	}
}

// Receiver and sender decide at the same time: one of them does.
func TestTheClientGetsItsReplyOrAnother(t *testing.T) {
	for range 2000 {
		s := newScene(t)
		x := s.exchange(1, 0, false, true)
		withdrew := make(chan bool)
		go func() { withdrew <- x.Withdraw() }()
		s.replies("+reply\r\n")
		if got := s.client.String(); <-withdrew == strings.Contains(got, "reply") {
			t.Fatalf("it got %q", got)
		}
	}
}
