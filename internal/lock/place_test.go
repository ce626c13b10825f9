package lock

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// leave is what a client does whose command gives up.
func (c *client) leave(session string) {
	c.Helper()
	s := c.sequence(session)
	if grant := c.waiter.Unpark(); grant != 0 {
		c.Fatalf("a question took grant %d", grant)
	}
	c.did(c.f.Leave(c.Context(), s.Record, s.Claim, c.waiter.ID()))
	c.waiter.Rest()
}

// stands has places stand in a session's line that the store had lost the end of: ahead of all others.
func (w *world) stands(r *tokenstore.Record, places ...entry) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	s := w.f.at(r)
	s.queue = append(places, s.queue...)
}

// lines fails the test unless these stand in a session's line.
func (w *world) lines(r *tokenstore.Record, want ...string) {
	w.Helper()
	synctest.Wait()
	if got := w.f.queued(r); !slices.Equal(got, want) {
		w.Errorf("in line are %v, want %v", got, want)
	}
}

func TestASessionThatIsHandedToAWaiterThatHasLeftGoesOnAtOnce(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 2)
		b, c := waiting[0], waiting[1]
		s := b.sequence("s")
		name := b.waiter.ID()
		b.leave("s")
		w.stands(s.Record, entry{name, s.Claim})
		start := time.Now()
		w.did(a.write("s", k1))
		if !c.woken() {
			w.Error("the next one in line was not woken")
		}
		if took := time.Since(start); took != 0 {
			w.Errorf("that took %v", took)
		}
		c.waiter.Unpark()
		w.did(c.read("s", k1))
	})
}

func TestPlacesOfWaitersThatHaveLeftAreGivenUp(t *testing.T) {
	for name, happens := range map[string]func(*Manager){"a new subscription": (*Manager).Subscribed, "another primary": (*Manager).Moved} {
		t.Run(name, func(t *testing.T) { givenUp(t, happens) })
	}
}

func givenUp(t *testing.T, happens func(*Manager)) {
	t.Helper()
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 3)
		b, c, d := waiting[0], waiting[1], waiting[2]
		s := b.sequence("s")
		name := b.waiter.ID()
		b.leave("s")
		d.waiter.Unpark() // its command goes on: it asks again, in its place
		b.park("s")       // anew
		stranger := entry{"other.7", tokenstore.NewClaim("other:8", tokenstore.Identity{}, time.Second, time.Hour)}
		w.stands(s.Record, entry{name, s.Claim}, stranger, entry{tokenstore.Parks(name), s.Claim})
		w.f.fail(true, "line")
		happens(w.m)
		synctest.Wait()
		w.f.fail(false, "line")
		w.pass(ghostRetry)
		w.lines(s.Record, "other.7", c.waiter.ID(), d.waiter.ID(), b.waiter.ID())
		if b.waiter.ID() == name {
			w.Error("a waiter stands in line anew by the name that it had")
		}
		for _, x := range []*client{b, c} {
			x.waiter.Unpark()
		}
	})
}

func TestWhatIsReservedForAWaiterThatHasLeftGoesOnWhenThePrimaryIsAnother(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		waiting := w.parked(a, 2)
		b, c := waiting[0], waiting[1]
		s := b.sequence("s")
		name := tokenstore.Parks(b.waiter.ID()) // nobody is told of its turn
		b.leave("s")
		w.stands(s.Record, entry{name, s.Claim})
		w.did(a.write("s", k1))
		if c.woken() {
			w.Fatal("the next one in line was woken")
		}
		w.m.Moved()
		if !c.woken() {
			w.Error("the next one in line was not woken")
		}
		c.waiter.Unpark()
		w.did(c.read("s", k1))
	})
}

// One that the store was asked for and that does not stand in line yet, as far as the proxy knows, is left alone.
func TestAPlaceThatIsJustBeingTakenIsKept(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		s := b.sequence("s")
		b.waiter.Stood(s) // before, too
		w.f.begin(s.Record, s.Claim, b.waiter.ID(), tokenstore.Basis{})
		w.m.Moved()
		w.lines(s.Record, b.waiter.ID())
	})
}

func TestAWaiterThatHasStoodNowhereKeepsItsName(t *testing.T) {
	bubble(t, long, func(w *world) {
		b := w.client("b")
		name := b.waiter.ID()
		b.waiter.Rest()
		if b.waiter.ID() != name {
			w.Errorf("%s is called %s", name, b.waiter.ID())
		}
	})
}

func TestSoManyPlacesAreRememberedAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p places
		at := []stood{{tokenstore.NewRecord(tokenstore.Area{}, "chat", "s"), nil}}
		for i := range 5 * placesLeast {
			p.note(strconv.Itoa(i), at)
			if n := len(p.young) + len(p.old); n > 2*placesLeast {
				t.Fatalf("%d are remembered", n)
			}
			if p.of(strconv.Itoa(i)) == nil || p.of(strconv.Itoa(max(0, i-placesLeast+1))) == nil {
				t.Fatal("one of the last is not")
			}
		}
		if n := len(p.sessions()); n != 1 {
			t.Errorf("they are of %d sessions", n)
		}
		time.Sleep(3 * placesFor)
		p.note("late", at)
		if n := len(p.young) + len(p.old); n != 1 {
			t.Errorf("%d are remembered after a while", n)
		}
	})
}
