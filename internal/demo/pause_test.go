package demo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseLastsUntilItsTimeIsOverAndItWasOvertaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ overtaken, ends time.Duration }{
		"overtaken early": {time.Millisecond, time.Second},
		"overtaken late":  {3 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, start := newPause(time.Second), time.Now()
				if p.hasBegun() {
					t.Error("the pause has begun before it was taken")
				}
				go func() {
					<-p.begun
					time.Sleep(tc.overtaken)
					p.overtake()
					p.overtake()
				}()
				if err := p.take(t.Context()); err != nil || time.Since(start) != tc.ends || !p.hasBegun() {
					t.Errorf("ended after %v: %v", time.Since(start), err)
				}
			})
		})
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"while it lasts": time.Millisecond, "while nobody overtakes": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				if err := newPause(time.Second).take(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}
