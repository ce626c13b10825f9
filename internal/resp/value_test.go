package resp

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// show tells a value in one line.
func show(v Value) string {
	s := string(v.Type)
	if v.Null {
		s += "null"
	}
	if v.Str != nil {
		s += fmt.Sprintf("%q", v.Str)
	}
	if v.Int != 0 {
		s += fmt.Sprint(v.Int)
	}
	if v.Elems != nil {
		s += "["
		for _, e := range v.Elems {
			s += show(e)
		}
		s += "]"
	}
	return s
}

func TestValuesOfEveryType(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"+OK\r\n", `+"OK"`},
		{"-ERR x\r\n", `-"ERR x"`},
		{":-12\r\n", `:"-12"-12`},
		{":+7\r\n", `:"+7"7`},
		{":-9223372036854775808\r\n", `:"-9223372036854775808"-9223372036854775808`},
		{"$2\r\n\r\n\r\n", `$"\r\n"`},
		{"$0\r\n\r\n", `$""`},
		{"$-1\r\n", `$null`},
		{"*-1\r\n", `*null`},
		{"_\r\n", `_null`},
		{"*0\r\n", `*[]`},
		{"*2\r\n:1\r\n*1\r\n+a\r\n", `*[:"1"1*[+"a"]]`},
		{"%1\r\n+k\r\n#t\r\n", `%[+"k"#"t"1]`},
		{"~1\r\n#f\r\n", `~[#"f"]`},
		{">1\r\n,1.5\r\n", `>[,"1.5"]`},
		{",-inf\r\n", `,"-inf"`},
		{"(-123\r\n", `("-123"`},
		{"!3\r\nERR\r\n", `!"ERR"`},
		{"=5\r\ntxt:a\r\n", `="txt:a"`},
		{"|1\r\n+k\r\n+v\r\n|0\r\n:1\r\n", `:"1"1`},
		{"*1\r\n|1\r\n+k\r\n*0\r\n+a\r\n", `*[+"a"]`},
	} {
		v, n, err := ParseValue([]byte(c.in + "+next"))
		if err != nil || n != len(c.in) || show(v) != c.want {
			t.Errorf("ParseValue(%q) = %s, %d, %v, want %s", c.in, show(v), n, err, c.want)
		}
		if v.IsError() != (c.in[0] == '-' || c.in[0] == '!') {
			t.Errorf("%q: IsError = %t", c.in, v.IsError())
		}
		for i := range c.in {
			if _, n, err := ParseValue([]byte(c.in[:i])); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("ParseValue(%q) = %d, %v", c.in[:i], n, err)
			}
		}
	}
}

func TestMalformedValuesAreRefused(t *testing.T) {
	for _, in := range []string{
		"?", "x\r\n", "\r\n", "+a\n", "+\n", ":\r\n", ":1x\r\n", ":9223372036854775808\r\n", "#x\r\n", "#\r\n", "_x\r\n", ",x\r\n", "(\r\n", "(-\r\n", "(1x\r\n",
		"$\r\n", "$-2\r\n", "$01\r\n", "$1\r\nabc", "*-2\r\n", "%-1\r\n", "*1\r\n?\r\n", "*9223372036854775807\r\n", "|-1\r\n", "=-1\r\n",
		strings.Repeat("*1\r\n", 33) + ":1\r\n",
	} {
		_, n, err := ParseValue([]byte(in))
		var protocol *ProtocolError
		if n != 0 || !errors.As(err, &protocol) {
			t.Errorf("ParseValue(%q) = %d, %v", in, n, err)
		}
	}
	if _, _, err := ParseValue([]byte(strings.Repeat("*1\r\n", 32) + ":1\r\n")); err != nil {
		t.Errorf("32 levels: %v", err)
	}
}

func TestSizesAreNotBelieved(t *testing.T) {
	frame := []byte(strings.Repeat("*1000000\r\n", 32) + strings.Repeat(" ", 1000000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := ParseValue(frame)
	runtime.ReadMemStats(&after)
	if size := after.TotalAlloc - before.TotalAlloc; size > 1<<18 || err == nil {
		t.Errorf("%d bytes allocated, %v", size, err)
	}
	for _, in := range []string{"*1000000\r\n:1\r\n", "$1000000\r\nab", "%4611686018427387903\r\n"} {
		if _, _, err := ParseValue([]byte(in)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("ParseValue(%q): %v", in, err)
		}
	}
}

func TestArrayHeaders(t *testing.T) {
	for _, c := range []struct {
		in    string
		count int64
		null  bool
		n     int
		ok    bool
	}{
		{"*0\r\n", 0, false, 4, true},
		{"*12\r\n+a\r\n", 12, false, 5, true},
		{"*-1\r\n", 0, true, 5, true},
		{"_\r\n", 0, true, 3, true},
		{in: "_x\r\n", n: 4},
		{in: "*"},
		{in: "*1\r"},
		{in: "*1\n"},
		{in: "*-2\r\n"},
		{in: "$-1\r\n"},
		{in: "~1\r\n"},
		{in: ""},
		{in: "-ERR\r\n"},
	} {
		count, null, n, ok := ArrayHeader([]byte(c.in))
		if ok != c.ok || ok && (count != c.count || null != c.null || n != c.n) {
			t.Errorf("ArrayHeader(%q) = %d, %t, %d, %t", c.in, count, null, n, ok)
		}
	}
}

// TestValuesEndWhereTheirFramesEnd compares the two readers of replies.
func TestValuesEndWhereTheirFramesEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		frame := appendRandomReply(rng, nil, 3)
		if _, n, err := ParseValue(frame); n != len(frame) || err != nil {
			t.Fatalf("ParseValue(%q) = %d, %v", frame, n, err)
		}
		var f Framer
		if n, done, err := f.Scan(frame); n != len(frame) || !done || err != nil {
			t.Fatalf("Scan(%q) = %d, %t, %v", frame, n, done, err)
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "-ERR\r\n", ":1\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*2\r\n*0\r\n*-1\r\n", "%1\r\n+a\r\n~1\r\n_\r\n", "|1\r\n+k\r\n+v\r\n>1\r\n#t\r\n",
		"=5\r\ntxt:a\r\n", "!3\r\nERR\r\n", ",1.5\r\n", "(12\r\n", "*9223372036854775807\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		v, n, err := ParseValue(frame)
		var protocol *ProtocolError
		if n < 0 || n > len(frame) || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &protocol) {
			t.Fatalf("ParseValue = %d, %v", n, err)
		}
		if err != nil {
			return
		}
		var framer Framer
		if m, done, err := framer.Scan(frame); m != n || !done || err != nil {
			t.Fatalf("ParseValue ends at %d, Scan = %d, %t, %v", n, m, done, err)
		}
		for i := range min(n, 256) {
			if _, _, err := ParseValue(frame[:i]); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("ParseValue of %d bytes: %v", i, err)
			}
		}
		if again, m, err := ParseValue(frame[:n]); m != n || err != nil || show(again) != show(v) {
			t.Fatalf("ParseValue of the frame alone = %s, %d, %v, want %s", show(again), m, err, show(v))
		}
	})
}

func BenchmarkParseValue(b *testing.B) {
	frame := AppendCommand(nil, make([][]byte, 10)...)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := ParseValue(frame); err != nil {
			b.Fatal(err)
		}
	}
}
