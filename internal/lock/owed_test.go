package lock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// grantsUnheard has the store grant a session to a client that does not hear of it, and then be down.
func (c *client) grantsUnheard(session string) *Sequence {
	c.Helper()
	s := c.sequence(session)
	if b, err := c.f.Begin(c.Context(), s.Record, s.Claim, "", tokenstore.Basis{}); err != nil || !b.Granted {
		c.Fatalf("%+v, %v", b, err)
	}
	c.f.fail(true, "release", "inspect")
	return s
}

func TestWhatWasGrantedWithoutAnAnswerIsGivenBackWhenTheStoreAnswersAgain(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		s := a.grantsUnheard("s")
		w.m.Owes(s)
		w.pass(3 * time.Second)
		if !w.f.holder(s.Record).Held() {
			t.Fatal("the store was down, and the hold has ended")
		}
		w.f.fail(false, "release", "inspect")
		w.pass(ghostRetry)
		a.nobodyHolds("s")
		asked := len(w.f.made("inspect"))
		w.pass(time.Minute)
		if again := len(w.f.made("inspect")); again != asked {
			t.Errorf("the store is asked %d times more", again-asked)
		}
	})
}

func TestWhatItsOwnerHasTakenMeanwhileIsNotOwed(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		s := a.grantsUnheard("s")
		w.m.Owes(s)
		w.pass(time.Second)
		w.did(a.read("s", k1)) // it goes on under the same hold
		w.f.fail(false, "release", "inspect")
		w.pass(time.Second)
		a.holds("s")
		w.did(a.write("s", k1))
	})
}

func TestNothingIsOwedBeyondTheLease(t *testing.T) {
	bubble(t, long, func(w *world) {
		s := w.client("a").grantsUnheard("s")
		w.m.Owes(s)
		w.pass(s.Claim.Lease + time.Second)
		asked := len(w.f.made("inspect"))
		w.pass(time.Minute)
		if again := len(w.f.made("inspect")); asked == 0 || again != asked {
			t.Errorf("asked %d times within the lease, and %d times behind it", asked, again-asked)
		}
		synctest.Wait()
	})
}

// Another's hold is not touched.
func TestWhatSomebodyElseHasIsNotOwed(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(b.read("s", k1))
		w.m.Owes(a.sequence("s"))
		w.pass(time.Second)
		b.holds("s")
		w.did(b.write("s", k1))
	})
}
