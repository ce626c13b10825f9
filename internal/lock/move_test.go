package lock

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A task's write finds its read, though that waited in line when its client turned out to pool, and though another
// task of the client waits in line since.
func TestAWriteGoesPastACommandInLineToTheReadItGoesBackTo(t *testing.T) {
	bubble(t, rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeLock}, func(w *world) {
		x := w.client("x")
		w.did(x.read("s", k1))

		g := w.m.Group(tokenstore.Identity{})
		a := w.client("a")
		a.owner.Belong(w.rule.ClientBy, g, a)
		early := a.enter("s")
		early.lineUp(true) // x holds the session

		g.Pool()
		late := g.Owner().Sequence(tokenstore.Area{}, w.rule, []byte("s"))
		if now, _ := late.Present(); now != late || !late.TryEnter() {
			t.Fatal("a command that comes later has to wait")
		}
		if settled, _ := late.Settle(); !settled {
			t.Fatal("it can't go on")
		}
		late.lineUp(true)

		w.did(x.write("s", k1))
		early.Granted(w.f.begin(early.Record, early.Claim, "", tokenstore.Basis{}), time.Now())
		early.lineUp(false)
		early.Read(1, []uint64{k1}, time.Now())
		early.Leave()

		now, _ := late.Present()
		if now != early || !now.TryEnter() {
			t.Fatal("the write waits for the command in line")
		}
		if settled, _ := now.Settle(); !settled || now.Lone() {
			t.Fatal("the write finds no read")
		}
		now.Leave()
		late.Leave()
	})
}
