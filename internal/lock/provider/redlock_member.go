package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// redlockMember is a node under its name, with a log of how it is, and what it is still owed.
type redlockMember struct {
	redlockNode
	l    *redlock
	name string

	mu     sync.Mutex
	state  string // "" while it takes part, or what ails it
	debts  []redlockDebt
	paying bool
}

// outError is the answer of a node that sits out.
type outError struct{ left time.Duration }

func (e *outError) Error() string {
	return fmt.Sprintf("has lost what it knew, or is new, and takes part in %v", e.left)
}

// ask is the node's, with "out" as an error, and the node's name before what went wrong.
func (m *redlockMember) ask(ctx context.Context, s *redlockScript, key redlockKey, args ...any) ([]string, error) {
	answer, err := m.redlockNode.ask(ctx, s, key, args...)
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(err, errNotSent):
		err = errors.New("no answer in time")
	case err == nil && len(answer) == 0:
		err = fmt.Errorf("script %s answers nothing", s.name)
	case err == nil && answer[0] == "out":
		left, _ := time.ParseDuration(answer[1] + "ms")
		err = &outError{left}
	}
	if m.l.io.Err() == nil { // else it is Close that has cut it short
		m.note(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return answer, nil
}

// note logs when a node begins to fail, or to sit out, and when it is back.
func (m *redlockMember) note(err error) {
	var state string
	var out *outError
	switch {
	case errors.As(err, &out):
		state = "sits out"
	case err != nil:
		state = "fails"
	}
	m.mu.Lock()
	changed := state != m.state
	m.state = state
	m.mu.Unlock()
	switch {
	case changed && state == "":
		m.l.log.Info("a lock node takes part again", "node", m.name)
	case changed:
		m.l.log.Warn("a lock node "+state, "node", m.name, "error", err)
	}
}

// lostAnswer says whether the error leaves open if the node has done, or will do, what it was asked.
func lostAnswer(err error) bool {
	var refused redis.Error
	var out *outError
	return err != nil && !errors.Is(err, errNotSent) && !errors.As(err, &refused) && !errors.As(err, &out)
}

// redlockDebt is a release that the node has not carried out, as far as is known.
type redlockDebt struct {
	key   redlockKey
	args  []any
	until time.Time // when the lock has ended by itself
}

// mostDebts bounds what one node is owed; older ones are left to the end of their lease.
const mostDebts = 10_000

// owe has a release repeated until the node carries it out. The caller has entered.
func (m *redlockMember) owe(d redlockDebt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.debts) == mostDebts {
		m.debts = m.debts[1:]
	}
	m.debts = append(m.debts, d)
	if !m.paying {
		m.paying = true
		m.l.tasks.Go(m.pay)
	}
}

// pay repeats releases, one after the other, until all are done, or Close has begun and one is not.
func (m *redlockMember) pay() {
	for n := 0; ; {
		d, ok := m.oldestDebt()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(m.l.io, m.l.settings.NodeTimeout)
		_, err := m.ask(ctx, redlockRelease, d.key, d.args...)
		cancel()
		if err == nil {
			m.settle(d.key)
			n = 0
			continue
		}
		select {
		case <-time.After(m.l.backoff(n)):
			n++
		case <-m.l.leaving.Done():
			return
		}
	}
}

// oldestDebt drops those whose time is over. When none is left, it says that pay has ended.
func (m *redlockMember) oldestDebt() (redlockDebt, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.debts = slices.DeleteFunc(m.debts, func(d redlockDebt) bool { return !now.Before(d.until) })
	if len(m.debts) == 0 {
		m.paying = false
		return redlockDebt{}, false
	}
	return m.debts[0], true
}

func (m *redlockMember) settle(key redlockKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.debts = slices.DeleteFunc(m.debts, func(d redlockDebt) bool { return d.key == key })
}
