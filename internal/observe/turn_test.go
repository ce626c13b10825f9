package observe

import (
	"testing"
	"testing/synctest"
	"time"
)

func (p *play) begin(conn, line string) (*Pending, bool) {
	p.Helper()
	pending := p.conn(conn).Send(p.call(line))
	begun := pending.Begin()
	return pending, begun
}

func TestCommandsWaitOnlyForThoseThatMatter(t *testing.T) {
	for _, test := range []struct {
		first, second string
		waits         bool
	}{
		{"a GET k", "b GET k", false},
		{"a GET k", "b SET k 1", true},
		{"a SET k 1", "b GET k", true},
		{"a SET k 1", "b SET k 2", true},
		{"a SET k 1", "a GET k", false},
		{"a GET k", "a SET k 1", false},
		{"a SET k 1", "b SET j 2", false},
		{"a MSET i 1 k 1", "b MGET j k", true},
		{"a BLPOP k 0", "b SET k 1", false},
		{"a EXPIRE k 9", "b SET k 1", false},
	} {
		p := newPlay(t)
		if first := p.conn("a").Send(p.call(test.first[2:])); first != nil {
			first.Begin()
		}
		if _, begun := p.begin(test.second[:1], test.second[2:]); begun == test.waits {
			t.Errorf("%s, %s: waits %v, want %v", test.first, test.second, !begun, test.waits)
		}
	}
}

func TestTurnComesWithTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		first := p.send("a", "SET k 1")
		second, _ := p.begin("b", "GET k")
		third, _ := p.begin("c", "SET k 2")
		begun := make(chan *Pending, 2)
		for _, pending := range []*Pending{second, third} {
			go func() {
				pending.Wait()
				begun <- pending
			}()
		}
		synctest.Wait()
		if len(begun) > 0 {
			t.Fatal("a command has not waited")
		}
		answer(first, "+OK\r\n")
		synctest.Wait()
		if len(begun) != 1 {
			t.Fatalf("%d commands have begun", len(begun))
		}
		answer(<-begun, "$1\r\n1\r\n")
		synctest.Wait()
		answer(<-begun, "+OK\r\n")
		if found := p.pattern(); found.Lost != 0 || found.Writes != 2 || p.o.unsure != 0 || len(p.o.turns) != 0 {
			t.Errorf("%+v, %d unsure, %d turns left", found, p.o.unsure, len(p.o.turns))
		}
	})
}

func TestWriterIsNotStarvedByReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		first := p.send("a", "GET k")
		write, _ := p.begin("b", "SET k 1")
		go write.Wait()
		synctest.Wait()
		late, begun := p.begin("c", "GET k")
		if begun {
			t.Fatal("a reader has come before the writer that waits")
		}
		go late.Wait()
		answer(first, "$-1\r\n")
		synctest.Wait()
		answer(write, "+OK\r\n")
		synctest.Wait()
		answer(late, "$1\r\n1\r\n")
		if p.o.unsure != 0 || len(p.o.turns) != 0 {
			t.Errorf("%d unsure, %d turns left", p.o.unsure, len(p.o.turns))
		}
	})
}

func TestNobodyWaitsLongerThanATurnMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t)
		slow := p.send("a", "GET k")
		write, _ := p.begin("b", "SET k 1")
		start := time.Now()
		write.Wait()
		if waited := time.Since(start); waited != DefaultTurn {
			t.Errorf("waited %v", waited)
		}
		if _, begun := p.begin("c", "GET j"); !begun {
			t.Error("another key's command waits")
		}
		answer(write, "+OK\r\n")
		next, begun := p.begin("c", "SET k 2")
		if !begun {
			t.Error("the slow one is waited for again")
		}
		answer(next, "+OK\r\n")
		answer(slow, "$-1\r\n") // it was read before the writes
		p.run("a SET k 3")
		if r := p.o.Report(); r.Lost != 2 || r.Unsure != 1 {
			t.Errorf("%d lost, %d unsure", r.Lost, r.Unsure)
		}
	})
}

func TestLostConnectionEndsItsTurn(t *testing.T) {
	p := newPlay(t)
	p.send("a", "SET k 1").Lost()
	answer(p.send("b", "GET k"), "$-1\r\n")
	if found := p.pattern(); found.Writes != 0 || len(p.o.turns) != 0 {
		t.Errorf("%+v", found)
	}
}
