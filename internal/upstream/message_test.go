package upstream

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// hidden is what does not show in these tests.
func hidden(name []byte) bool { return bytes.HasPrefix(name, []byte("fence-proxy:")) }

// array is an array of bulk strings and, where an element is a number, integers; '>' makes it a push.
func array(typ string, elems ...any) string {
	text := fmt.Sprintf("%s%d\r\n", typ, len(elems))
	for _, e := range elems {
		switch e := e.(type) {
		case int:
			text += fmt.Sprintf(":%d\r\n", e)
		case []string:
			text += fmt.Sprintf("*%d\r\n", len(e))
			for _, s := range e {
				text += fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
			}
		case nil:
			text += "$-1\r\n"
		case string:
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(e), e)
		}
	}
	return text
}

// cutAnywhere hears the same replies whole, and cut at each place, and then byte by byte.
func cutAnywhere(t *testing.T, replies string, play func(t *testing.T, pieces ...string)) {
	t.Helper()
	play(t, replies)
	for i := 1; i < len(replies); i++ {
		play(t, replies[:i], replies[i:])
	}
	play(t, strings.Split(replies, "")...)
}

func TestASubscribersRepliesAreToldFromMessages(t *testing.T) {
	text := strings.Repeat("message\r\n", 20)
	replies := array("*", "message", "not yet", "a reply") +
		array("*", "subscribe", "a", 1) + array("*", "message", "a", text) + array("*", "subscribe", "b", 2) +
		array("*", "pong", "") + array("*", "message", "b", "") + "-ERR Can't execute 'get'\r\n" +
		array("*", "psubscribe", "p*", 3) + array("*", "pmessage", "p*", "pa", text) +
		array("*", "ssubscribe", "s", 1) + array("*", "smessage", "s", text) +
		array("*", "subscribe", "b", 3) + array("*", "unsubscribe", "none", 3) +
		array("*", "unsubscribe", "a", 2) + array("*", "message", "b", text) + array("*", "unsubscribe", "b", 1) +
		array("*", "punsubscribe", "p*", 0) + array("*", "sunsubscribe", "s", 0) +
		array("*", "message", "not any more", "a reply") + array("*", "unsubscribe", nil, 0) + "-ERR wrong number\r\n" + "+QUEUED\r\n" + "+last\r\n"
	cutAnywhere(t, replies, func(t *testing.T, pieces ...string) {
		t.Helper()
		s := newScene(t)
		kept := s.exchange(1, -1, false, false)
		s.PassConfirmed(nil, "subscribe", 2)
		s.Pass(nil, 1)
		refused := s.exchange(1, 0, false, true)
		s.PassConfirmed(nil, "psubscribe", 1)
		s.PassConfirmed(nil, "ssubscribe", 1)
		s.PassConfirmed(nil, "subscribe", 1)
		s.PassConfirmed(nil, "unsubscribe", 1)
		s.PassConfirmed(nil, "unsubscribe", 0)
		between := NewExchange()
		var listens, subscribed bool
		between.Reset(0, -1, false, nil)
		s.Send(between, nil)
		s.PassConfirmed(nil, "punsubscribe", 0)
		s.PassConfirmed(nil, "sunsubscribe", 1)
		after := s.exchange(1, -1, false, false)
		after.After = func(m *Mode) { listens, subscribed = m.Listens(), m.Subscribed() }
		s.PassConfirmed(nil, "unsubscribe", 0)
		s.PassConfirmed(nil, "subscribe", 3)
		s.PassConfirmed(nil, "subscribe", 3)
		last := s.exchange(1, -1, false, false)
		s.replies(pieces...)
		s.done(kept, nil)
		s.done(refused, nil)
		s.done(between, nil)
		s.done(after, nil)
		s.done(last, nil)
		s.kept(kept, array("*", "message", "not yet", "a reply"))
		s.kept(after, array("*", "message", "not any more", "a reply"))
		s.kept(last, "+last\r\n")
		if listens || subscribed {
			t.Error("it is still taken for a subscriber")
		}
		want := strings.Replace(replies, array("*", "message", "not yet", "a reply"), "", 1)
		want = strings.Replace(want, array("*", "message", "not any more", "a reply"), "", 1)
		s.got(strings.TrimSuffix(want, "+last\r\n"))
	})
}

func TestInRESP3AnArrayIsNeverAMessage(t *testing.T) {
	replies := array(">", "subscribe", "a", 1) + array("*", "message", "a", "reply") + array(">", "message", "a", "text") +
		array("*", "subscribe", "a", 5) + array(">", "unsubscribe", "a", 0) + "+last\r\n"
	cutAnywhere(t, replies, func(t *testing.T, pieces ...string) {
		t.Helper()
		s := newScene(t)
		s.SetMode(Mode{RESP3: true})
		s.PassConfirmed(nil, "subscribe", 1)
		s.Pass(nil, 2)
		s.PassConfirmed(nil, "unsubscribe", 0)
		last := s.exchange(1, -1, false, false)
		s.replies(pieces...)
		s.done(last, nil)
		s.got(strings.TrimSuffix(replies, "+last\r\n"))
		if s.Mode().Subscribed() {
			t.Error("it is still taken for a subscriber")
		}
	})
}

func TestRepliesToAQuietSenderGoNowhereButMessagesDo(t *testing.T) {
	messages := array("*", "subscribe", "a", 1) + array("*", "message", "a", "text")
	replies := "+dropped\r\n" + messages + "-ERR dropped\r\n$4\r\nlost\r\n*1\r\n+gone\r\n+heard\r\n"
	cutAnywhere(t, replies, func(t *testing.T, pieces ...string) {
		t.Helper()
		s := newScene(t)
		s.Quiet = true
		s.Pass(nil, 1)
		s.PassConfirmed(nil, "subscribe", 1)
		s.PassConfirmed(nil, "psubscribe", 1)
		_ = s.Local([]byte("-unsaid\r\n"))
		read, write := s.exchange(1, 0, false, true), s.exchange(1, 0, true, true)
		s.Quiet = false
		s.Pass(nil, 1)
		s.replies(pieces...)
		s.done(read, nil)
		s.done(write, nil)
		if !read.Streamed || !write.Streamed {
			t.Error("what the client may have was not told")
		}
		s.got(messages + "+heard\r\n")
	})
}

func TestLinesOfMonitorAreToldFromReplies(t *testing.T) {
	shown := "+1700000000.000001 [0 127.0.0.1:1] \"get\" \"k\"\r\n"
	secret := "+1700000000.123456 [0 lua] \"get\" \"fence-proxy:{r:s}:t\"\r\n"
	replies := "+OK\r\n" + shown + "+PONG\r\n" + secret + "+17\r\n" + shown + secret + "$1\r\nx\r\n" + "+1700.5 x\r\n"
	cutAnywhere(t, replies, func(t *testing.T, pieces ...string) {
		t.Helper()
		s := newScene(t)
		s.Hidden = hidden
		begin := s.exchange(1, 0, false, true)
		begin.After = func(m *Mode) { m.Monitors = true }
		s.Pass(nil, 2)
		x := s.exchange(2, -1, false, false)
		s.replies(pieces...)
		s.done(begin, nil)
		s.done(x, nil)
		s.kept(x, "$1\r\nx\r\n", "+1700.5 x\r\n")
		s.got("+OK\r\n" + shown + "+PONG\r\n" + "+17\r\n" + shown)
	})
}

func TestHiddenNamesDoNotShowInMessages(t *testing.T) {
	const key = "fence-proxy:{r:s}:t"
	long := strings.Repeat("x", 100)
	for _, m := range []struct{ sent, want string }{
		{array("~", "message", "__keyspace@0__:"+key, "set"), ""},
		{array("~", "pmessage", "__key*", "__keyspace@15__:"+key, "set"), ""},
		{array("~", "message", "__keyevent@0__:set", key), ""},
		{array("~", "pmessage", "*", "__keyevent@0__:expired", key), ""},
		{array("~", "message", key, "text"), ""},
		{array("~", "pmessage", "*", key, long), ""},
		{array("~", "message", "__redis__:invalidate", []string{key}), ""},
		{array("~", "message", "__redis__:invalidate", []string{"a", key, "b", key}), array("~", "message", "__redis__:invalidate", []string{"a", "b"})},
		{array("~", "message", "__redis__:invalidate", []string{"a"}), "same"},
		{array("~", "message", "__redis__:invalidate", nil), "same"},
		{array("~", "pmessage", "*", "__redis__:invalidate", key), "same"},
		{array("~", "message", "__keyspace@0__:k", key), "same"},
		{array("~", "message", "__keyspace@0"+long, key), "same"},
		{array("~", "message", "__keyevent@0__:"+long, key), "same"},
		{array("~", "message", "__keyevent@0__:set", long+key), "same"},
		{array("~", "message", "a", key), "same"},
		{array("~", "message", long, long), "same"},
		{array("~", "smessage", key, "text"), ""},
	} {
		if m.want == "same" {
			m.want = m.sent
		}
		for _, typ := range []string{"*", ">"} {
			m.sent, m.want = strings.Replace(m.sent, "~", typ, 1), strings.Replace(m.want, "~", typ, 1)
			cutAnywhere(t, m.sent+"+end\r\n", func(t *testing.T, pieces ...string) {
				t.Helper()
				s := newScene(t)
				s.Hidden = hidden
				s.SetMode(Mode{RESP3: typ == ">", channels: 1})
				s.Pass(nil, 1)
				s.replies(pieces...)
				s.got(m.want + "+end\r\n")
			})
			m.sent, m.want = strings.Replace(m.sent, typ, "~", 1), strings.Replace(m.want, typ, "~", 1)
		}
	}
	for sent, want := range map[string]string{
		array(">", "invalidate", []string{key}):             "",
		array(">", "invalidate", []string{key, "k"}):        array(">", "invalidate", []string{"k"}),
		array(">", "invalidate", []string{"k"}):             array(">", "invalidate", []string{"k"}),
		">2\r\n$10\r\ninvalidate\r\n_\r\n":                  ">2\r\n$10\r\ninvalidate\r\n_\r\n",
		array(">", "tracking-redir-broken", 7):              array(">", "tracking-redir-broken", 7),
		">2\r\n+simple\r\n$3\r\nabc\r\n":                    ">2\r\n+simple\r\n$3\r\nabc\r\n",
		">0\r\n":                                            ">0\r\n",
		array(">", strings.Repeat("a word ", 10), "a", "b"): array(">", strings.Repeat("a word ", 10), "a", "b"),
	} {
		cutAnywhere(t, sent+"+end\r\n", func(t *testing.T, pieces ...string) {
			t.Helper()
			s := newScene(t)
			s.Hidden = hidden
			s.Pass(nil, 1)
			s.replies(pieces...)
			s.got(want + "+end\r\n")
		})
	}
}
