package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// apart returns a sequence apart that waits this long.
func (w *world) apart(session string, wait time.Duration, grant uint64) *Sequence {
	terms := *w.rule
	terms.Wait = wait
	return w.m.Apart(tokenstore.Area{}, &terms, []byte(session), tokenstore.Identity{Client: "apart"}, grant)
}

type acquisition struct {
	b   tokenstore.Begin
	err error
}

// acquires begins to acquire a session.
func (w *world) acquires(ctx context.Context, s *Sequence) <-chan acquisition {
	done := make(chan acquisition, 1)
	go func() {
		b, err := w.m.Acquire(ctx, s)
		done <- acquisition{b, err}
	}()
	return done
}

// inLine fails the test unless so many stand in line.
func (w *world) inLine(s *Sequence, n int) {
	w.Helper()
	synctest.Wait()
	if got := w.f.queued(s.Record); len(got) != n {
		w.Fatalf("in line: %q, want %d", got, n)
	}
}

// release ends a hold as its holder does.
func (w *world) release(r *tokenstore.Record, h tokenstore.Holder) {
	w.Helper()
	if err := w.f.Release(w.Context(), r, &tokenstore.Claim{Owner: h.Owner}, h.Grant, true); err != nil {
		w.Fatal(err)
	}
}

func TestASessionIsAcquiredInTurn(t *testing.T) {
	bubble(t, long, func(w *world) {
		first := <-w.acquires(w.Context(), w.apart("s", 0, 0))
		if first.err != nil || !first.b.Granted {
			w.Fatalf("%+v", first)
		}
		a, b := w.apart("s", time.Hour, 0), w.apart("s", time.Hour, 0)
		second := w.acquires(w.Context(), a)
		w.inLine(a, 1)
		third := w.acquires(w.Context(), b)
		w.inLine(a, 2)
		for i, next := range []<-chan acquisition{second, third} {
			h := w.f.holder(a.Record)
			w.release(a.Record, h)
			got := <-next
			if got.err != nil || got.b.Grant <= h.Grant {
				w.Fatalf("%d: %+v after grant %d", i, got, h.Grant)
			}
		}
	})
}

func TestWhoGivesUpAcquiringStandsInNoLine(t *testing.T) {
	errLeft := errors.New("left")
	bubble(t, long, func(w *world) {
		<-w.acquires(w.Context(), w.apart("s", 0, 0))
		s := w.apart("s", time.Second, 0)
		var locked *LockedError
		if got := <-w.acquires(w.Context(), w.apart("s", 0, 0)); !errors.As(got.err, &locked) || locked.Holder.Client != "apart" {
			w.Errorf("without waiting: %v", got.err)
		}
		start := time.Now()
		if got := <-w.acquires(w.Context(), s); !errors.As(got.err, &locked) || time.Since(start) != time.Second {
			w.Errorf("after %v: %v", time.Since(start), got.err)
		}
		ctx, leave := context.WithCancelCause(w.Context())
		done := w.acquires(ctx, w.apart("s", time.Hour, 0))
		w.inLine(s, 1)
		leave(errLeft)
		if got := <-done; !errors.Is(got.err, errLeft) {
			w.Errorf("who left: %v", got.err)
		}
		w.inLine(s, 0)
	})
}

func TestAStoreThatCanNotBeAskedGivesNoGrant(t *testing.T) {
	bubble(t, long, func(w *world) {
		w.f.fail(true, "begin")
		if got := <-w.acquires(w.Context(), w.apart("s", time.Hour, 0)); !errors.Is(got.err, errDown) {
			w.Errorf("%+v", got)
		}
	})
}

// A sequence apart verifies, presents its grant and leaves the count to the store; it holds nothing of its own.
func TestASequenceApartPresentsItsGrantUntilItIsStale(t *testing.T) {
	bubble(t, long, func(w *world) {
		const grant = 7
		s := w.apart("s", 0, grant)
		how, expected, err := s.BeforeRead(w.Context(), "get", time.Now())
		if how != Verify || expected.Grant != grant || err != nil {
			w.Errorf("%v %v %v", how, expected, err)
		}
		if err := s.Current(tokenstore.Token{Grant: grant}); err != nil {
			w.Error(err)
		}
		s.Read(1, []uint64{k1}, time.Now())
		for range 2 { // no read is used up
			token, err := s.BeforeWrite(w.Context(), Write{Keys: []uint64{k1}}, time.Now())
			if token != (Token{Grant: grant}) || err != nil {
				w.Errorf("%+v %v", token, err)
			}
			s.Committed(tokenstore.Commit{Grant: grant, Apart: true}, grant, Write{Keys: []uint64{k1}}, true, time.Now())
		}
		s.Abandon(w.Context())
		if n := w.m.Holds(); n != 0 || len(w.f.made("release")) != 0 {
			w.Errorf("%d holds, %d releases", n, len(w.f.made("release")))
		}
		if s.State() != Held {
			w.Error("it has ended")
		}
		var fenced *FencedError
		for _, newest := range []uint64{0, grant + 1} {
			stale := w.apart("s", 0, grant)
			if err := stale.Current(tokenstore.Token{Grant: newest}); !errors.As(err, &fenced) || fenced.Reason != ReasonNotNewest || fenced.Newest != newest {
				w.Errorf("%v", err)
			}
			if stale.State() != Broken {
				w.Error("it goes on")
			}
		}
		if err := s.Refused(tokenstore.Check{Verdict: tokenstore.Superseded, Token: tokenstore.Token{Grant: 9}}); !errors.As(err, &fenced) || fenced.Newest != 9 {
			w.Errorf("%v", err)
		}
	})
}
