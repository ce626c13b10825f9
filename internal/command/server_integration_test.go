//go:build integration

package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// realServer starts a redis-server on a free loopback port for the test.
func realServer(t *testing.T) *redis.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	program := cmp.Or(os.Getenv("FENCE_TEST_REDIS"), "redis-server") // as the harness has it, which imports this package
	server := exec.Command(program, "--port", fmt.Sprint(addr.Port), "--bind", "127.0.0.1",
		"--save", "", "--daemonize", "no", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	client := redis.NewClient(&redis.Options{Addr: addr.String()})
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err = client.Ping(t.Context()).Err(); err == nil {
			return client
		}
		if time.Now().After(deadline) {
			t.Fatalf("redis-server does not answer: %v", err)
		}
	}
}

// words that mean something to some command, to be strewn among the arguments.
var keywords = []string{
	"STREAMS", "STORE", "STOREDIST", "KEYS", "LIMIT", "GET", "BY", "SET", "INCRBY",
	"COUNT", "BLOCK", "GROUP", "AUTH", "AUTH2", "OVERFLOW", "ASC", "NOACK", "COPY",
	"WITHDIST", "WEIGHTS", "streams", "store", "keys",
}

// someCall makes a call of the command with as many arguments as it needs or a
// few more: mostly words used once, some keywords, and a small number where a
// spec counts keys.
func someCall(r *rand.Rand, c *Command) [][]byte {
	n := max(c.Arity, -c.Arity)
	if c.Arity < 0 {
		n += r.IntN(7)
	}
	name, sub, isSub := strings.Cut(c.Name, "|")
	args := []string{name}
	if isSub {
		args = append(args, sub)
	}
	for i := len(args); i < n; i++ {
		args = append(args, fmt.Sprintf("arg%d", i))
	}
	strewn := r.IntN(3) == 0
	for i := 1; strewn && i < len(args); i++ {
		if r.IntN(3) == 0 && !(isSub && i == 1) {
			args[i] = keywords[r.IntN(len(keywords))]
		}
	}
	for _, s := range c.specs {
		if at := s.pos + s.numAt; s.find == findKeynum && at < len(args) && r.IntN(10) > 0 {
			args[at] = fmt.Sprint(r.IntN(5) - 1)
		}
	}
	return argvOf(args)
}

func argvOf(args []string) [][]byte {
	b := make([][]byte, len(args))
	for i, a := range args {
		b[i] = []byte(a)
	}
	return b
}

// formed makes a well-formed call of a command that is read exactly.
func formed(r *rand.Rand, name string) [][]byte {
	var args []string
	add := func(s string) { args = append(args, strings.Fields(s)...) }
	maybe := func(s string) {
		if r.IntN(2) == 0 {
			add(s)
		}
	}
	switch name {
	case "sort":
		add("sort k")
		maybe("LIMIT 0 1")
		maybe("BY nosort")
		maybe("GET #")
		maybe("get by")
		maybe("ALPHA desc")
		maybe("Store dst")
	case "sort_ro":
		add("sort_ro k")
		maybe("BY limit LIMIT 1 2")
		maybe("GET # GET store")
	case "migrate":
		add("migrate host 1")
		many := r.IntN(2) == 0
		if many {
			args = append(args, "")
		} else {
			add("k")
		}
		add("0 10")
		maybe("COPY")
		maybe("REPLACE")
		maybe("AUTH keys")
		if many {
			add("KEYS a b c"[:6+2*r.IntN(3)])
		}
	case "xread":
		add("xread")
		maybe("COUNT 1")
		maybe("BLOCK 1")
		add([]string{"STREAMS a 0", "STREAMS a b 0 0", "streams a b c $ $ $"}[r.IntN(3)])
	case "xreadgroup":
		add("xreadgroup GROUP g c")
		maybe("COUNT 1")
		maybe("NOACK")
		add([]string{"STREAMS a >", "streams a b > 0"}[r.IntN(2)])
	case "georadius", "georadiusbymember":
		add(name + " k 1 2 3")
		if name == "georadius" {
			add("m")
		}
		maybe("WITHDIST")
		maybe("COUNT 1 ANY")
		maybe("ASC")
		if r.IntN(2) == 0 {
			add([]string{"STORE d", "storedist d"}[r.IntN(2)])
		}
	case "bitfield":
		add("bitfield k")
		maybe("GET u8 0")
		maybe("OVERFLOW WRAP")
		maybe("GET u8 1")
		maybe("SET u8 0 1")
		maybe("INCRBY u8 0 1")
	}
	return argvOf(args)
}

// byBytes renders the keys of a call by their bytes, sorted.
func byBytes(args [][]byte, keys []Key) []string {
	out := make([]string, 0, len(keys))
	for _, k := range keys {
		out = append(out, k.Access.String()+" "+string(args[k.Index]))
	}
	slices.Sort(out)
	return out
}

// told decodes the answer to COMMAND GETKEYSANDFLAGS to the same form, and that to COMMAND GETKEYS to the bytes alone.
func told(reply []any) []string {
	out := make([]string, 0, len(reply))
	for _, e := range reply {
		pair, flagged := e.([]any)
		if !flagged {
			out = append(out, e.(string))
			continue
		}
		access := Write
		if flags, _ := words(pair[1]); slices.Contains(flags, "RO") {
			access = Read
		}
		out = append(out, access.String()+" "+pair[0].(string))
	}
	slices.Sort(out)
	return out
}

// TestKeysAreThoseTheServerTells asks a real server for the keys of thousands of
// calls. These differ, and must:
//
//   - XREADGROUP: the server's spec reads; the group moves forward, so we write.
//   - A module's command that only reads: the server says it writes, unless the module has said more of its keys.
//   - The commands of exact.go, when the arguments are strewn with keywords: the
//     server answers from specs that can miss what it executes, or passes over
//     options it would reject. Well-formed calls of theirs must be equal.
//   - PFMERGE dst: the server says "invalid arguments", and executes it.
//   - A spec that counts no keys (ZUNIONSTORE dst 0): the server says "invalid
//     arguments", and so it does to the call itself; we keep dst.
//   - A call whose count does not fit: the server says "invalid arguments", we
//     say not complete.
//
// Before 7.0 the server tells the keys, and not what is done to them. It lacks commands and forms of the built-in table then, and
// what it says of MIGRATE is wrong.
func TestKeysAreThoseTheServerTells(t *testing.T) {
	client := realServer(t)
	table, err := Load(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))

	ask := "GETKEYSANDFLAGS"
	flagged := client.Do(t.Context(), "COMMAND", ask, "GET", "k").Err() == nil
	if !flagged {
		ask = "GETKEYS"
	}
	type question struct {
		args   [][]byte
		formed bool
		cmd    *redis.Cmd
	}
	var questions []question
	for c := range table.All() {
		if !flagged && !serverHas(t, client, c) {
			continue
		}
		for range 40 {
			args := someCall(r, c)
			questions = append(questions, question{args: args})
		}
		if c.exact != nil {
			for range 100 {
				questions = append(questions, question{args: formed(r, c.Name), formed: true})
			}
		}
	}
	pipe := client.Pipeline()
	for i := range questions {
		q := []any{"COMMAND", ask}
		for _, a := range questions[i].args {
			q = append(q, a)
		}
		questions[i].cmd = pipe.Do(t.Context(), q...)
	}
	_, _ = pipe.Exec(t.Context()) // each answer has its own error

	var equal, rejected, unsure, exact, older int
	for _, q := range questions {
		c, ok := table.Lookup(q.args)
		if !ok {
			t.Fatalf("%q: no such command", q.args)
		}
		keys, complete := c.Keys(nil, q.args)
		ours := byBytes(q.args, keys)
		reply, err := q.cmd.Slice()
		theirs := told(reply)
		for i, k := range theirs {
			switch {
			case c.Name == "xreadgroup":
				theirs[i] = strings.Replace(k, "read ", "write ", 1)
			case c.Is(FlagModule | FlagReadOnly):
				theirs[i] = strings.Replace(k, "write ", "read ", 1)
			}
		}
		if !flagged {
			for i, k := range ours {
				_, ours[i], _ = strings.Cut(k, " ")
			}
			slices.Sort(ours)
		}
		var refused redis.Error
		switch {
		case err != nil && !errors.As(err, &refused):
			t.Fatalf("%q: %v", q.args, err)
		case c.exact != nil && !q.formed:
			exact++
		case !flagged && (err != nil || !complete || c.Name == "migrate"):
			older++
		case c.exact != nil && !complete:
			t.Errorf("%q: well formed, but not complete", q.args)
		case err != nil && c.Name == "pfmerge" && len(q.args) == 2 && written(keys, complete) == "w1":
			rejected++
		case err != nil:
			// No keys, a count of 0, or one that does not fit.
			if complete && len(keys) > 0 && !countsNone(c, q.args) {
				t.Errorf("%q: keys %q, the server says %v", q.args, ours, err)
			}
			rejected++
		case !complete && len(theirs) > 0:
			t.Errorf("%q: not complete, the server says %q", q.args, theirs)
		case !complete:
			unsure++ // EVAL with a count that does not fit: the server says none
		case !slices.Equal(ours, theirs):
			t.Errorf("%q: keys %q, the server says %q", q.args, ours, theirs)
		default:
			equal++
		}
	}
	t.Logf("%d calls: %d equal, %d without keys to the server, %d not complete, %d of exact commands with stray keywords, %d an older server's",
		len(questions), equal, rejected, unsure, exact, older)
	if equal < 3000 {
		t.Errorf("only %d calls were equal", equal)
	}
}

// serverHas asks a server whether it has a command that takes keys, of which no other form is known to this package.
func serverHas(t *testing.T, client *redis.Client, c *Command) bool {
	t.Helper()
	name, _, sub := strings.Cut(c.Name, "|")
	info, err := client.Do(t.Context(), "COMMAND", "INFO", name).Slice()
	if err != nil {
		t.Fatal(err)
	}
	return !sub && len(info) == 1 && info[0] != nil
}

// countsNone reports whether a keynum spec of the command counts 0 keys.
func countsNone(c *Command, args [][]byte) bool {
	for _, s := range c.specs {
		if s.find == findKeynum && string(args[s.pos+s.numAt]) == "0" {
			return true
		}
	}
	return false
}

// TestTheServerExecutesWhatWeRead runs the calls whose keys the server itself
// does not tell as it executes them.
func TestTheServerExecutesWhatWeRead(t *testing.T) {
	client := realServer(t)
	table, err := Load(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	do := func(args ...any) any {
		t.Helper()
		v, err := client.Do(t.Context(), args...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	split := func(call string) []any {
		var a []any
		for _, f := range argv(call) {
			a = append(a, f)
		}
		return a
	}

	t.Run("a group called STREAMS", func(t *testing.T) {
		do("XGROUP", "CREATE", "k", "STREAMS", "0", "MKSTREAM")
		do("XADD", "k", "*", "f", "v")
		call := "XREADGROUP COUNT 1 GROUP STREAMS c STREAMS k >"
		if reply := do(split(call)...); !strings.Contains(fmt.Sprint(reply), "k") {
			t.Errorf("reply %v", reply)
		}
		if got := keysOf(t, table, argv(call)); got != "w7" {
			t.Errorf("keys %q", got)
		}
	})
	t.Run("the last STORE wins", func(t *testing.T) {
		do("GEOADD", "g", "1", "2", "m")
		call := "GEORADIUS g 1 2 3 km STORE one STORE two"
		do(split(call)...)
		if n := do("EXISTS", "one"); n != int64(0) {
			t.Error("the first STORE was stored to")
		}
		if n := do("EXISTS", "two"); n != int64(1) {
			t.Error("the last STORE was not stored to")
		}
		if got := keysOf(t, table, argv(call)); got != "r1 w7 w9" {
			t.Errorf("keys %q", got)
		}
	})
	t.Run("a keyword ends at NUL", func(t *testing.T) {
		do("RPUSH", "l", "1")
		do("SORT", "l", "STORE\x00", "sorted")
		if n := do("EXISTS", "sorted"); n != int64(1) {
			t.Error("not stored")
		}
	})
	t.Run("a name may end at NUL", func(t *testing.T) {
		// The server finds the command by a hash of all the bytes, then compares
		// up to NUL: about one name in a few hundred is executed.
		pipe := client.Pipeline()
		for i := range 20000 {
			pipe.Do(t.Context(), fmt.Sprintf("SET\x00%d", i), "byname", "v")
		}
		_, _ = pipe.Exec(t.Context())
		t.Logf("SET\\x00… wrote the key: %v", do("EXISTS", "byname") == int64(1))
	})
	t.Run("PFMERGE of nothing", func(t *testing.T) {
		do("PFMERGE", "hll")
		if n := do("EXISTS", "hll"); n != int64(1) {
			t.Error("not created")
		}
	})
	t.Run("BITFIELD that only gets", func(t *testing.T) {
		do("BITFIELD", "bits", "GET", "u8", "0")
		if n := do("EXISTS", "bits"); n != int64(0) {
			t.Error("created")
		}
	})
}

func TestServerKeysOfARealServer(t *testing.T) {
	client := realServer(t)
	keys, err := ServerKeys(t.Context(), client, argv("ZUNIONSTORE d 2 a b"))
	want := []Key{{1, Write}, {3, Read}, {4, Read}}
	if client.Do(t.Context(), "COMMAND", "GETKEYSANDFLAGS", "GET", "k").Err() != nil { // before 7.0
		want = []Key{{1, Write}, {3, Write}, {4, Write}}
	}
	slices.SortFunc(keys, func(a, b Key) int { return a.Index - b.Index })
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("keys %v, error %v; want %v", keys, err, want)
	}
	if keys, err := ServerKeys(t.Context(), client, argv("LOLWUT VERSION 5")); err != nil || len(keys) > 0 {
		t.Errorf("keys %v, error %v; want none", keys, err)
	}
	var refused redis.Error
	if _, err := ServerKeys(t.Context(), client, argv("NOSUCH k")); !errors.As(err, &refused) {
		t.Errorf("error %v, want the server's", err)
	}
}

func TestBothProtocolsGiveTheSameTable(t *testing.T) {
	client := realServer(t)
	resp2 := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Protocol: 2})
	t.Cleanup(func() { _ = resp2.Close() })
	var tables [2]bytes.Buffer
	for i, c := range []*redis.Client{client, resp2} {
		table, err := Load(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.WriteTo(&tables[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(tables[0].Bytes(), tables[1].Bytes()) {
		t.Error("the tables differ")
	}
	info := client.Info(t.Context(), "server").Val()
	_, facts, _ := strings.Cut(builtinFacts, "\n")
	if strings.Contains(info, "redis_version:7.0.") && tables[0].String() != facts {
		t.Error("builtin.txt is not what a 7.0 server says")
	}
}
