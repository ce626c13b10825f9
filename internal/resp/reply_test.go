package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// frames feeds stream to a Framer in the given pieces and tells the frames in
// lines, an error last.
func frames(t testing.TB, stream []byte, pieces ...int) string {
	t.Helper()
	var out strings.Builder
	var f Framer
	var size int
	for fed := 0; fed < len(stream); {
		piece := len(stream) - fed
		if len(pieces) > 0 {
			piece, pieces = min(piece, pieces[0]), pieces[1:]
		}
		buf := stream[fed : fed+piece]
		fed += piece
		for len(buf) > 0 {
			n, done, err := f.Scan(buf)
			if n < 0 || n > len(buf) {
				t.Fatalf("Scan(%q) consumed %d bytes", buf, n)
			}
			if err != nil {
				var protocol *ProtocolError
				if _, _, again := f.Scan(buf); !errors.As(err, &protocol) || !errors.Is(again, err) {
					t.Fatalf("Scan = %T %v, then %v", err, err, again)
				}
				fmt.Fprintf(&out, "error %s\n", err)
				return out.String()
			}
			size += n
			buf = buf[n:]
			if f.Partial() == done || !done && len(buf) > 0 {
				t.Fatalf("Scan = %d, %t with %d bytes left, partial %t", n, done, len(buf), f.Partial())
			}
			if done {
				fmt.Fprintf(&out, "%d %c\n", size, f.Type())
				size = 0
			}
		}
	}
	fmt.Fprintf(&out, "rest %d\n", size)
	return out.String()
}

func framesHoweverCut(t testing.TB, stream []byte) string {
	t.Helper()
	whole := frames(t, stream)
	for i := 1; i < len(stream); i++ {
		if got := frames(t, stream, i, len(stream)); got != whole {
			t.Fatalf("%q cut at %d:\n%swhole:\n%s", stream, i, got, whole)
		}
	}
	if got := frames(t, stream, ones(len(stream))...); got != whole {
		t.Fatalf("%q by single bytes:\n%swhole:\n%s", stream, got, whole)
	}
	return whole
}

func TestRepliesEndWhereTheyShould(t *testing.T) {
	const (
		badLength = "error Protocol error: invalid reply length"
		badLine   = "error Protocol error: reply line is not terminated by CRLF"
		badBulk   = "error Protocol error: bulk reply is not terminated by CRLF"
	)
	for _, c := range []struct{ in, want string }{
		{"", "rest 0"},
		{"+OK\r\n-ERR x\r\n:1\r\n", "5 +|8 -|4 :|rest 0"},
		{"+\r\n+a\rb\r\n", "3 +|6 +|rest 0"},
		{"$0\r\n\r\n$3\r\n\r\n\r\r\n$-1\r\n", "6 $|9 $|5 $|rest 0"},
		{"*0\r\n*-1\r\n*2\r\n:1\r\n*1\r\n$1\r\na\r\n", "4 *|5 *|19 *|rest 0"},
		{"_\r\n,1.5\r\n,inf\r\n#t\r\n(123\r\n", "3 _|6 ,|6 ,|4 #|6 (|rest 0"},
		{"!5\r\nERR x\r\n=6\r\ntxt:ab\r\n", "11 !|12 =|rest 0"},
		{"%0\r\n%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n%1\r\n_\r\n_\r\n", "4 %|30 %|rest 0"},
		{"~2\r\n+a\r\n+b\r\n>2\r\n+a\r\n+b\r\n+OK\r\n", "12 ~|12 >|5 +|rest 0"},
		{"|1\r\n+k\r\n*2\r\n:1\r\n|0\r\n:2\r\n+OK\r\n:1\r\n", "29 +|4 :|rest 0"},
		{"|0\r\n|1\r\n_\r\n_\r\n$-1\r\n", "19 $|rest 0"},
		{"*2\r\n:1\r\n|1\r\n+k\r\n+v\r\n:2\r\n", "24 *|rest 0"},
		{strings.Repeat("*1\r\n", 10000) + ":1\r\n", "40004 *|rest 0"},
		{"*3\r\n:1\r\n", "rest 8"},
		{"*9223372036854775807\r\n", badLength},
		{"*4611686018427387903\r\n", "rest 22"},
		{"*4611686018427387904\r\n", badLength},
		{"*4000000000000000000\r\n*4000000000000000000\r\n", badLength},
		{"%4611686018427387903\r\n", "rest 22"},
		{"$9223372036854775805\r\nabc", "rest 25"},
		{"$9223372036854775806\r\n", badLength},
		{"$9223372036854775808\r\n", badLength},
		{"$\r\n", badLength},
		{"$-\r\n", badLength},
		{"$-2\r\n", badLength},
		{"$--1\r\n", badLength},
		{"$1-\r\n", badLength},
		{"$-0\r\n", badLength},
		{"$01\r\n", badLength},
		{"$+1\r\n", badLength},
		{"$?\r\n", badLength},
		{"*1\n", badLength},
		{"*1\rx", badLength},
		{"*1 \r\n", badLength},
		{"%-1\r\n", badLength},
		{"~-1\r\n", badLength},
		{">-1\r\n", badLength},
		{"|-1\r\n", badLength},
		{"!-1\r\n", badLength},
		{"=-1\r\n", badLength},
		{"+OK\n", badLine},
		{"+a\nb\r\n", badLine},
		{"+\n", badLine},
		{"*2\r\n:1\n", badLine},
		{"$1\r\nabc", badBulk},
		{"$1\r\na\rb", badBulk},
		{"?", "error Protocol error: unknown reply type '?'"},
		{"\r\n", "error Protocol error: unknown reply type ' '"},
		{"*1\r\nx", "error Protocol error: unknown reply type 'x'"},
		{"+OK\r\n\n", "5 +|error Protocol error: unknown reply type ' '"},
	} {
		in := []byte(c.in)
		t.Run(strconv.Quote(c.in[:min(len(c.in), 30)]), func(t *testing.T) {
			var got string
			if len(in) < 1000 {
				got = framesHoweverCut(t, in)
			} else if got = frames(t, in); got != frames(t, in, ones(len(in))...) {
				t.Error("depends on the cut")
			}
			if want := strings.ReplaceAll(c.want, "|", "\n") + "\n"; got != want {
				t.Errorf("%swant:\n%s", got, want)
			}
		})
	}
}

func TestResetStartsAStreamAnew(t *testing.T) {
	var f Framer
	for _, s := range []string{"?", "*2\r\n$5\r\nab", "+O", "$-"} {
		_, _, _ = f.Scan([]byte(s))
		f.Reset()
		if n, done, err := f.Scan([]byte("+OK\r\n")); n != 5 || !done || err != nil {
			t.Errorf("after %q: Scan = %d, %t, %v", s, n, done, err)
		}
	}
}

// TestABulkIsSkippedByCount shows that the bytes of a bulk are not examined:
// 8 EiB cost as little as their header says.
func TestAReplyThatIsNestedTooDeepIsRefused(t *testing.T) {
	for _, c := range []struct {
		in    string
		depth int
	}{
		{"+OK\r\n", 0},
		{"*0\r\n", 0},
		{"*-1\r\n", 0},
		{"*2\r\n:1\r\n:2\r\n", 1},
		{"%1\r\n+k\r\n~1\r\n:1\r\n", 2},
		{"*1\r\n*1\r\n*1\r\n:1\r\n", 3},
		{"*3\r\n*1\r\n:1\r\n*1\r\n*1\r\n:1\r\n*1\r\n:1\r\n", 3},
		{"*2\r\n*2\r\n*1\r\n:1\r\n:2\r\n>1\r\n:1\r\n", 3},
		{"|1\r\n+k\r\n*1\r\n:1\r\n+OK\r\n", 2},
		{"|1\r\n+k\r\n+v\r\n*1\r\n*0\r\n", 1},
		{"*2\r\n|1\r\n+k\r\n+v\r\n*1\r\n:1\r\n:2\r\n", 2},
		{strings.Repeat("*1\r\n", 5000) + ":1\r\n", 5000},
		{strings.Repeat("*1\r\n:1\r\n", 5000), 1},
	} {
		for _, most := range []int{c.depth, c.depth - 1} {
			if most < 1 {
				continue
			}
			f := Framer{MaxDepth: most}
			var err error
			for rest := []byte(c.in + c.in); len(rest) > 0 && err == nil; { // twice: it forgets nothing
				var n int
				n, _, err = f.Scan(rest[:min(len(rest), 7)])
				rest = rest[n:]
			}
			var protocol *ProtocolError
			if refused := errors.As(err, &protocol) && protocol.Limit == LimitNesting; refused != (most < c.depth) {
				t.Errorf("%.40q of depth %d with a limit of %d: %v", c.in, c.depth, most, err)
			}
		}
	}
}

func TestABulkIsSkippedByCount(t *testing.T) {
	var f Framer
	if _, done, err := f.Scan([]byte("$9000000000000000000\r\n")); done || err != nil {
		t.Fatal(done, err)
	}
	zeros := make([]byte, 1<<20)
	if n, done, err := f.Scan(zeros); n != len(zeros) || done || err != nil {
		t.Fatal(n, done, err)
	}
	if f.skip != 9000000000000000002-1<<20 {
		t.Fatalf("%d bytes to skip", f.skip)
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	stream := []byte("+OK\r\n$5\r\nhello\r\n*3\r\n:1\r\n$-1\r\n%1\r\n+a\r\n,1.5\r\n|1\r\n+k\r\n+v\r\n_\r\n")
	var f Framer
	if allocs := testing.AllocsPerRun(100, func() {
		for i := range stream {
			if _, _, err := f.Scan(stream[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		for buf := stream; len(buf) > 0; {
			n, _, err := f.Scan(buf)
			if err != nil {
				t.Fatal(err)
			}
			buf = buf[n:]
		}
	}); allocs != 0 {
		t.Errorf("%v allocations per round", allocs)
	}
}

// readReply is an independent framer: plain recursion over a reader. It
// returns io.ErrUnexpectedEOF for a reply cut short.
func readReply(r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if len(line) < 3 || !strings.HasSuffix(line, "\r\n") {
		return errors.New("bad line")
	}
	text := line[1 : len(line)-2]
	if strings.IndexByte("+-:_,#(", line[0]) >= 0 {
		return nil
	}
	if text == "-1" && (line[0] == '$' || line[0] == '*') {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || strconv.Itoa(n) != text {
		return errors.New("bad length")
	}
	if n > 1<<20 { // more than any of the streams has
		return io.ErrUnexpectedEOF
	}
	switch line[0] {
	case '$', '=', '!':
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return io.ErrUnexpectedEOF
		}
		if string(body[n:]) != "\r\n" {
			return errors.New("bad bulk")
		}
		return nil
	case '%':
		n *= 2
	case '|':
		n = 2*n + 1
	case '*', '~', '>':
	default:
		return errors.New("bad type")
	}
	for range n {
		if err := readReply(r); err != nil {
			return err
		}
	}
	return nil
}

// appendRandomReply appends a valid reply of any type.
func appendRandomReply(rng *rand.Rand, dst []byte, depth int) []byte {
	types := "+-:_,#($=!*~>%|"
	if depth == 0 {
		types = "+-:_,#($=!"
	}
	typ := types[rng.IntN(len(types))]
	n := rng.IntN(5)
	elems := n
	switch typ {
	case '+', '-':
		return append(append(append(dst, typ), "some text"[:n]...), "\r\n"...)
	case ':', '(':
		return fmt.Appendf(dst, "%c%d\r\n", typ, rng.Int64()-rng.Int64())
	case ',':
		return fmt.Appendf(dst, ",%g\r\n", rng.NormFloat64())
	case '_':
		return append(dst, "_\r\n"...)
	case '#':
		return append(dst, '#', "tf"[n&1], '\r', '\n')
	case '$', '=', '!':
		if typ == '$' && n == 0 {
			return append(dst, "$-1\r\n"...)
		}
		return fmt.Appendf(dst, "%c%d\r\n%s\r\n", typ, n+3, "\r\n+\x00$1*"[:n+3])
	case '*':
		if rng.IntN(5) == 0 {
			return append(dst, "*-1\r\n"...)
		}
	case '%':
		elems = 2 * n
	case '|':
		elems = 2*n + 1
	}
	dst = fmt.Appendf(dst, "%c%d\r\n", typ, n)
	for range elems {
		dst = appendRandomReply(rng, dst, depth-1)
	}
	return dst
}

func TestRandomRepliesEndWhereARecursiveReaderEndsThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 3000 {
		var stream []byte
		for range 1 + rng.IntN(4) {
			stream = appendRandomReply(rng, stream, 3)
		}
		if round%2 == 1 { // a damaged stream
			stream[rng.IntN(len(stream))] = "\r\n0159-+$*%|x"[rng.IntN(13)]
		}
		src := strings.NewReader(string(stream))
		r := bufio.NewReader(src)
		var ends []int
		var refErr error
		for refErr == nil && r.Buffered()+src.Len() > 0 || len(ends) == 0 && refErr == nil {
			if refErr = readReply(r); refErr == nil {
				ends = append(ends, len(stream)-r.Buffered()-src.Len())
			}
		}

		var f Framer
		var got []int
		var err error
		for pos := 0; pos < len(stream) && err == nil; {
			var n int
			var done bool
			n, done, err = f.Scan(stream[pos:min(len(stream), pos+1+rng.IntN(20))])
			if pos += n; done {
				got = append(got, pos)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(ends) {
			t.Fatalf("%q ends at %v, want %v (%v, want %v)", stream, got, ends, err, refErr)
		}
		// The reader waits for a whole line where the Framer refuses the first
		// wrong byte, so an error may stand against an early end, not the reverse.
		switch {
		case refErr == nil && (err != nil || f.Partial()):
			t.Fatalf("%q: %v, partial %t", stream, err, f.Partial())
		case refErr != nil && err == nil && (!errors.Is(refErr, io.ErrUnexpectedEOF) || !f.Partial()):
			t.Fatalf("%q: no error, want %v", stream, refErr)
		}
	}
}

// Redis 7.0 may send a message in the middle of an EXEC's reply.
func TestAPushWithinAnArrayIsAnElementOfItOrNot(t *testing.T) {
	const subscribed, meanwhile = "*1\r\n>3\r\n+subscribe\r\n+a\r\n:1\r\n", "*2\r\n:1\r\n>1\r\n*1\r\n+x\r\n:1\r\n"
	f := Framer{Interposed: true}
	for i, frame := range []string{meanwhile, "+OK\r\n", ">1\r\n+x\r\n"} {
		if n, done, err := f.Scan([]byte(frame)); n != len(frame) || !done || err != nil {
			t.Errorf("frame %d: Scan(%q) = %d, %t, %v", i, frame, n, done, err)
		}
	}
	f = Framer{}
	if n, done, err := f.Scan([]byte(subscribed)); n != len(subscribed) || !done || err != nil {
		t.Errorf("Scan(%q) = %d, %t, %v", subscribed, n, done, err)
	}
}

func FuzzFramer(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n-ERR\r\n:1\r\n", "$3\r\nabc\r\n$-1\r\n", "*2\r\n*0\r\n*-1\r\n", "%1\r\n+a\r\n~1\r\n_\r\n", "|1\r\n+k\r\n+v\r\n>1\r\n#t\r\n",
		"=5\r\ntxt:a\r\n!3\r\nERR\r\n,1.5\r\n(12\r\n", "*9223372036854775807\r\n", "$-2\r\n", "*01\r\n", "+a\n",
	} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cut uint16) {
		whole := frames(t, stream)
		if got := frames(t, stream, max(1, int(cut)%(len(stream)+1)), len(stream)); got != whole {
			t.Fatalf("cut:\n%swhole:\n%s", got, whole)
		}
		if got := frames(t, stream, ones(len(stream))...); got != whole {
			t.Fatalf("by single bytes:\n%swhole:\n%s", got, whole)
		}
	})
}

func BenchmarkFramer(b *testing.B) {
	for _, c := range []struct {
		name string
		one  []byte
	}{
		{"OK", []byte("+OK\r\n")},
		{"bulk", AppendBulk(nil, make([]byte, 64))},
		{"bulk1M", AppendBulk(nil, make([]byte, 1<<20))},
		{"array", AppendCommand(nil, make([][]byte, 100)...)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var f Framer
			b.SetBytes(int64(len(c.one)))
			b.ReportAllocs()
			for b.Loop() {
				if n, done, err := f.Scan(c.one); n != len(c.one) || !done || err != nil {
					b.Fatal(n, done, err)
				}
			}
		})
	}
}
