package lock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// circling is a Provider that finds each owner in a circle, whatever it waits for.
type circling struct {
	*fake
	finds bool
	calls []string
	gate  chan struct{} // each look waits there, even if nobody wants its answer any more
	back  chan struct{} // so does taking back what a wait has said
}

func (c *circling) said(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, what)
}

func (c *circling) Waits(_ context.Context, r *tokenstore.Record, _ *tokenstore.Claim, _ string, _ time.Duration) error {
	c.said("waits for " + r.Session)
	return nil
}

func (c *circling) WaitsNoMore(context.Context, *tokenstore.Claim) error {
	<-c.back
	c.said("waits no more")
	return nil
}

func (c *circling) InCircle(_ context.Context, r *tokenstore.Record, _ string) (tokenstore.Circle, bool, error) {
	<-c.gate
	return tokenstore.Circle{Token: r.Keys()[0]}, c.finds, nil
}

// circles has the world's manager find circles.
func (w *world) circles(finds bool) *circling {
	c := &circling{fake: w.f, finds: finds, gate: make(chan struct{}), back: make(chan struct{})}
	w.m.provider = c
	return c
}

// A wait that ends while its search is at the store, and another that begins then.
func TestTheSearchOfAnEarlierWaitDoesNotReachTheNextOne(t *testing.T) {
	bubble(t, long, func(w *world) {
		at := w.circles(true)
		a, b := w.client("a"), w.client("b")
		w.did(a.read("own", k1))
		w.did(b.read("s", k1))
		w.did(b.read("t", k1))
		a.park("s")
		synctest.Wait() // it looks
		a.waiter.Unpark()
		a.park("t")
		at.gate <- struct{}{} // the first search has its answer
		synctest.Wait()
		if len(a.waiter.Stuck) > 0 {
			t.Error("the wait is given up for a circle that an earlier one was in")
		}
		if !slices.Equal(at.calls, []string{"waits for s"}) {
			t.Errorf("%v before the first search is over", at.calls)
		}
		at.back <- struct{}{}
		at.gate <- struct{}{}
		if circle := <-a.waiter.Stuck; circle.Token != a.sequence("t").Record.Keys()[0] {
			t.Errorf("stuck with %v", circle)
		}
		close(at.back)
		a.waiter.Unpark()
		synctest.Wait()
		if want := []string{"waits for s", "waits no more", "waits for t", "waits no more"}; !slices.Equal(at.calls, want) {
			t.Errorf("%v, want %v", at.calls, want)
		}
	})
}

func TestWhoDoesNotWaitIsNotStuck(t *testing.T) {
	bubble(t, long, func(w *world) {
		at := w.circles(true)
		close(at.gate)
		close(at.back)
		a, b := w.client("a"), w.client("b")
		w.did(a.read("own", k1))
		w.did(b.read("s", k1))
		a.park("s")
		synctest.Wait() // it is stuck, and the session comes in the same moment
		a.waiter.Unpark()
		select {
		case <-a.waiter.Stuck:
			t.Error("the next command is given up")
		default:
		}
	})
}
