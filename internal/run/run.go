// Package run runs a command only while it holds a session: a cron job of which one may run at a time, a
// service of which one is the leader.
//
//	acquire ─▶ start ─▶ the command runs ──────────────▶ it ends ─▶ release
//	 (waits            (the hold is renewed at a third)
//	  in line)               │ the hold is lost
//	                         └▶ SIGTERM ─ grace ─▶ SIGKILL
//
// The hold is a grant of its own, as FENCE.ACQUIRE gives one; the command finds it in its environment and may
// write under it (FENCE.DO). Whether the hold still stands, the store says; when the store can't be asked until the
// lease has ended, it counts as lost. A command that does not end at once runs on for as long as the grace
// lasts, beside the next holder's: what it writes under its grant is refused then.
package run

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// GrantVariable is where the command finds its grant.
const GrantVariable = "FENCE_GRANT"

// closeTime bounds giving back at the end.
const closeTime = 2 * time.Second

// ErrLost says that the hold was lost while the command ran.
var ErrLost = errors.New("the hold was lost")

// Options say what to run and what to hold. All but Outside are required.
type Options struct {
	Store    *tokenstore.Store
	Area     tokenstore.Area // where the key lives that names the session
	Terms    *rule.Rule      // the session's rule, with how long to wait, and the lease
	Session  string
	Identity tokenstore.Identity
	Command  []string
	Grace    time.Duration    // between SIGTERM and SIGKILL
	Signals  <-chan os.Signal // are passed to the command; one that comes before it runs ends the waiting
	Log      *slog.Logger
	// Outside is the lock provider if it is not the store itself, else nil. The caller closes it.
	Outside *lock.Outside
}

// interrupted is a signal that came while the session was waited for.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "ended by a signal: " + i.signal.String() }

// Run acquires the session, runs the command and releases the session. status is the command's exit status, 128 and
// the number of the signal that has ended it, or that has ended the waiting. Errors: *lock.LockedError, ErrLost
// (beside the status), *StartError, or what has kept the store from being asked.
func Run(ctx context.Context, o Options) (status int, err error) {
	id := strings.ToLower(rand.Text())
	locks := lock.NewManager(id, o.Store, o.Log)
	if o.Outside != nil {
		locks.Use(*o.Outside)
	}
	listening, silence := context.WithCancel(ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		o.Store.Listen(listening, id, locks)
	}()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		locks.Close(ctx)
		cancel()
		silence()
		<-heard
	}()
	s := locks.Apart(o.Area, o.Terms, []byte(o.Session), o.Identity, 0)
	var early interrupted
	switch err := o.acquire(ctx, locks, s); {
	case errors.As(err, &early):
		return signalStatus(early.signal), nil
	case err != nil:
		return 0, err
	}
	defer o.release(ctx, locks, s)
	return o.hold(ctx, locks, s)
}

// acquire waits for the session.
func (o *Options) acquire(ctx context.Context, locks *lock.Manager, s *lock.Sequence) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case signal := <-o.Signals:
			cancel(interrupted{signal})
		case <-ctx.Done():
		}
	}()
	err := locks.Ready(ctx)
	if err == nil {
		_, err = locks.Acquire(ctx, s)
	}
	cancel(nil)
	<-done
	var early interrupted
	if !errors.As(context.Cause(ctx), &early) {
		return err
	}
	if err == nil { // it came just when the session was granted
		o.release(ctx, locks, s)
	}
	return early
}

// hold runs the command for as long as the session is held.
func (o *Options) hold(ctx context.Context, locks *lock.Manager, s *lock.Sequence) (status int, err error) {
	c, err := start(o.Command, fmt.Sprintf("%s=%d", GrantVariable, s.Grant()))
	if err != nil {
		return 0, err
	}
	held, stop := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if err := o.keep(held, locks, s); err != nil {
			stop(err)
		}
	}()
	defer func() {
		stop(nil)
		<-kept
	}()
	for {
		select {
		case <-c.ended:
			return c.status(), nil
		case signal := <-o.Signals:
			c.signal(signal)
		case <-held.Done():
			why := context.Cause(held)
			o.Log.Error("the hold is lost, ending the command", "session", s.Record.String(), "grant", s.Grant(), "grace", o.Grace, "error", why)
			c.end(o.Grace)
			return c.status(), why
		}
	}
}

// keep renews the hold at a third of its lease until ctx ends. It returns why the hold is lost.
func (o *Options) keep(ctx context.Context, locks *lock.Manager, s *lock.Sequence) error {
	lease, lost := o.Terms.Lease, locks.GrantLost(s)
	until := s.Since().Add(lease)
	for next := s.Since().Add(lease / 3); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			return fmt.Errorf("%w: %w", ErrLost, s.Stale(0, tokenstore.Holder{}))
		case <-time.After(time.Until(next)):
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, max(lease/3, time.Millisecond))
		holder, err := locks.RenewGrant(call, s.Record, s.Claim, s.Grant())
		cancel()
		switch {
		case err == nil:
			until, next = sent.Add(lease), sent.Add(lease/3)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, tokenstore.ErrLost):
			return fmt.Errorf("%w: %w", ErrLost, s.Stale(holder.Grant, holder))
		case !time.Now().Before(until):
			return fmt.Errorf("%w: its lease ended while the store could not be asked: %w", ErrLost, err)
		default:
			o.Log.Warn("lease not renewed, trying again", "left", time.Until(until).Round(time.Millisecond), "error", err)
			next = time.Now().Add(min(lease/10, time.Second))
			if next.After(until) {
				next = until
			}
		}
	}
}

func (o *Options) release(ctx context.Context, locks *lock.Manager, s *lock.Sequence) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if _, err := locks.ReleaseGrant(ctx, s.Record, s.Claim, s.Grant()); err != nil {
		o.Log.Warn("session not released; its lease will end", "session", s.Record.String(), "error", err)
	}
}
