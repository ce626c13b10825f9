package resp

import "testing"

func TestEncoding(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{AppendCommand([]byte("x"), []byte("GET"), nil), "x*2\r\n$3\r\nGET\r\n$0\r\n\r\n"},
		{AppendCommandStrings(nil, "GET", "k\n"), "*2\r\n$3\r\nGET\r\n$2\r\nk\n\r\n"},
		{AppendArray(nil, 2), "*2\r\n"},
		{AppendBulk(nil, []byte("a")), "$1\r\na\r\n"},
		{AppendBulkString(nil, "ab"), "$2\r\nab\r\n"},
		{AppendInt(nil, -5), ":-5\r\n"},
		{AppendSimple(nil, "a\nb"), "+a b\r\n"},
		{AppendError(nil, "ERR a\r\nb"), "-ERR a  b\r\n"},
		{AppendNull(nil, false), "$-1\r\n"},
		{AppendNull(nil, true), "_\r\n"},
		{AppendNullArray(nil, false), "*-1\r\n"},
		{AppendNullArray(nil, true), "_\r\n"},
		{AppendSet(nil, 2, false), "*2\r\n"},
		{AppendSet(nil, 2, true), "~2\r\n"},
		{AppendDouble(nil, []byte("1.5"), false), "$3\r\n1.5\r\n"},
		{AppendDouble(nil, []byte("1.5"), true), ",1.5\r\n"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestEncodingIntoSpareRoomAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 256)
	key := []byte("key")
	if allocs := testing.AllocsPerRun(100, func() {
		buf = AppendCommand(buf[:0], key, key)
		buf = AppendCommandStrings(buf, "GET", "key")
		buf = AppendError(buf, "ERR x")
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
