package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func TestDrainedWaitsForTheLastHold(t *testing.T) {
	bubble(t, rule.Rule{Idle: time.Minute}, func(w *world) {
		a := w.client("a")
		w.did(w.m.Drained(context.Background())) // there is none
		w.did(a.read("s", k1))
		w.did(a.read("t", k1))
		drained := make(chan error, 1)
		go func() { drained <- w.m.Drained(context.Background()) }()
		waits := func() {
			w.Helper()
			synctest.Wait()
			select {
			case err := <-drained:
				w.Fatalf("drained with %d holds: %v", w.m.Holds(), err)
			default:
			}
		}
		waits()
		w.did(a.write("s", k1))
		waits()
		w.did(a.write("t", k1))
		w.did(<-drained)
	})
}

func TestDrainedIsNotMisledByHoldsThatEndedEarlier(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.did(a.write("s", k1))
		w.did(a.read("s", k1))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.m.Drained(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("%v with %d holds", err, w.m.Holds())
		}
	})
}

func TestAManagerIsReadyOnceWakeUpsCanBeReceived(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.m.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("ready without a subscription: %v", err)
		}
		w.m.Subscribed()
		w.m.Subscribed() // again, after a reconnection
		w.did(w.m.Ready(context.Background()))
	})
}

func TestAManagerThatClosesReleasesEveryOwnersHolds(t *testing.T) {
	bubble(t, long, func(w *world) {
		a, b := w.client("a"), w.client("b")
		w.did(a.read("s", k1))
		w.did(b.read("t", k1))
		w.m.Close(context.Background())
		a.nobodyHolds("s")
		b.nobodyHolds("t")
		w.did(w.m.Drained(context.Background()))
	})
}

func TestAManagerThatClosesGivesUpInTime(t *testing.T) {
	bubble(t, long, func(w *world) {
		a := w.client("a")
		w.did(a.read("s", k1))
		w.f.ignore(true, "release")
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.m.Close(ctx)
		if took := time.Since(start); took != time.Second {
			w.Errorf("it took %v", took)
		}
	})
}

func TestNothingIsDetachedAfterClose(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		w.m.Detach(func(context.Context) {})
		w.m.Close(context.Background())
		w.m.Detach(func(context.Context) { w.Error("it ran") })
		synctest.Wait()
	})
}

func TestCloseWaitsForWhatIsDetached(t *testing.T) {
	bubble(t, rule.Rule{}, func(w *world) {
		done := false
		w.m.Detach(func(ctx context.Context) {
			time.Sleep(time.Second)
			done = ctx.Err() == nil
		})
		w.m.Close(context.Background())
		if !done {
			w.Error("it did not")
		}
	})
}
