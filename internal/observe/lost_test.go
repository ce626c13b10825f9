package observe

import (
	"strings"
	"testing"
)

func TestUpdatesThatAreNotInTheValueAreLost(t *testing.T) {
	for _, test := range []struct {
		name  string
		story string
		lost  int64
		stale int64
	}{
		{"one after the other", "a GET k; a SET k 1; b GET k; b SET k 2", 0, 0},
		{"both read before either writes", "a GET k; b GET k; a SET k 1; b SET k 2", 1, 1},
		{"a stale write leaves out all that came since", "a GET k; b GET k; b SET k 1; b GET k; b SET k 2; a SET k 3", 2, 1},
		// c goes on from b's update, which a has left out: it is in the value again, and a's is not.
		{"a stale write brings another's update back", "a GET k; b GET k; b SET k 1; c GET k; a SET k 2; c SET k 3", 1, 2},
		{"a nil counts as read", "a GET k -> $-1; b GET k -> $-1; a SET k 1; b SET k 2", 1, 1},
		{"nobody has read", "a SET k 1; b SET k 2; a SET k 3", 0, 0},
		{"a blind write is left out by a stale one", "a GET k; b SET k 1; a SET k 2", 1, 1},
		{"another key", "a GET k; b SET k:2 1; a SET k 2", 0, 0},
		{"a read that failed", "a GET k -> -WRONGTYPE no; b SET k 1; a SET k 2", 0, 0},
		{"a write that failed", "a GET k; b SET k 1 -> -OOM no; a SET k 2", 0, 0},
		{"a stale write that failed", "a GET k; b SET k 1; a SET k 2 -> -OOM no", 0, 0},
		{"a write that did not come to be", "a GET k; b SET k 1 NX -> $-1; a SET k 2", 0, 0},
		{"a delete", "a GET k; b GET k; b DEL k -> :1; a SET k 2", 1, 1},
		{"a delete of nothing", "a GET k; b GET k; b DEL k -> :0; a SET k 2", 0, 0},
		{"by another command", "a GET k; b GET k; b SETEX k 9 1; a GETSET k 2 -> $-1", 1, 1},
		{"a second write of a sequence", "a GET k; a SET k 1; b GET k; b SET k 2; a SET k 3", 1, 1},
		{"a sequence with many writes", "a GET k; a SET k 1; a SET k 2; a SET k 3", 0, 0},
		{"a time to live changes nothing", "a GET k; b EXPIRE k 9 -> :1; a SET k 2", 0, 0},
		{"a counter loses nothing", "a GET k; b GET k; a INCR k -> :1; b INCR k -> :2", 0, 0},
		{"a counter is lost by a stale write", "a GET k; b INCR k -> :1; a SET k 5", 1, 1},
		{"an element is lost by a rewrite", "a LRANGE k 0 -1 -> *0; b RPUSH k x -> :1; a DEL k -> :1; a RPUSH k y -> :1", 1, 1},
		{"an element stays beside another's", "a LINDEX k 0 -> $-1; b RPUSH k x -> :2; a LSET k 0 y", 0, 0},
		{"one's own element", "a LRANGE k 0 -1 -> *0; a RPUSH k x -> :1; a DEL k -> :1", 0, 0},
		{"a document", "a HGETALL k -> *0; b HGETALL k -> *0; a HSET k f 1 -> :1; b HSET k f 2 -> :0", 1, 1},
		{"other fields of a document", "a HGETALL k -> *0; b HGETALL k -> *0; a HSET k f 1 -> :1; b HSET k g 2 -> :1", 0, 0},
		{"a field taken away with all", "a HGETALL k -> *0; b HSET k f 1 -> :1; a DEL k -> :1", 1, 1},
		{"JSON", "a JSON.GET k; b JSON.GET k; a JSON.SET k $ 1; b JSON.SET k $ 2", 1, 1},
		{"other paths of JSON", "a JSON.GET k; b JSON.GET k; a JSON.SET k $.x 1; b JSON.SET k $.y 2", 0, 0},
		{"members of a set", "a ZRANGE k 0 -1 -> *0; b ZADD k NX 1 x -> :1; a ZADD k CH 1 y -> :1", 0, 0},
		{"a list that is kept short", "a LRANGE k 0 -1 -> *0; b LTRIM k -9 -1; a LTRIM k -9 -1", 0, 0},
		{"a script is an update", "a GET k; b EVAL s 1 k; b EVAL s 1 k; a EVAL s 1 k", 0, 0},
		{"several keys at once", "a MGET k k -> *0; b MSET k 1 k 2; a MSET k 3", 1, 1},
		{"two tasks on one connection", "a GET k; a GET k; a SET k 1; a SET k 2", 1, 1},
		{"one task that looks first", "a EXISTS k -> :1; a GET k; a SET k 1; a SET k 2", 0, 0},
		{"two tasks that look first", "a EXISTS k -> :1; a GET k; a EXISTS k -> :1; a GET k; a SET k 1; a SET k 2", 1, 1},
		{"two tasks of a pool", "a/1 GET k; a/2 GET k; a/3 SET k 1; a/4 SET k 2", 1, 1},
		{"a pool", "a/1 GET k; a/2 SET k 1; a/2 GET k; a/1 SET k 2", 0, 0},
		{"two pools", "a/1 GET k; b/1 GET k; a/2 SET k 1; b/2 SET k 2", 1, 1},
		{"a connection for each command", "a/1 GET k; b/1 GET k; a/2 SET k 1; b/2 SET k 2; a/3 GET k; a/4 SET k 3", 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlay(t)
			p.run(strings.Split(test.story, "; ")...)
			var lost, stale int64
			for _, found := range p.o.Report().Patterns {
				lost += found.Lost
				stale += found.Stale
			}
			if lost != test.lost || stale != test.stale {
				t.Errorf("%d lost by %d stale writes, want %d by %d", lost, stale, test.lost, test.stale)
			}
		})
	}
}

func TestTransactionIsSeenAtItsExec(t *testing.T) {
	for reply, lost := range map[string]int64{
		"*2\r\n+OK\r\n:1\r\n":              1,
		"*-1\r\n":                          0,
		"-EXECABORT no\r\n":                0,
		"*2\r\n-WRONGTYPE no\r\n:1\r\n":    0,
		"*2\r\n$3\r\na\r\n\r\n-ERR no\r\n": 1,
		"*2\r\n$70000\r\n" + strings.Repeat("x", 70000) + "\r\n:1\r\n": 1,
	} {
		p := newPlay(t)
		p.run("a GET k", "b GET k", "a SET k 1")
		b := p.conn("b")
		b.Queue(p.call("SET k 2"), 0)
		b.Queue(p.call("EXPIRE k 9"), 1)
		exec := b.Exec()
		if !exec.Begin() {
			t.Fatal("EXEC has to wait")
		}
		answer(exec, reply)
		if found := p.pattern(); found.Lost != lost {
			t.Errorf("EXEC -> %.20q: %d lost, want %d", reply, found.Lost, lost)
		}
	}
}

func TestWriteThatWasSentBeforeItsReadWasAnsweredDoesNotGoOnFromIt(t *testing.T) {
	p := newPlay(t)
	read := p.send("a", "GET k")
	write := p.send("a", "SET k 1")
	answer(read, "$-1\r\n")
	answer(write, "+OK\r\n")
	if found := p.pattern(); found.Blind != 1 || found.Sequences != 0 {
		t.Errorf("%+v", found)
	}
}

func TestDatabasesAreKeptApart(t *testing.T) {
	p := newPlay(t)
	p.run("a GET k")
	other := p.call("SET k 1")
	other.DB = 1
	write := p.conn("b").Send(other)
	write.Begin()
	answer(write, "+OK\r\n")
	p.run("a SET k 2")
	if found := p.pattern(); found.Lost != 0 || found.Keys != 2 {
		t.Errorf("%+v", found)
	}
}

func TestFlushedKeysAreForgotten(t *testing.T) {
	p := newPlay(t)
	p.run("a GET k", "b FLUSHALL", "b SET k 1", "a SET k 2")
	if found := p.pattern(); found.Lost != 0 || found.Blind != 2 {
		t.Errorf("%+v", found)
	}
}

func TestWhoLosesAmongThemselvesIsCountedApart(t *testing.T) {
	p := newPlay(t)
	p.run("a GET k", "a GET k", "a SET k 1", "a SET k 2")
	if found := p.pattern(); found.Lost != 1 || found.Within != 1 || found.Guessed != 0 {
		t.Errorf("%+v", found)
	}
	p.run("b GET k", "a GET k", "a SET k 3", "b SET k 4")
	if found := p.pattern(); found.Lost != 2 || found.Within != 1 {
		t.Errorf("%+v", found)
	}
}

func TestBlockingPopCountsForTheKeyItHasTakenFrom(t *testing.T) {
	p := newPlay(t)
	p.run("a LRANGE q1 0 -1 -> *0", "a LRANGE q2 0 -1 -> *0", "b BLPOP q1 q2 0 -> *2\r\n$2\r\nq2\r\n$1\r\nx", "a DEL q1 -> :1")
	if r := p.o.Report(); r.Lost != 0 {
		t.Errorf("%d lost of the key that was left alone", r.Lost)
	}
	p.run("a DEL q2 -> :1")
	if r := p.o.Report(); r.Lost != 1 {
		t.Errorf("%d lost", r.Lost)
	}
	p.run("b BLPOP q1 q2 0 -> *-1")
}

func TestClientsAndTimesAreTold(t *testing.T) {
	p := newPlay(t)
	p.run("a GET k", "b GET k", "a SET k 1", "b SET k 2", "c GET k")
	found := p.pattern()
	if found.Sequences != 2 || found.Overlaps != 1 || found.Waited <= 0 || found.Reads != 3 || found.Commands["get"] != 3 {
		t.Errorf("%+v", found)
	}
	if b := found.Clients[0]; len(found.Clients) != 3 || b.Name != "b" || b.Address != "10.0.0.1" || b.Lost != 1 || b.Sequences != 1 {
		t.Errorf("%+v", found.Clients)
	}
}

func TestCommandsThatReadNoValueBeginNothing(t *testing.T) {
	for _, look := range []string{"TTL k", "TYPE k", "WATCH k", "OBJECT ENCODING k", "EXPIRE k 9", "EXPIREAT k 9"} {
		p := newPlay(t)
		p.run("a "+look+" -> :1", "b SET k 1", "a SET k 2")
		if found := p.pattern(); found.Lost != 0 || found.Blind != 2 {
			t.Errorf("%s: %+v", look, found)
		}
	}
}
