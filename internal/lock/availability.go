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
	// checkFresh is how long an answer counts for those who have waited in vain.
	checkFresh = time.Second
)

var (
	errClosed  = errors.New("the proxy is stopping")
	errUnasked = errors.New("it has not answered yet")
)

// availability is whether the provider can be asked.
type availability struct {
	kick chan struct{} // asks for a check now

	state sync.Mutex
	known bool // it has answered, or could not be asked
	down  error
	good  time.Time // when it last answered

	checking sync.Mutex
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

// suspect has the provider checked soon.
func (o *outside) suspect() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// watchProvider checks the provider until the manager is closed.
func (m *Manager) watchProvider() {
	o := m.outside
	for {
		m.checkProvider(m.ctx)
		pause := checkEvery
		if o.Up() != nil {
			pause = downEvery
		}
		t := time.NewTimer(pause)
		select {
		case <-m.closing:
			t.Stop()
			return
		case <-o.kick:
		case <-t.C:
		}
		t.Stop()
	}
}

// checkProvider asks the provider whether it would grant.
func (m *Manager) checkProvider(ctx context.Context) {
	o := m.outside
	o.checking.Lock()
	defer o.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	defer context.AfterFunc(m.closes, cancel)()
	sent := time.Now()
	err := o.call("check", func() error { return o.Locker.Check(ctx) })
	select {
	case <-m.closing:
		return
	default:
	}
	o.state.Lock()
	first, before := !o.known, o.down
	o.known, o.down = true, err
	if err == nil {
		o.good = sent
	}
	o.state.Unlock()
	if o.Observer != nil {
		o.Observer.ProviderUp(err == nil)
	}
	switch {
	case err != nil && before == nil && o.Pass:
		m.log.Error("the lock provider can't be asked: GUARDED COMMANDS GO THROUGH UNGUARDED until it can (lock.on_provider_down: pass)", "provider", o.Name, "error", err)
	case err != nil && before == nil:
		m.log.Error("the lock provider can't be asked: guarded commands are refused until it can", "provider", o.Name, "error", err)
	case err == nil && before != nil:
		m.log.Info("the lock provider can be asked again", "provider", o.Name)
	case err == nil && first:
		m.log.Info("the lock provider can be asked", "provider", o.Name)
	}
}

// Waited says why somebody has waited in vain: nil if others hold the session, a *DownError if the provider does not
// answer.
func (m *Manager) Waited() error {
	o := m.outside
	o.state.Lock()
	fresh := o.down == nil && time.Since(o.good) < checkFresh
	o.state.Unlock()
	if !fresh {
		m.checkProvider(m.ctx)
	}
	return o.Up()
}
