package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event/eventtest"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// world is a manager over a fake store, inside a bubble, and one rule.
type world struct {
	*testing.T
	f      *fake
	m      *Manager
	rule   *rule.Rule
	logged *bytes.Buffer // read it when nothing runs
	told   eventtest.Recorder
}

// bubble runs a test in a bubble. Options of the rule that are zero have their defaults: lease
// 30s, idle 30s, max_hold 2m.
func bubble(t *testing.T, r rule.Rule, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r.Name, r.Prefix = "chat", "agent:"
		if r.Mode == "" {
			r.Mode = rule.ModeLock
		}
		compiled, err := rule.New(r)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, f: newFake(), rule: compiled, logged: &bytes.Buffer{}}
		w.m = NewManager("proxy", w.f, slog.New(slog.NewTextHandler(w.logged, nil)))
		w.f.m = w.m
		w.m.Observe(&w.told)
		defer w.told.Check(t, true)
		defer w.m.Close(context.Background())
		test(w)
	})
}

// pass lets time pass, and what is due happen.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// client is a client with an owner of its own. Its commands go the way that package proxy sends
// them.
type client struct {
	*world
	owner  *Owner
	waiter *Waiter
}

func (w *world) client(name string) *client {
	c := &client{world: w, owner: w.m.Owner(tokenstore.Identity{Proxy: "proxy", Client: name}), waiter: w.m.Waiter()}
	w.Cleanup(c.waiter.Close)
	return c
}

// sharing is a client whose commands belong to c's owner.
func (c *client) sharing() *client {
	d := &client{world: c.world, owner: c.owner, waiter: c.m.Waiter()}
	c.Cleanup(d.waiter.Close)
	return d
}

// sequence is the client's on a session; "s@1" is what it has in slot 1 of one that spans slots.
func (c *client) sequence(session string) *Sequence {
	name, slot, spans := strings.Cut(session, "@")
	return c.owner.Sequence(tokenstore.Area{Slot: tokenstore.Slot(slot), Spans: spans}, c.rule, []byte(name))
}

// errHeld refuses a command that would have to wait; it has taken its place in the queue.
var errHeld = errors.New("held by another owner")

// A command and its key have the same hash here, unless a test says otherwise.
const k1, k2 = 1, 2

// read is GET of keys in a session, as one command.
func (c *client) read(session string, keys ...uint64) error {
	command := uint64(0)
	for _, k := range keys {
		command = command*1000 + k
	}
	return c.readBy(session, command, keys...)
}

func (c *client) readBy(session string, command uint64, keys ...uint64) error {
	s := c.sequence(session)
	if !s.TryEnter() {
		return errors.New("somebody is inside the sequence")
	}
	defer s.Leave()
	now := time.Now()
	how, expected, err := s.BeforeRead(context.Background(), "get", now)
	if err != nil {
		return err
	}
	switch how {
	case Verify:
		if err := s.Current(c.f.token(s.Record)); err != nil {
			return err
		}
	case Resume:
		b := c.f.begin(s.Record, s.Claim, "", expected)
		if !b.Granted || !b.Continuous {
			return s.Lost(max(b.Grant, b.Holder.Grant), b.Holder)
		}
		s.Granted(b, now)
	case Look:
		s.Looked(c.f.look(s.Record), true, now)
	default:
		if c.m.outside != nil {
			if err := c.register(s, expected); err != nil {
				return err
			}
			break
		}
		b := c.f.begin(s.Record, s.Claim, c.waiter.ID(), expected)
		if !b.Granted {
			return errHeld
		}
		s.Granted(b, now)
	}
	s.Read(command, keys, now)
	return nil
}

// write is SET of keys in a session.
func (c *client) write(session string, keys ...uint64) error {
	return c.commit(session, Write{Keys: keys}, func() bool { return true })
}

// add is an atomic update (RPUSH) of keys in a session.
func (c *client) add(session string, keys ...uint64) error {
	return c.commit(session, Write{Keys: keys, Atomic: true}, func() bool { return true })
}

func (c *client) commit(session string, w Write, command func() bool) error {
	s := c.sequence(session)
	if !s.TryEnter() {
		return errors.New("somebody is inside the sequence")
	}
	defer s.Leave()
	for {
		now := time.Now()
		present := func() (Token, error) { return s.BeforeWrite(context.Background(), w, now) }
		if c.m.outside != nil {
			present = func() (Token, error) { return c.present(s, w, now) }
		}
		token, err := present()
		if err != nil {
			return err
		}
		commit := tokenstore.Commit{Record: s.Record, Claim: s.Claim, Grant: token.Grant, Read: token.Read, Seq: token.Seq, Keep: s.Keeps()}
		check, grant, applied := c.f.commit(commit, command)
		switch {
		case check.Verdict == tokenstore.Good:
			s.Committed(commit, grant, w, applied, now)
			return nil
		case check.Verdict == tokenstore.Held, check.Verdict == tokenstore.Queued:
			return errHeld
		case !token.OrBlind:
			return s.Refused(check)
		}
		s.Superseded()
	}
}

// did fails the test if a command was refused.
func (w *world) did(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("refused: %v", err)
	}
}

// fenced fails the test unless a command was refused for the reason given.
func (w *world) fenced(err error, reason Reason) FencedError {
	w.Helper()
	var fenced *FencedError
	if !errors.As(err, &fenced) {
		w.Fatalf("got %v, want it fenced: %s", err, reason)
	}
	if fenced.Reason != reason {
		w.Fatalf("fenced for %s, want %s", fenced.Reason, reason)
	}
	return *fenced
}

// in fails the test unless the client's sequence on a session is in a state.
func (c *client) in(session string, want State) {
	c.Helper()
	if got := c.sequence(session).State(); got != want {
		c.Fatalf("the sequence of %s is %v, want %v", session, stateName(got), stateName(want))
	}
}

func stateName(s State) string {
	return fmt.Sprint([...]string{Free: "free", Held: "held", Ended: "ended", Broken: "broken", Seen: "seen"}[s])
}

// holds fails the test unless the store says that the client holds a session.
func (c *client) holds(session string) {
	c.Helper()
	if got := c.f.holder(c.sequence(session).Record); got.Owner != c.owner.ID {
		c.Fatalf("%s is held by %q, not by %q", session, got.Owner, c.owner.ID)
	}
}

// nobodyHolds fails the test if the store says that somebody holds a session.
func (c *client) nobodyHolds(session string) {
	c.Helper()
	if got := c.f.holder(c.sequence(session).Record); got.Held() {
		c.Fatalf("%s is held by %q", session, got.Owner)
	}
}

// calls fails the test unless the store was asked so many times for something.
func (w *world) calls(name string, want int) []call {
	w.Helper()
	made := w.f.made(name)
	if len(made) != want {
		w.Fatalf("%d calls of %s, want %d: %+v", len(made), name, want, made)
	}
	return made
}

// enter goes inside the client's sequence on a session.
func (c *client) enter(session string) *Sequence {
	c.Helper()
	s := c.sequence(session)
	if !s.TryEnter() {
		c.Fatalf("somebody is inside the sequence of %s", session)
	}
	return s
}
