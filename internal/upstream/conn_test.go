package upstream

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRepliesArePassedAsTheyCome(t *testing.T) {
	s := newScene(t)
	s.Pass([]byte("a"), 1)
	s.Pass([]byte("b"), 0) // a command without a reply
	s.Pass([]byte("c"), 2)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil { // there is nothing more
		t.Fatal(err)
	}
	if len(s.peer.requests) != 1 || s.peer.requests[0] != "abc" {
		t.Errorf("sent %q, want it in one write", s.peer.requests)
	}
	s.replies("+OK\r\n$3\r\na\nb\r\n", "*2\r\n:1\r\n$-1\r\n")
	s.got("+OK\r\n$3\r\na\nb\r\n*2\r\n:1\r\n$-1\r\n")
	if s.client.flushed != len(s.client.String()) {
		t.Error("what was read last was not flushed")
	}
}

func TestAnExchangeKeepsItsReplies(t *testing.T) {
	s := newScene(t)
	x := s.exchange(3, -1, false, false)
	s.replies("+A\r\n*2\r\n:1\r\n:2\r\n$-1\r\n")
	s.done(x, nil)
	s.kept(x, "+A\r\n", "*2\r\n:1\r\n:2\r\n", "$-1\r\n")
	s.got("")
}

func TestTheClientsReplyAmongThemIsStreamedIfItMayHaveIt(t *testing.T) {
	for stream, want := range map[int]string{0: "+A\r\n", 1: "$1\r\nB\r\n", 2: ":3\r\n"} {
		s := newScene(t)
		x := s.exchange(3, stream, false, true)
		s.replies("+A\r\n$1\r\nB\r\n:3\r\n")
		s.done(x, nil)
		s.got(want)
		frames := []string{"+A\r\n", "$1\r\nB\r\n", ":3\r\n"}
		frames[stream] = ""
		s.kept(x, frames...)
		if !x.Streamed || x.StreamType != want[0] {
			t.Errorf("streamed %v %q", x.Streamed, x.StreamType)
		}
	}
}

func TestTheClientsReplyIsDroppedIfItMayNotHaveIt(t *testing.T) {
	s := newScene(t)
	x := s.exchange(3, 1, false, false)
	s.replies("+A\r\n$5\r\nvalue\r\n:3\r\n")
	s.done(x, nil)
	s.got("")
	s.kept(x, "+A\r\n", "", ":3\r\n")
	if x.Streamed || x.StreamType != '$' {
		t.Errorf("streamed %v %q", x.Streamed, x.StreamType)
	}
}

func TestTheDecisionKnowsTheRepliesBeforeAndTheReplysType(t *testing.T) {
	s := newScene(t)
	x := NewExchange()
	asked := 0
	x.Reset(3, 2, false, func(typ byte) bool {
		asked++
		if got := string(x.Frame(0)) + string(x.Frame(1)); got != "+A\r\n:2\r\n" || typ != '$' {
			t.Errorf("asked with %q and a %q", got, typ)
		}
		return true
	})
	s.Send(x, nil)
	s.replies("+A\r\n:2\r\n$", "1\r\nB\r\n")
	s.done(x, nil)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestAnExecsArrayIsTakenApart(t *testing.T) {
	for name, tc := range map[string]struct {
		reply, client string
		frames        []string
		typ           byte
	}{
		"a status":        {"*3\r\n+OK\r\n$1\r\n7\r\n$1\r\n8\r\n", "+OK\r\n", []string{"$1\r\n7\r\n", "$1\r\n8\r\n"}, '+'},
		"an error":        {"*2\r\n-WRONGTYPE x\r\n$1\r\n7\r\n", "-WRONGTYPE x\r\n", []string{"$1\r\n7\r\n"}, '-'},
		"a null":          {"*2\r\n$-1\r\n$1\r\n7\r\n", "$-1\r\n", []string{"$1\r\n7\r\n"}, '$'},
		"a null array":    {"*2\r\n*-1\r\n$1\r\n7\r\n", "*-1\r\n", []string{"$1\r\n7\r\n"}, '*'},
		"a nested array":  {"*2\r\n*2\r\n*1\r\n:1\r\n*0\r\n$1\r\n7\r\n", "*2\r\n*1\r\n:1\r\n*0\r\n", []string{"$1\r\n7\r\n"}, '*'},
		"a map":           {"*2\r\n%1\r\n+k\r\n,1.5\r\n+7\r\n", "%1\r\n+k\r\n,1.5\r\n", []string{"+7\r\n"}, '%'},
		"a null of RESP3": {"*2\r\n_\r\n+7\r\n", "_\r\n", []string{"+7\r\n"}, '_'},
		"nothing else":    {"*1\r\n:1\r\n", ":1\r\n", nil, ':'},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := s.exchange(3, 2, true, true)
			s.replies("+OK\r\n+QUEUED\r\n" + tc.reply)
			s.done(x, nil)
			s.got(tc.client)
			s.kept(x, append([]string{"+OK\r\n", "+QUEUED\r\n", ""}, tc.frames...)...)
			if !x.Opened || !x.Streamed || x.StreamType != tc.typ {
				t.Errorf("opened %v, streamed %v %q", x.Opened, x.Streamed, x.StreamType)
			}
		})
	}
}

func TestSeveralElementsOfAnExecGoDownstreamAsAnArray(t *testing.T) {
	for name, tc := range map[string]struct {
		replies, client string
		may             bool
		frames          []string
		refused         bool
		failed          []int
	}{
		"all": {
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*1\r\n:1\r\n$-1\r\n$1\r\n7\r\n",
			"+QUEUED\r\n+QUEUED\r\n*2\r\n*1\r\n:1\r\n$-1\r\n", true,
			[]string{"+OK\r\n", "", "", "+QUEUED\r\n", "", "", "$1\r\n7\r\n"},
			false, nil,
		},
		"errors among them": {
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n-ERR x\r\n!3\r\nERR\r\n",
			"+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n-ERR x\r\n", true,
			[]string{"+OK\r\n", "", "", "+QUEUED\r\n", "", "", "!3\r\nERR\r\n"},
			false,
			[]int{1, 2},
		},
		"none, since it may not": {
			"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:2\r\n:3\r\n", "+QUEUED\r\n+QUEUED\r\n", false,
			[]string{"+OK\r\n", "", "", "+QUEUED\r\n", "", "", ":3\r\n"},
			false, nil,
		},
		"none, since one was not queued": {
			"+OK\r\n+QUEUED\r\n-ERR x\r\n+QUEUED\r\n-EXECABORT\r\n", "+QUEUED\r\n-ERR x\r\n", true,
			[]string{"+OK\r\n", "", "", "+QUEUED\r\n", "-EXECABORT\r\n"},
			true, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := NewExchange()
			x.Reset(5, 4, true, func(byte) bool { return tc.may })
			x.From, x.To, x.Whole, x.Tail = 1, 3, true, 1
			s.Send(x, nil)
			s.replies(tc.replies)
			s.done(x, nil)
			s.got(tc.client)
			s.kept(x, tc.frames...)
			if x.Refused != tc.refused || !slices.Equal(x.Failed, tc.failed) {
				t.Errorf("refused %v, failed %v", x.Refused, x.Failed)
			}
		})
	}
}

func TestAnExecThatAppliedNothingIsKept(t *testing.T) {
	for name, reply := range map[string]string{
		"nil": "*-1\r\n", "nil in RESP3": "_\r\n", "an error": "-EXECABORT x\r\n", "nothing at all": "*0\r\n", "an error in RESP3": "!3\r\nERR\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			x := s.exchange(3, 2, true, true)
			s.Pass(nil, 1)
			s.replies("+OK\r\n+QUEUED\r\n" + reply + "+next\r\n")
			s.done(x, nil)
			s.kept(x, "+OK\r\n", "+QUEUED\r\n", reply)
			s.got("+next\r\n")
			if x.Opened || x.Streamed {
				t.Errorf("opened %v, streamed %v", x.Opened, x.Streamed)
			}
		})
	}
}

func TestAnExecsReplyIsDroppedIfTheClientMayNotHaveIt(t *testing.T) {
	s := newScene(t)
	x := s.exchange(2, 1, true, false)
	s.replies("+OK\r\n*2\r\n$5\r\nvalue\r\n:7\r\n")
	s.done(x, nil)
	s.got("")
	s.kept(x, "+OK\r\n", "", ":7\r\n")
	if !x.Opened || x.Streamed || x.StreamType != '$' {
		t.Errorf("opened %v, streamed %v %q", x.Opened, x.Streamed, x.StreamType)
	}
}

func TestRepliesComeInTheOrderOfTheirRequests(t *testing.T) {
	s := newScene(t)
	local := func(reply string) {
		if err := s.Local([]byte(reply)); err != nil {
			t.Fatal(err)
		}
	}
	local("-first\r\n") // nothing is awaited
	s.Pass([]byte("a"), 1)
	local("-after a\r\n")
	local("-and again\r\n")
	s.Pass([]byte("b"), 2)
	x := s.exchange(2, 1, false, true)
	local("-after x\r\n")
	y := s.exchange(1, -1, false, false)
	s.Pass([]byte("c"), 1)
	local("-last\r\n")
	s.replies("+a\r\n+b1\r\n+b2\r\n+kept\r\n+x\r\n+y\r\n+c\r\n")
	s.got("-first\r\n+a\r\n-after a\r\n-and again\r\n+b1\r\n+b2\r\n+x\r\n-after x\r\n+c\r\n-last\r\n")
	s.done(x, nil)
	s.done(y, nil)
}

func TestALocalReplyBelongsToTheConnection(t *testing.T) {
	s := newScene(t)
	reply := []byte("-mine\r\n")
	s.Pass(nil, 1)
	if err := s.Local(reply); err != nil {
		t.Fatal(err)
	}
	copy(reply, "-YOURS") // the caller goes on using it
	s.replies("+a\r\n")
	s.got("+a\r\n-mine\r\n")
}

func TestRepliesToADroppedRequestGoNowhere(t *testing.T) {
	s := newScene(t)
	s.Pass([]byte("a"), 1)
	s.Drop([]byte("u"), 2)
	s.Pass([]byte("b"), 1)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	s.replies("+a\r\n+1\r\n+2\r\n+b\r\n")
	s.got("+a\r\n+b\r\n")
}

// play is a connection's whole life: every kind of reply, in pieces of the sizes given.
func play(t *testing.T, replies string, cuts ...int) (client string, frames []string) {
	t.Helper()
	s := newScene(t)
	s.Pass(nil, 2)
	read := s.exchange(2, 1, false, true)
	_ = s.Local([]byte("-local\r\n"))
	dropped := s.exchange(2, 1, false, false)
	applied := s.exchange(4, 3, true, true)
	refused := s.exchange(2, 1, true, true)
	aborted := s.exchange(2, 1, true, true)
	s.Pass(nil, 1)
	last := 0
	var pieces []string
	for _, cut := range append(cuts, len(replies)) {
		pieces = append(pieces, replies[last:cut])
		last = cut
	}
	s.replies(pieces...)
	for _, x := range []*Exchange{read, dropped, applied, refused, aborted} {
		s.done(x, nil)
		for i := range x.ends {
			frames = append(frames, string(x.Frame(i)))
		}
		frames = append(frames, fmt.Sprintf("%v %v %q", x.Opened, x.Streamed, x.StreamType))
	}
	return s.client.String(), frames
}

const everything = "+one\r\n$12\r\nwith\r\nbreaks\r\n" + // passed
	"*3\r\n$7\r\ngranted\r\n:1\r\n$0\r\n\r\n" + "*2\r\n$3\r\nabc\r\n$-1\r\n" + // read
	">2\r\n+push\r\n:1\r\n" +
	"*1\r\n$4\r\nheld\r\n" + "$6\r\nsecret\r\n" + // dropped
	"+OK\r\n$4\r\ngood\r\n+QUEUED\r\n" + "*2\r\n%1\r\n+k\r\n*0\r\n$16\r\n1234567890123456\r\n" + // applied
	">1\r\n+push\r\n" +
	"*3\r\n$5\r\nstale\r\n$0\r\n\r\n$-1\r\n" + "*-1\r\n" + // refused
	"-ERR syntax\r\n" + "-EXECABORT because\r\n" + // aborted
	"|1\r\n+ttl\r\n:9\r\n:2\r\n" // passed, with an attribute

func TestRepliesMayBeCutAnywhere(t *testing.T) {
	client, frames := play(t, everything)
	want := "+one\r\n$12\r\nwith\r\nbreaks\r\n*2\r\n$3\r\nabc\r\n$-1\r\n-local\r\n>2\r\n+push\r\n:1\r\n%1\r\n+k\r\n*0\r\n>1\r\n+push\r\n|1\r\n+ttl\r\n:9\r\n:2\r\n"
	if client != want {
		t.Fatalf("the client got %q, want %q", client, want)
	}
	same := func(cuts ...int) {
		t.Helper()
		c, f := play(t, everything, cuts...)
		if c != client || !slices.Equal(f, frames) {
			t.Fatalf("cut at %v, the client got %q and the exchanges %q", cuts, c, f)
		}
	}
	all := make([]int, 0, len(everything)-1)
	for i := 1; i < len(everything); i++ {
		same(i)
		all = append(all, i)
		for j := i + 1; j < len(everything); j += 7 {
			same(i, j)
		}
	}
	same(all...)
}

func TestPushesGoDownstreamWheneverTheyCome(t *testing.T) {
	const push = ">3\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n:1\r\n"
	replies := []string{"+a\r\n", "+kept\r\n", "$1\r\nb\r\n", "$4\r\ngood\r\n", "+QUEUED\r\n", "*2\r\n+c\r\n:1\r\n", "+d\r\n"}
	const plain = "+a\r\n$1\r\nb\r\n+c\r\n+d\r\n"
	for at := range len(replies) + 1 {
		for _, cut := range []int{0, 1, 5, len(push) - 1} {
			s := newScene(t)
			s.Pass(nil, 1)
			x := s.exchange(2, 1, false, true)
			y := s.exchange(3, 2, true, true)
			s.Pass(nil, 1)
			before, after := strings.Join(replies[:at], ""), strings.Join(replies[at:], "")
			s.replies(before+push[:cut], push[cut:]+after)
			s.done(x, nil)
			s.done(y, nil)
			s.kept(x, "+kept\r\n", "")
			s.kept(y, "$4\r\ngood\r\n", "+QUEUED\r\n", "", ":1\r\n")
			if got := s.client.String(); strings.Replace(got, push, "", 1) != plain || len(got) != len(plain)+len(push) {
				t.Errorf("with a push at %d, cut at %d, the client got %q", at, cut, got)
			}
		}
	}
}

func TestAReplyOfOurOwnIsNeverInsideAPush(t *testing.T) {
	const push = ">2\r\n$4\r\npush\r\n:1\r\n"
	for cut := 1; cut < len(push); cut++ {
		s := newScene(t)
		if _, err := s.reply([]byte(push[:cut])); err != nil {
			t.Fatal(err)
		}
		_ = s.Local([]byte("-local\r\n"))
		s.Pass(nil, 1)
		s.replies(push[cut:], "+a\r\n")
		if got := s.client.String(); got != push+"-local\r\n+a\r\n" && got != "-local\r\n"+push+"+a\r\n" {
			t.Errorf("cut at %d, the client got %q", cut, got)
		}
	}
}

func TestAfterRawEverythingGoesDownstreamUnframed(t *testing.T) {
	s := newScene(t)
	s.Pass(nil, 1)
	x := s.exchange(1, -1, false, false)
	s.Raw()
	s.Pass(nil, 0)
	s.replies("+a\r\n+x\r\n$3\r\nab", "no RESP at all \x00\n", "more")
	s.got("+a\r\n$3\r\nabno RESP at all \x00\nmore")
	s.done(x, nil)
}

func TestReplyOfNobodyGoesDownstream(t *testing.T) {
	s := newScene(t)
	s.replies("-ERR max number of clients reached\r\n")
	s.got("-ERR max number of clients reached\r\n")
}

func TestAnUpstreamThatDoesNotSpeakRESPIsLeft(t *testing.T) {
	for name, prepare := range map[string]func(*scene){
		"between replies":   func(*scene) {},
		"in a passed reply": func(s *scene) { s.Pass(nil, 1) },
		"in an exchange":    func(s *scene) { s.exchange(2, 1, false, true) },
		"in an EXEC":        func(s *scene) { s.exchange(1, 0, true, true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			prepare(s)
			s.peer.pieces = [][]byte{[]byte("HTTP/1.1 400 Bad Request\r\n")}
			if err := s.Serve(); err == nil || !strings.Contains(err.Error(), "does not speak RESP") {
				t.Errorf("served until %v", err)
			}
			s.got("")
		})
	}
}

func TestAClientThatTakesNoMoreEndsTheService(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, prepare := range map[string]func(*scene){
		"in a passed reply":   func(s *scene) { s.Pass(nil, 1) },
		"in a streamed reply": func(s *scene) { s.exchange(1, 0, false, true) },
		"in raw bytes":        func(s *scene) { s.Raw() },
		"in a reply of ours": func(s *scene) {
			s.exchange(1, -1, false, false)
			_ = s.Local([]byte("-local\r\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			prepare(s)
			s.client.broken = broken
			s.peer.pieces = [][]byte{[]byte("+a\r\n")}
			if err := s.Serve(); !errors.Is(err, broken) {
				t.Errorf("served until %v", err)
			}
		})
	}
}

func TestExchangesThatAreOpenWhenTheConnectionBreaksAreLost(t *testing.T) {
	s := newScene(t)
	done := s.exchange(1, -1, false, false)
	half := s.exchange(2, 1, false, true)
	untouched := s.exchange(2, 1, true, true)
	s.replies("+a\r\n+b\r\n")
	s.done(done, nil)
	s.done(half, ErrLost)
	s.done(untouched, ErrLost)
	s.got("")
	if s.Outstanding() {
		t.Error("replies are still awaited")
	}

	late := s.exchange(1, 0, false, true)
	s.done(late, ErrLost)
	s.Drop([]byte("u"), 1)
}

func TestAnExchangeIsLostWhereverItsRepliesEnd(t *testing.T) {
	const replies = "$4\r\ngood\r\n+QUEUED\r\n*2\r\n$5\r\nvalue\r\n:7\r\n"
	for cut := range len(replies) {
		s := newScene(t)
		x := s.exchange(3, 2, true, true)
		s.replies(replies[:cut])
		s.done(x, ErrLost)
	}
}

func TestARefusalAfterALossHasAPlaceOnlyIfNoOtherReplyIsOwed(t *testing.T) {
	const refusal = "-FENCEDOWN\r\n"
	for name, tc := range map[string]struct {
		prepare func(*scene)
		replies string
		want    string
	}{
		"nothing is awaited":               {func(*scene) {}, "", refusal},
		"all replies have come":            {func(s *scene) { s.Pass(nil, 1) }, "+a\r\n", "+a\r\n" + refusal},
		"an exchange has no reply":         {func(s *scene) { s.exchange(2, 1, false, true) }, "", refusal},
		"an exchange has some replies":     {func(s *scene) { s.exchange(2, 1, false, true) }, "+kept\r\n+ha", "+ha"},
		"an exchange has half a reply":     {func(s *scene) { s.exchange(2, 1, false, true) }, "+ke", refusal},
		"an exchange's reply was streamed": {func(s *scene) { s.exchange(1, 0, true, true) }, "*2\r\n+OK\r\n", "+OK\r\n"},
		"an exchange's reply was dropped":  {func(s *scene) { s.exchange(2, 0, false, false) }, "+OK\r\n", refusal},
		"a dropped request is open": {func(s *scene) {
			s.Drop(nil, 1)
			s.exchange(2, 1, false, true)
		}, "", refusal},
		"a passed reply is missing": {func(s *scene) { s.Pass(nil, 2) }, "+a\r\n", "+a\r\n"},
		"a passed reply is missing before an exchange": {func(s *scene) {
			s.Pass(nil, 1)
			s.exchange(1, 0, false, true)
		}, "", ""},
		"half a push has come":   {func(s *scene) { s.exchange(2, 1, false, true) }, ">2\r\n+a\r\n", ">2\r\n+a\r\n"},
		"half a reply of nobody": {func(*scene) {}, "$9\r\nabc", "$9\r\nabc"},
		"it was raw":             {func(s *scene) { s.Raw() }, "abc", "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			tc.prepare(s)
			s.replies(tc.replies)
			err := s.Local([]byte(refusal))
			s.got(tc.want)
			if placed := strings.HasSuffix(tc.want, refusal); placed != (err == nil) || !placed && !errors.Is(err, ErrLost) {
				t.Errorf("it got %v", err)
			}
		})
	}
}

func TestARefusalThatWaitsForItsPlaceWhenTheConnectionBreaksIsGivenWhereItHasOne(t *testing.T) {
	s := newScene(t)
	s.Pass(nil, 1)
	s.exchange(1, 0, false, true)
	_ = s.Local([]byte("-unknown\r\n"))
	s.replies("+a\r\n")
	s.got("+a\r\n-unknown\r\n")

	s = newScene(t)
	s.Pass(nil, 1)
	_ = s.Local([]byte("-denied\r\n"))
	s.replies("")
	s.got("")
}

func TestARequestAfterTheLossIsOwedItsReply(t *testing.T) {
	s := newScene(t)
	s.replies("")
	s.Pass([]byte("late"), 1)
	if !s.Owes() {
		t.Error("nothing is owed")
	}
	if err := s.Local([]byte("-after it\r\n")); !errors.Is(err, ErrLost) {
		t.Errorf("a reply behind one that never comes got %v", err)
	}
	s.got("")
}

func TestARequestThatCannotBeSentIsLost(t *testing.T) {
	s := newScene(t)
	s.peer.broken = net.ErrClosed
	s.Pass([]byte("a"), 1)
	if err := s.Flush(); !errors.Is(err, ErrLost) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestOutstandingSaysWhetherRepliesAreStillToCome(t *testing.T) {
	s := newScene(t)
	expect := func(want bool) {
		t.Helper()
		if got := s.Outstanding(); got != want {
			t.Errorf("outstanding: %v, want %v", got, want)
		}
	}
	take := func(data string) {
		t.Helper()
		for len(data) > 0 {
			n, err := s.reply([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			data = data[n:]
		}
	}
	expect(false)
	s.Pass(nil, 0)
	expect(false)
	s.Pass(nil, 2)
	expect(true)
	take("+a\r\n")
	expect(true)
	take("+b\r\n")
	expect(false)
	s.exchange(1, 0, true, true)
	expect(true)
	take("*2\r\n+a\r\n")
	expect(true)
	take("+b\r\n")
	expect(false)
	s.Raw()
	expect(false) // nothing more is awaited
	take("abc")
	expect(false)
}

func TestAnExchangeIsUsedAgain(t *testing.T) {
	s := newScene(t)
	x := s.exchange(3, 2, true, true)
	s.Pass(nil, 1)
	take := func(replies string) {
		for data := []byte(replies); len(data) > 0; {
			n, err := s.reply(data)
			if err != nil {
				t.Fatal(err)
			}
			data = data[n:]
		}
		s.signal()
	}
	take("+OK\r\n+QUEUED\r\n*2\r\n+a\r\n:1\r\n+passed\r\n")
	s.done(x, nil)
	x.Err = ErrLost
	x.Done <- struct{}{} // a wake-up that nobody took
	x.Reset(2, -1, false, nil)
	s.Send(x, nil)
	take("+b\r\n+c\r\n")
	s.done(x, nil)
	s.kept(x, "+b\r\n", "+c\r\n")
	if x.Opened || x.Streamed {
		t.Errorf("opened %v, streamed %v", x.Opened, x.Streamed)
	}
}

// TestARandomConversationKeepsItsOrder runs sender and receiver in goroutines of their own, against
// a peer that answers each request with what the request says.
func TestARandomConversationKeepsItsOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		near, far := net.Pipe()
		down := &client{}
		c := NewConn(near, down)
		var work sync.WaitGroup
		work.Go(func() { _, _ = io.Copy(far, far) }) // a request is its own reply
		work.Go(func() { _ = c.Serve() })

		var want strings.Builder
		var open []*Exchange
		x := func(n int) string { return fmt.Sprintf("$5\r\n%05d\r\n", n) }
		for n := range 500 {
			switch r.IntN(6) {
			case 0, 1:
				c.Pass([]byte(x(n)), 1)
				want.WriteString(x(n))
			case 2:
				_ = c.Local([]byte(x(n)))
				want.WriteString(x(n))
			case 3:
				e := NewExchange()
				keep := r.IntN(2) == 0
				e.Reset(3, 1, false, func(byte) bool { return keep })
				c.Send(e, []byte(x(n)+x(n)+x(n)))
				open = append(open, e)
				if keep {
					want.WriteString(x(n))
				}
			case 4:
				e := NewExchange()
				e.Reset(2, 1, true, func(byte) bool { return true })
				c.Send(e, []byte("+OK\r\n*2\r\n"+x(n)+":1\r\n"))
				open = append(open, e)
				want.WriteString(x(n))
			default:
				if err := c.Flush(); err != nil {
					t.Fatal(err)
				}
				if len(open) > 0 {
					<-open[len(open)-1].Done
					open = open[:0]
				}
			}
		}
		last := NewExchange()
		last.Reset(1, -1, false, nil)
		c.Send(last, []byte("+end\r\n"))
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		<-last.Done
		_ = c.Close()
		_ = far.Close()
		work.Wait()
		if got := down.String(); got != want.String() {
			t.Fatalf("seed %d: the client got\n%q, want\n%q", seed, got, want.String())
		}
	}
}

func TestRequestsThatStayInPlaceAreSentInTheirOrder(t *testing.T) {
	s := newScene(t)
	place := []byte("in place")
	s.Pass([]byte("a"), 1)
	s.PassInPlace(place[:2], 1)
	s.PassInPlace(place[2:], 2)
	for range 1000 {
		s.Pass([]byte("and much more "), 0)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	copy(place, "changed!")
	s.Pass([]byte("b"), 1)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(s.peer.requests, ""), "ain place"+strings.Repeat("and much more ", 1000)+"b"; got != want {
		t.Errorf("sent %.40q … %d bytes, want %.40q … %d", got, len(got), want, len(want))
	}
	s.replies("+a\r\n+1\r\n-2\r\n", "+3\r\n+b\r\n")
	s.got("+a\r\n+1\r\n-2\r\n+3\r\n+b\r\n")
	if s.Outstanding() || s.Errors() != 1 {
		t.Errorf("outstanding %v, %d errors", s.Outstanding(), s.Errors())
	}
}
