package lock

import "context"

// The agent that a proxy serves may have fallen ill: then its holds are no good to anybody.

// Suspend releases every hold, and has nothing be acquired until Resume. The owners hear of it once. It returns without
// waiting for the store.
func (m *Manager) Suspend(why error) {
	m.unfit.Store(&UnfitError{why})
	for _, o := range m.everybody() {
		for _, s := range o.all() {
			m.Detach(s.dissolve)
		}
	}
	m.endGrants()
}

// Resume lets sessions be acquired again.
func (m *Manager) Resume() { m.unfit.Store(nil) }

// Fit says why nothing may be acquired, or nil. The error is an *UnfitError.
func (m *Manager) Fit() error {
	if err := m.unfit.Load(); err != nil {
		return err
	}
	return nil
}

// dissolve breaks the sequence off if it holds the session.
func (s *Sequence) dissolve(ctx context.Context) {
	if !s.enter(ctx) {
		return
	}
	defer s.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Held {
		return
	}
	s.giveUp(ctx, ReasonUnfit)
}
