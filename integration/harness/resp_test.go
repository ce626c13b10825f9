package harness_test

import (
	"net"
	"reflect"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var replies = []struct {
	raw  string
	want any
}{
	{"+OK\r\n", "OK"},
	{"-ERR no\r\n", harness.ReplyError("ERR no")},
	{":-42\r\n", int64(-42)},
	{"$5\r\na\r\nbc\r\n", "a\r\nbc"},
	{"$0\r\n\r\n", ""},
	{"$-1\r\n", nil},
	{"*-1\r\n", nil},
	{"*0\r\n", []any{}},
	{"*3\r\n$1\r\na\r\n*1\r\n:1\r\n$-1\r\n", []any{"a", []any{int64(1)}, nil}},
	{"_\r\n", nil},
	{"#t\r\n", true},
	{",1.5\r\n", 1.5},
	{"(12345678901234567890\r\n", "12345678901234567890"},
	{"!5\r\nERR x\r\n", harness.ReplyError("ERR x")},
	{"=7\r\ntxt:abc\r\n", "abc"},
	{"~1\r\n:1\r\n", []any{int64(1)}},
	{">2\r\n+a\r\n+b\r\n", []any{"a", "b"}},
	{"%1\r\n+k\r\n:1\r\n", []any{"k", int64(1)}},
	{"|1\r\n+ttl\r\n:9\r\n+OK\r\n", "OK"},
}

func TestDecodeKnowsEveryReplyType(t *testing.T) {
	for _, r := range replies {
		got, err := harness.Decode([]byte(r.raw))
		if err != nil || !reflect.DeepEqual(got, r.want) {
			t.Errorf("Decode(%q) = %#v, %v, want %#v", r.raw, got, err, r.want)
		}
	}
	for _, raw := range []string{"", "+OK", "$3\r\nab\r\n", "$1\r\nabc", "*1\r\n", "?\r\n", "+OK\r\n+OK\r\n"} {
		if got, err := harness.Decode([]byte(raw)); err == nil {
			t.Errorf("Decode(%q) = %#v, want an error", raw, got)
		}
	}
}

func TestReadReplyTakesExactlyOne(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn := harness.Dial(t, listener.Addr().String())
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	for _, r := range replies {
		if _, err := peer.Write([]byte(r.raw)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range replies {
		if got := conn.ReadReply(); string(got) != r.raw {
			t.Errorf("read %q, want %q", got, r.raw)
		}
	}
}
