//go:build integration

package provider_test

import (
	"context"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// turnPatience is how long a wait may last before it counts as a failure.
const turnPatience = 30 * time.Second

// turnHold is somebody's hold.
type turnHold struct {
	provider.Hold
	tb testing.TB
}

// takeTurn takes a session that is free, or will be soon.
func takeTurn(tb testing.TB, l provider.Locker, session string) *turnHold {
	tb.Helper()
	return startTurn(tb.Context(), l, session).granted(tb)
}

func (o *turnHold) release() {
	o.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
	defer cancel()
	if err := o.Release(ctx); err != nil {
		o.tb.Fatalf("release: %v", err)
	}
}

func (o *turnHold) lost() bool {
	select {
	case <-o.Lost():
		return true
	default:
		return false
	}
}

// turn is an Acquire on its way.
type turn struct {
	done chan struct{} // closed when it has returned
	hold *turnHold
	err  error
}

func startTurn(ctx context.Context, l provider.Locker, session string) *turn {
	a := &turn{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		hold, err := l.Acquire(ctx, provider.Request{Session: session, Holder: "a test", Lease: time.Minute})
		a.hold, a.err = &turnHold{Hold: hold}, err
	}()
	return a
}

func (a *turn) over() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// granted waits for the hold.
func (a *turn) granted(tb testing.TB) *turnHold {
	tb.Helper()
	select {
	case <-a.done:
	case <-time.After(turnPatience):
		tb.Fatal("the session is not granted")
	}
	if a.err != nil {
		tb.Fatalf("acquire: %v", a.err)
	}
	a.hold.tb = tb
	return a.hold
}

// fails waits for the error.
func (a *turn) fails(tb testing.TB) error {
	tb.Helper()
	select {
	case <-a.done:
	case <-time.After(turnPatience):
		tb.Fatal("Acquire does not return")
	}
	if a.err == nil {
		tb.Fatal("the session was granted")
	}
	return a.err
}

// closeInTime closes a Locker and waits for it.
func closeInTime(tb testing.TB, l provider.Locker) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), turnPatience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		tb.Errorf("close: %v", err)
	}
}
