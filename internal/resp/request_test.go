package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// smallLimits make every limit reachable with a few bytes.
var smallLimits = Limits{MaxBulk: 64, MaxArgs: 16, MaxInline: 40, MaxRequest: 120 + ArgCost}

// requests feeds stream to a parser in the given pieces and tells the requests
// in lines, an error last. Between the calls the buffer moves and the old one
// is overwritten, as with a caller that reuses its memory.
func requests(t testing.TB, l Limits, stream []byte, pieces ...int) string {
	t.Helper()
	var out strings.Builder
	p := NewRequestParser(l)
	var buf []byte
	for fed := 0; fed < len(stream) || len(pieces) == 0; {
		piece := len(stream) - fed
		if len(pieces) > 0 {
			piece, pieces = min(piece, pieces[0]), pieces[1:]
		}
		moved := append(slices.Clone(buf), stream[fed:fed+piece]...)
		for i := range buf {
			buf[i] = 0xEE
		}
		buf, fed = moved, fed+piece
		for {
			req, n, err := p.Next(buf)
			if n < 0 || n > len(buf) {
				t.Fatalf("Next(%q) consumed %d bytes", buf, n)
			}
			if err != nil {
				var protocol *ProtocolError
				if !errors.As(err, &protocol) || n != 0 {
					t.Fatalf("Next = %d, %T %v", n, err, err)
				}
				fmt.Fprintf(&out, "error %s\n", err)
				return out.String()
			}
			if n == 0 {
				break
			}
			if !bytes.Equal(req.Raw, buf[:n]) {
				t.Fatalf("Raw = %q, want %q", req.Raw, buf[:n])
			}
			fmt.Fprintf(&out, "%d %t %q\n", n, req.Inline, req.Args)
			buf = buf[n:]
		}
		if fed == len(stream) {
			break
		}
	}
	fmt.Fprintf(&out, "rest %d\n", len(buf))
	return out.String()
}

// ones returns n pieces of one byte.
func ones(n int) []int { return slices.Repeat([]int{1}, max(n, 1)) }

// requestsHoweverCut returns what requests tells, and fails if it depends on
// where the stream is cut.
func requestsHoweverCut(t testing.TB, l Limits, stream []byte) string {
	t.Helper()
	whole := requests(t, l, stream)
	for i := 1; i < len(stream); i++ {
		if got := requests(t, l, stream, i, len(stream)); got != whole {
			t.Fatalf("%q cut at %d:\n%swhole:\n%s", stream, i, got, whole)
		}
	}
	if got := requests(t, l, stream, ones(len(stream))...); got != whole {
		t.Fatalf("%q by single bytes:\n%swhole:\n%s", stream, got, whole)
	}
	return whole
}

func TestRequestsAreReadAsTheServerReadsThem(t *testing.T) {
	long := strings.Repeat("1", 41)
	for _, c := range []struct{ name, in, want string }{
		{"command", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", `20 false ["GET" "k"]|rest 0`},
		{"binary and empty arguments", "*3\r\n$1\r\n\x00\r\n$0\r\n\r\n$2\r\n\r\n\r\n", `25 false ["\x00" "" "\r\n"]|rest 0`},
		{"pipeline", "*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$1\r\nx\r\n", `14 false ["PING"]|6 true ["PING"]|11 false ["x"]|rest 0`},
		{"incomplete", "*2\r\n$3\r\nGET\r\n$1\r\n", "rest 17"},
		{"nothing", "", "rest 0"},
		{"empty array", "*0\r\nPING\r\n", `4 false []|6 true ["PING"]|rest 0`},
		{"null array", "*-1\r\n*-10\r\n", `5 false []|6 false []|rest 0`},
		{"any byte for LF and CRLF", "*1\rX$4\rYPINGzzPING\n", `14 false ["PING"]|5 true ["PING"]|rest 0`},

		{"no count", "*\r\n", "error Protocol error: invalid multibulk length"},
		{"count with a zero in front", "*01\r\n", "error Protocol error: invalid multibulk length"},
		{"negative zero", "*-0\r\n", "error Protocol error: invalid multibulk length"},
		{"plus sign", "*+1\r\n", "error Protocol error: invalid multibulk length"},
		{"letters", "*1x\r\n", "error Protocol error: invalid multibulk length"},
		{"most arguments", "*16\r\n", "rest 5"},
		{"too many arguments", "*17\r\n", "error Protocol error: invalid multibulk length"},
		{"far too many arguments", "*99999999999999999999\r\n", "error Protocol error: invalid multibulk length"},
		{"no length", "*1\r\n$\r\n", "error Protocol error: invalid bulk length"},
		{"negative length", "*1\r\n$-1\r\n", "error Protocol error: invalid bulk length"},
		{"longest bulk", "*1\r\n$64\r\n", "rest 9"},
		{"too long a bulk", "*1\r\n$65\r\n", "error Protocol error: invalid bulk length"},
		{"far too long a bulk", "*1\r\n$9223372036854775807\r\n", "error Protocol error: invalid bulk length"},
		{
			"largest request", "*2\r\n$64\r\n" + strings.Repeat("v", 64) + "\r\n$38\r\n" + strings.Repeat("w", 38) + "\r\n",
			`120 false ["` + strings.Repeat("v", 64) + `" "` + strings.Repeat("w", 38) + `"]|rest 0`,
		},
		{"too large a request", "*2\r\n$64\r\n" + strings.Repeat("v", 64) + "\r\n$39\r\n", "error Protocol error: too big request"},
		{"no dollar", "*1\r\nx\r\n", "error Protocol error: expected '$', got 'x'"},
		{"no dollar, no line", "*1\r\nx", "rest 5"},
		{"no dollar but CR", "*1\r\n\r\n", "error Protocol error: expected '$', got ' '"},
		{"no dollar but LF", "*1\r\n\n\r\n", "error Protocol error: expected '$', got ' '"},
		{"no dollar but a high byte", "*1\r\n\xff\r\n", "error Protocol error: expected '$', got '\xff'"},
		{"error after a request", "PING\r\n*x\r\n", `6 true ["PING"]|error Protocol error: invalid multibulk length`},
		{"longest count line", "*" + long[:39], "rest 40"},
		{"too long a count line", "*" + long[:40], "error Protocol error: too big mbulk count string"},
		{"too long a complete count line", "*" + long[:40] + "\r\n", "error Protocol error: too big mbulk count string"},
		{"too long a length line", "*1\r\n$" + long, "error Protocol error: too big bulk count string"},
		{"NUL hides the end of a count", "*1\x00\r\n$1\r\nx\r\n", "rest 12"},
		{"NUL hides the end of a length", "*1\r\n$4\x00\r\nPING\r\n", "rest 15"},
		{"NUL until the line is too long", "*1\x00\r\n" + long, "error Protocol error: too big mbulk count string"},

		{"inline", "GET  k\t v\r\n", `11 true ["GET" "k" "v"]|rest 0`},
		{"inline with LF", "PING\n", `5 true ["PING"]|rest 0`},
		{"inline with CRCRLF", "PING\r\r\n", `7 true ["PING"]|rest 0`},
		{"inline with CR in front", "\rPING\r\n", `7 true ["PING"]|rest 0`},
		{"blank lines", "\r\n\n \t\r\nPING\r\n", `2 true []|1 true []|4 true []|6 true ["PING"]|rest 0`},
		{"space before a star", " *1\r\n", `5 true ["*1"]|rest 0`},
		{
			"double quotes", `E "a\x41\n\r\t\b\a\z\xzz\"\\ b"` + "\n",
			fmt.Sprintf("32 true %q|rest 0", []string{"E", "aA\n\r\t\b\azxzz\"\\ b"}),
		},
		{"single quotes", `E 'a\'b\n" '` + "\n", `13 true ["E" "a'b\\n\" "]|rest 0`},
		{"quotes in a word", `a"b" c'd'` + "\n", `10 true ["ab" "cd"]|rest 0`},
		{"empty words", `"" ''` + "\n", `6 true ["" ""]|rest 0`},
		{"other spaces", "\"a\"\v a\vb\f\n", `10 true ["a" "a\vb\f"]|rest 0`},
		{"high bytes", "\xff \"\xfe\"\n", `6 true ["\xff" "\xfe"]|rest 0`},
		{"open double quote", `E "a` + "\r\n", "error Protocol error: unbalanced quotes in request"},
		{"open single quote", `E 'a` + "\r\n", "error Protocol error: unbalanced quotes in request"},
		{"quote that ends escaped", `E "a\"` + "\r\n", "error Protocol error: unbalanced quotes in request"},
		{"lone backslash", `E "\` + "\r\n", "error Protocol error: unbalanced quotes in request"},
		{"text after a quote", `E "a"b` + "\r\n", "error Protocol error: unbalanced quotes in request"},
		{"longest inline", long[:40] + "\n", `41 true ["` + long[:40] + `"]|rest 0`},
		{"too long an inline", long, "error Protocol error: too big inline request"},
		{"too long a complete inline", long + "\n", "error Protocol error: too big inline request"},
		{"NUL hides the end of an inline", "PI\x00NG\r\nPING\r\n", "rest 13"},
		{"NUL until the inline is too long", "\x00\n" + long, "error Protocol error: too big inline request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.ReplaceAll(c.want, "|", "\n") + "\n"
			if got := requestsHoweverCut(t, smallLimits, []byte(c.in)); got != want {
				t.Errorf("%q:\n%swant:\n%s", c.in, got, want)
			}
		})
	}
}

func TestDefaultLimitsAreThoseOfTheServer(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"*2147483647\r\n", "rest 13\n"},
		{"*2147483648\r\n", "error Protocol error: invalid multibulk length\n"},
		{"*1\r\n$536870912\r\n", "rest 16\n"},
		{"*1\r\n$536870913\r\n", "error Protocol error: invalid bulk length\n"},
		{"*1\r\n$9999999999\r\n", "error Protocol error: invalid bulk length\n"},
		{strings.Repeat("x", 65536), "rest 65536\n"},
		{strings.Repeat("x", 65537), "error Protocol error: too big inline request\n"},
		{"*" + strings.Repeat("1", 65536), "error Protocol error: too big mbulk count string\n"},
		{"*1\r\n$" + strings.Repeat("1", 65536), "error Protocol error: too big bulk count string\n"},
	} {
		if got := requests(t, Limits{}, []byte(c.in)); got != c.want {
			t.Errorf("%.20q (%d bytes): %s", c.in, len(c.in), got)
		}
	}
}

func TestErrorsNameTheLimitThatWasBroken(t *testing.T) {
	for in, want := range map[string]Limit{
		"*17\r\n":                     LimitArguments,
		"*1\r\n$65\r\n":               LimitBulk,
		"*1\r\n*1\r\n":                LimitNesting,
		"*1\r\n%1\r\n":                LimitNesting,
		strings.Repeat("x", 41):       LimitInline,
		"*" + strings.Repeat("1", 40): LimitInline,
		"*3\r\n$60\r\n" + strings.Repeat("x", 60) + "\r\n$50\r\n" + strings.Repeat("x", 50) + "\r\n": LimitRequest,
		"*16\r\n" + strings.Repeat("$0\r\n\r\n", 5):                                                  LimitRequest, // for what so many arguments cost
		"*x\r\n":        "",
		"*1\r\n$-1\r\n": "",
		"*1\r\n:1\r\n":  "",
		"ECHO 'x\n":     "",
	} {
		_, _, err := NewRequestParser(smallLimits).Next([]byte(in))
		var protocol *ProtocolError
		if !errors.As(err, &protocol) || protocol.Limit != want {
			t.Errorf("%.20q: %v, of limit %q", in, err, want)
		}
	}
}

func TestALongerArgumentIsReadOnceTheServerTakesIt(t *testing.T) {
	limits, asked := smallLimits, 0
	limits.MoreBulk = func() int64 {
		asked++
		return int64(60 + 4*asked)
	}
	p := NewRequestParser(limits)
	if _, _, err := p.Next([]byte("*1\r\n$64\r\n")); err != nil || asked > 0 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	p.Reset()
	if _, _, err := p.Next([]byte("*1\r\n$65\r\n")); err == nil {
		t.Error("65 bytes were taken")
	}
	p.Reset()
	if _, _, err := p.Next([]byte("*1\r\n$65\r\n")); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
}

func TestAnErrorLastsUntilReset(t *testing.T) {
	p := NewRequestParser(Limits{})
	_, _, first := p.Next([]byte("*x\r\n"))
	_, _, again := p.Next([]byte("PING\r\n"))
	if first == nil || !errors.Is(again, first) {
		t.Fatalf("errors = %v, %v", first, again)
	}
	p.Reset()
	if _, n, err := p.Next([]byte("PING\r\n")); n != 6 || err != nil {
		t.Fatalf("Next after Reset = %d, %v", n, err)
	}
}

// TestWhatWasUnderstoodIsNotReadAgain proves that work is linear: bytes that
// were examined are replaced by others that would change the result.
func TestWhatWasUnderstoodIsNotReadAgain(t *testing.T) {
	stream := AppendCommandStrings(nil, "MSET", "k", strings.Repeat("v", 300), "", "l", "w")
	p := NewRequestParser(Limits{})
	for i := 1; i < len(stream); i++ {
		buf := slices.Clone(stream[:i])
		// Complete elements are poisoned for good, the searched part of the
		// current line with an end that a second search would find.
		for j := range p.pos {
			buf[j] = 'X'
		}
		searched := p.pos < p.scan && p.bulk < 0
		if searched {
			buf[p.pos] = '\r'
		}
		held, scan := p.pos, p.scan
		if searched && stream[i-1] == '\n' {
			buf[p.pos] = stream[p.pos] // the line ends, now it is read
		}
		if _, n, err := p.Next(buf); n != 0 || err != nil {
			t.Fatalf("Next of %d bytes = %d, %v", i, n, err)
		}
		if p.pos < held || p.scan < scan {
			t.Fatalf("went back from %d, %d to %d, %d", held, scan, p.pos, p.scan)
		}
	}
	if req, n, err := p.Next(stream); n != len(stream) || err != nil || len(req.Args) != 6 {
		t.Fatalf("Next = %q, %d, %v", req.Args, n, err)
	}

	p = NewRequestParser(Limits{})
	for _, buf := range []string{"GET", "\n\n\n ke", "\n\n\n\n\n\ny"} {
		if _, n, err := p.Next([]byte(buf)); n != 0 || err != nil {
			t.Fatalf("Next(%q) = %d, %v: searched twice", buf, n, err)
		}
	}
}

func TestHeadersAloneReserveNothing(t *testing.T) {
	p := NewRequestParser(Limits{})
	allocs := testing.AllocsPerRun(10, func() {
		p.Reset()
		for _, s := range []string{"*1048576\r\n", "*1048576\r\n$536870912\r\n"} {
			if _, n, err := p.Next([]byte(s)); n != 0 || err != nil {
				t.Fatal(n, err)
			}
		}
	})
	if cap(p.spans) > 0 || cap(p.args) > 0 {
		t.Errorf("headers reserved %d spans, %d args", cap(p.spans), cap(p.args))
	}
	if allocs > 2 { // the conversions of the strings
		t.Errorf("%v allocations", allocs)
	}
}

func TestMissingNeverMoreThanDoublesABuffer(t *testing.T) {
	p := NewRequestParser(Limits{})
	buf := []byte("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n")
	next := func() {
		t.Helper()
		if _, n, err := p.Next(buf); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	}
	next()
	if p.Missing() != 0 {
		t.Errorf("Missing without a header = %d", p.Missing())
	}
	buf = append(buf, "$1000000\r\n"...)
	start := len(buf)
	for grown := 0; len(buf) < start+1000002; grown++ {
		next()
		m := p.Missing()
		if m <= 0 || m > max(64<<10, len(buf)) || len(buf)+m > start+1000002 || grown > 6 {
			t.Fatalf("Missing = %d with %d bytes", m, len(buf))
		}
		buf = append(buf, make([]byte, m)...)
	}
	if _, n, err := p.Next(buf); n != len(buf) || err != nil || p.Missing() != 0 {
		t.Fatalf("Next = %d of %d, %v, missing %d", n, len(buf), err, p.Missing())
	}
}

func TestALargeRequestIsNotKept(t *testing.T) {
	p := NewRequestParser(Limits{})
	stream := AppendCommand(nil, make([][]byte, 5000)...)
	if req, n, err := p.Next(stream); n != len(stream) || err != nil || len(req.Args) != 5000 {
		t.Fatal(len(req.Args), n, err)
	}
	if _, n, err := p.Next(nil); n != 0 || err != nil || p.args != nil || p.spans != nil {
		t.Fatalf("kept %d args", cap(p.args))
	}
	req, _, _ := p.Next([]byte("*1\r\n$4\r\nPING\r\n"))
	if _, _, err := p.Next(nil); err != nil || req.Args[0] != nil {
		t.Error("an idle parser holds on to the caller's buffer")
	}
}

func TestSteadyRequestsAllocateNothing(t *testing.T) {
	for name, stream := range map[string][]byte{
		"arrays": AppendCommandStrings(AppendCommandStrings(nil, "SET", "key", "value"), "GET", "key"),
		"inline": []byte("SET key \"a value\"\r\nPING\r\n\r\n"),
		"1000":   AppendCommand(nil, make([][]byte, 1000)...),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewRequestParser(Limits{})
			allocs := testing.AllocsPerRun(100, func() {
				for _, end := range []int{len(stream) / 2, len(stream)} {
					buf := stream[:end]
					for {
						_, n, err := p.Next(buf)
						if err != nil {
							t.Fatal(err)
						}
						if n == 0 {
							break
						}
						buf = buf[n:]
					}
					p.Reset()
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations per round", allocs)
			}
		})
	}
}

func TestRandomStreamsAreReadAsRedconReadsThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var stream []byte
		for range rng.IntN(6) {
			if rng.IntN(5) == 0 {
				stream = append(stream, "PING some words\r\n"...)
				continue
			}
			args := make([][]byte, 1+rng.IntN(7))
			for i := range args {
				args[i] = make([]byte, rng.IntN(30))
				for j := range args[i] {
					args[i][j] = byte(rng.IntN(256))
				}
			}
			stream = AppendCommand(stream, args...)
		}
		stream = stream[:rng.IntN(len(stream)+1)]

		var want strings.Builder
		for rest := stream; ; {
			complete, args, kind, left, err := redcon.ReadNextCommand(rest, nil)
			if err != nil || !complete {
				fmt.Fprintf(&want, "rest %d\n", len(rest))
				break
			}
			fmt.Fprintf(&want, "%d %t %q\n", len(rest)-len(left), kind != redcon.Redis, args)
			rest = left
		}
		pieces := ones(len(stream))
		for i := range pieces {
			pieces[i] += rng.IntN(20)
		}
		if got := requests(t, Limits{}, stream, pieces...); got != want.String() {
			t.Fatalf("%q:\n%sredcon:\n%s", stream, got, want.String())
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "PING\r\n*1\r\n$4\r\nPING\r\n", "*0\r\n*-1\r\n\r\n", "*2000000000\r\n",
		"*1\r\n$9999999999\r\n", "*1\r\nx\r\n", "SET 'a\\'b' \"\\x41\\n\"\r\n", "E \"a\r\n", "*1\rX$4\rYPINGzz", "PI\x00NG\r\n", "*1\x00\r\n",
		"*16\r\n$0\r\n\r\n", "*1\r\n$64\r\n", strings.Repeat("x", 41),
	} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		whole := requests(t, smallLimits, stream)
		if got := requests(t, smallLimits, stream, int(cut)%(len(stream)+1), len(stream)); got != whole {
			t.Fatalf("cut:\n%swhole:\n%s", got, whole)
		}
		if len(stream) < 512 {
			if got := requests(t, smallLimits, stream, ones(len(stream))...); got != whole {
				t.Fatalf("by single bytes:\n%swhole:\n%s", got, whole)
			}
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	get := AppendCommandStrings(nil, "GET", "user:1000:name")
	set := AppendCommandStrings(nil, "SET", "user:1000:name", strings.Repeat("v", 64), "EX", "60")
	for _, c := range []struct {
		name string
		one  []byte
	}{{"GET", get}, {"SET", set}, {"SET1M", AppendCommand(nil, []byte("SET"), []byte("k"), make([]byte, 1<<20))}} {
		b.Run(c.name, func(b *testing.B) {
			p := NewRequestParser(Limits{})
			b.SetBytes(int64(len(c.one)))
			b.ReportAllocs()
			for b.Loop() {
				if _, n, err := p.Next(c.one); n != len(c.one) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
