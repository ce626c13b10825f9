package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// checkEvery is how often the provider is asked whether it would grant, and downEvery while it would not.
	checkEvery, downEvery = 5 * time.Second, 250 * time.Millisecond
	// checkTimeout bounds that.
	checkTimeout = time.Second
	// checkFresh is how long an answer counts for those who wait.
	checkFresh = time.Second
	// failuresMost is how many checks in a row fail, and nothing else is answered meanwhile, before the provider counts as down: those
	// who wait in line need not lose their place for a moment's silence.
	failuresMost = 2
)

var (
	errClosed  = errors.New("the proxy is stopping")
	errUnasked = errors.New("it has not answered yet")
)

// availability is whether the provider can be asked.
type availability struct {
	kick chan struct{} // asks for a check now

	state  sync.Mutex
	known  bool // it has answered, or could not be asked
	failed int  // checks in a row
	down   error
	fell   chan struct{} // closed when it goes down, and made anew when it is back
	good   time.Time     // when it last answered

	checking chan struct{} // holds one element during a check
}

func (a *availability) open() {
	a.kick, a.checking, a.fell = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
}

// Up says why the provider can't be asked, or nil. As long as that is not known, it counts as up.
func (o *outside) Up() error {
	o.state.Lock()
	defer o.state.Unlock()
	if o.down != nil {
		return &DownError{o.Name, o.down}
	}
	return nil
}

// ProviderReady says why the lock provider can't be asked; nil if it can, or the store itself grants.
func (m *Manager) ProviderReady() error {
	o := m.outside
	if o == nil {
		return nil
	}
	o.state.Lock()
	known := o.known
	o.state.Unlock()
	if !known {
		return &DownError{o.Name, errUnasked}
	}
	return o.Up()
}

// ProviderDown returns a channel that is closed when the session's provider can't be asked any more.
func (s *Sequence) ProviderDown() <-chan struct{} {
	o := s.manager.elsewhere(s.Record)
	o.state.Lock()
	defer o.state.Unlock()
	return o.fell
}

// DoubtProvider has the session's provider checked soon if it has not answered anything lately.
func (s *Sequence) DoubtProvider() {
	if o := s.manager.elsewhere(s.Record); !o.answered(time.Now().Add(-checkFresh)) {
		o.suspect()
	}
}

// suspect has the provider checked soon.
func (o *outside) suspect() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// watchProvider checks the provider until the manager is closed.
func (m *Manager) watchProvider(o *outside) {
	for {
		_ = m.checkProvider(o, time.Now()) // it is noted
		t := time.NewTimer(checkEvery)
		select {
		case <-m.closing:
			t.Stop()
			return
		case <-o.kick:
			t.Stop()
			if !rest(m.closes, downEvery) {
				return
			}
		case <-t.C:
		}
	}
}

// checkProvider asks the provider whether it would grant, unless it has answered since.
func (m *Manager) checkProvider(o *outside, since time.Time) error {
	o.checking <- struct{}{}
	defer func() { <-o.checking }()
	if o.answered(since) {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, checkTimeout)
	defer cancel()
	defer context.AfterFunc(m.closes, cancel)()
	sent := time.Now()
	err := o.call("check", func() error { return o.Locker.Check(ctx) })
	if err != nil && m.closes.Err() == nil {
		o.unanswered(sent, err)
		o.suspect() // whoever has asked
	}
	return err
}

// alive takes in that the provider has answered, whatever it was asked.
func (o *outside) alive() {
	o.state.Lock()
	first, before := !o.known, o.down
	o.known, o.failed, o.down, o.good = true, 0, nil, time.Now()
	if before != nil {
		o.fell = make(chan struct{})
	}
	o.state.Unlock()
	switch {
	case before != nil:
		o.log.Info("the lock provider can be asked again", "provider", o.Name)
	case first:
		o.log.Info("the lock provider can be asked", "provider", o.Name)
	default:
		return
	}
	o.tellUp(true)
}

// unanswered takes in that a check that was sent then has failed.
func (o *outside) unanswered(sent time.Time, err error) {
	o.state.Lock()
	first, before := !o.known, o.down
	if o.good.After(sent) { // it has answered others
		o.state.Unlock()
		return
	}
	o.failed++
	falls := before == nil && (first || o.failed >= failuresMost)
	if falls || before != nil {
		o.known, o.down = true, err
	}
	if falls {
		close(o.fell)
	}
	o.state.Unlock()
	if !falls {
		return
	}
	what := "the lock provider can't be asked: guarded commands are refused until it can"
	if o.Pass {
		what = "the lock provider can't be asked: GUARDED COMMANDS GO THROUGH UNGUARDED until it can (lock.on_provider_down: pass)"
	}
	o.log.Error(what, "provider", o.Name, "error", err)
	o.tellUp(false)
}

func (o *outside) tellUp(up bool) {
	if o.Observer != nil {
		o.Observer.ProviderUp(up)
	}
}

// answered reports whether the provider has answered since.
func (o *outside) answered(since time.Time) bool {
	o.state.Lock()
	defer o.state.Unlock()
	return o.down == nil && o.good.After(since)
}

// Waited says why somebody has waited in vain since then: nil if others hold the session, a *DownError if its provider does
// not answer.
func (s *Sequence) Waited(since time.Time) error {
	o := s.manager.elsewhere(s.Record)
	if err := s.manager.checkProvider(o, since); err != nil {
		return &DownError{o.Name, err}
	}
	return nil
}
