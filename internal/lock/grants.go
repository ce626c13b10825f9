package lock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A grant that was acquired by itself is kept alive at a lock provider elsewhere by the manager that has acquired it, for
// as long as the store says that it has a hold. So it may be renewed and released over any proxy: whoever does
// tells the store, and then the manager.

// grantKey names a grant of a session.
type grantKey struct {
	record recordKey
	grant  uint64
}

// granted is a grant apart that this manager keeps alive.
type granted struct {
	sequence *Sequence
	hold     provider.Hold
	look     chan struct{} // asks for a look at the store now
	ended    chan struct{} // closed when it is released here
	lost     chan struct{} // closed when it has ended in another way
}

// answerTime is how long a provider may take for an answer when nobody waits.
const answerTime = 250 * time.Millisecond

// AnswerTime returns how long the provider is given for an answer, of somebody who is still to wait for left.
func AnswerTime(left time.Duration) time.Duration { return max(left, answerTime) }

// acquireOutside is Acquire where a lock provider elsewhere grants.
func (m *Manager) acquireOutside(ctx context.Context, s *Sequence) (tokenstore.Begin, error) {
	start := time.Now()
	over, stop := context.WithTimeout(ctx, AnswerTime(s.Rule.Wait))
	defer stop()
	defer s.Quits(event.Unasked)
	for {
		a, err := m.Ask(s)
		if err != nil {
			return tokenstore.Begin{}, err
		}
		if err := m.stand(ctx, over, s, a, start); err != nil {
			a.Drop()
			return tokenstore.Begin{}, err
		}
		h, err := a.Take()
		if err != nil {
			return tokenstore.Begin{}, err
		}
		s.Give(h)
		sent := time.Now()
		b, err := m.register(ctx, s, tokenstore.Basis{})
		switch {
		case err != nil:
			s.Drop()
			m.withdrawGrant(ctx, s, h.Grant())
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return b, err
		case b.Behind:
			if err := s.Behind(b); err != nil {
				return b, err
			}
			continue
		}
		s.mu.Lock()
		s.acquired(b, sent)
		s.mu.Unlock()
		m.keepGrant(s, h)
		return b, nil
	}
}

// standing is how long the provider may take for its answer before that counts as waiting for another owner.
const standing = 50 * time.Millisecond

// stand waits until the provider has answered, or over ends.
func (m *Manager) stand(ctx, over context.Context, s *Sequence, a *Asking, start time.Time) error {
	long := time.NewTimer(standing)
	defer long.Stop()
	for {
		select {
		case <-a.Done:
			return nil
		case <-long.C:
			s.Waits(tokenstore.Holder{})
		case <-s.ProviderDown():
			s.Quits(event.Unasked)
			return m.elsewhere(s.Record).Up()
		case <-over.Done():
			err := m.waitedInVain(ctx, s, start)
			s.Quits(quitFor(ctx, err))
			return err
		}
	}
}

// quitFor says why a line was left in which a grant by itself was waited for.
func quitFor(ctx context.Context, err error) string {
	var locked *LockedError
	switch {
	case ctx.Err() != nil:
		return event.Gone
	case errors.As(err, &locked):
		return event.Timeout
	}
	return event.Unasked
}

// waitedInVain is what a wait that nothing has come of ends with.
func (m *Manager) waitedInVain(ctx context.Context, s *Sequence, start time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Waited(start); err != nil {
		return err
	}
	return &LockedError{Record: s.Record, Holder: m.HolderOf(s.Record), Waited: time.Since(start), Word: s.Rule.LockedError}
}

// HolderOf returns who the store says holds a session, for messages.
func (m *Manager) HolderOf(r *tokenstore.Record) tokenstore.Holder {
	at, ok := m.provider.(registrar)
	if !ok {
		return tokenstore.Holder{}
	}
	ctx, cancel := context.WithTimeout(m.ctx, callTimeout)
	defer cancel()
	i, err := at.Inspect(ctx, r, 1)
	if err != nil {
		return tokenstore.Holder{}
	}
	if home := m.homeOf(r); home != nil && !i.Holder.Held() { // it may be held for keys elsewhere
		return home.HolderOf(sessionName(r))
	}
	return i.Holder
}

// homeOf returns the lock provider of a session that spans slots, if that is the cluster itself.
func (m *Manager) homeOf(r *tokenstore.Record) *Home {
	if o := m.elsewhere(r); o != nil && r.Spans {
		home, _ := o.Locker.(*Home)
		return home
	}
	return nil
}

// Inspect reads a session's record, and who holds it and waits for it wherever they do.
func (m *Manager) Inspect(ctx context.Context, r *tokenstore.Record, first int) (tokenstore.Inspection, error) {
	i, err := m.grantStore().Inspect(ctx, r, first)
	home := m.homeOf(r)
	if home == nil || err != nil {
		return i, err
	}
	whole, err := home.m.grantStore().Inspect(ctx, HomeRecord(sessionName(r)), first)
	if !i.Holder.Held() {
		i.Holder, i.LeaseLeft = whole.Holder, whole.LeaseLeft
	}
	i.Waiting, i.First = whole.Waiting, whole.First
	i.Token.Grant = max(i.Token.Grant, whole.Token.Grant)
	return i, err
}

// Extend has a grant apart of a session that spans slots count in the slot of the sequence, too, if it is the newest
// of the session: at is where it stands. Otherwise the sequence is broken, and refuses what is done under it. The error is a
// *FencedError then; any other says that the store could not be asked.
func (m *Manager) Extend(ctx context.Context, s *Sequence, at tokenstore.Area) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	i, err := m.grantStore().Inspect(ctx, tokenstore.NewRecord(at, s.Record.Rule, s.Record.Session), 1)
	switch {
	case err != nil:
		return err
	case i.Token.Grant != s.Grant():
		return s.disown(i.Token.Grant, i.Holder)
	}
	_, err = m.grantStore().Register(ctx, s.Record, s.Claim, s.Grant(), tokenstore.Basis{Grant: s.Grant()})
	return err
}

// disown breaks a sequence apart for good.
func (s *Sequence) disown(newest uint64, holder tokenstore.Holder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.stale(newest, holder)
	errors.As(err, &s.broken)
	return err
}

// Register registers what the sequence was given at the store, over the proxy's own connection.
func (m *Manager) Register(ctx context.Context, s *Sequence, expected tokenstore.Basis) (tokenstore.Begin, error) {
	return m.register(ctx, s, expected)
}

func (m *Manager) register(ctx context.Context, s *Sequence, expected tokenstore.Basis) (tokenstore.Begin, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return m.provider.(registrar).Register(ctx, s.Record, s.Claim, s.Given(), expected)
}

// withdrawGrant ends at the store what may have been registered there.
func (m *Manager) withdrawGrant(ctx context.Context, s *Sequence, grant uint64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := m.provider.Release(ctx, s.Record, s.Claim, grant, false); err != nil {
		m.log.Warn("session not given back; its lease will end", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}

// keepGrant keeps a grant apart alive at the provider.
func (m *Manager) keepGrant(s *Sequence, h provider.Hold) {
	g := &granted{sequence: s, hold: h, look: make(chan struct{}, 1), ended: make(chan struct{}), lost: make(chan struct{})}
	o := m.elsewhere(s.Record)
	o.mu.Lock()
	o.grants[grantKey{recordKeyOf(s.Record), s.grant}] = g
	o.mu.Unlock()
	m.Detach(func(ctx context.Context) { m.keepAlive(ctx, g) })
}

// keepAlive renews a grant's hold until it is ended, lost, or over at the store.
func (m *Manager) keepAlive(ctx context.Context, g *granted) {
	until := time.Now().Add(g.sequence.Claim.Lease) // of the hold at the store
	retry := time.Duration(0)
	for {
		next := min(time.Until(g.hold.Until())/3, time.Until(until))
		if retry > 0 {
			next = retry
		}
		t := time.NewTimer(max(next, time.Millisecond))
		select {
		case <-g.ended:
		case <-m.closing:
			t.Stop()
			return // the provider's own end gives it back
		case <-g.hold.Lost():
			m.loseGrant(ctx, g)
		case <-g.look:
		case <-t.C:
		}
		t.Stop()
		if g.over() {
			return
		}
		left, err := m.leftOf(ctx, g)
		if err == nil && left <= 0 {
			if m.forgetGrant(g) {
				close(g.lost)
				m.giveBack(m.elsewhere(g.sequence.Record), g.hold)
			}
			return
		}
		if err == nil {
			until = time.Now().Add(left)
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err = m.elsewhere(g.sequence.Record).call("renew", func() error { return g.hold.Renew(call) })
			cancel()
		}
		retry = 0
		if errors.Is(err, provider.ErrLost) {
			m.loseGrant(ctx, g)
			return
		}
		if err != nil {
			retry = min(g.sequence.Claim.Lease/10, time.Second)
			g.sequence.warn("grant not kept alive at the lock provider, trying again", "error", err)
		}
	}
}

// leftOf asks the store how long a grant's hold stands there; 0: it is over, or the grant is not the newest.
func (m *Manager) leftOf(ctx context.Context, g *granted) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	i, err := m.provider.(registrar).Inspect(ctx, g.sequence.Record, 1)
	if err != nil || i.Holder.Grant != g.sequence.Grant() || !i.Holder.Held() {
		return 0, err
	}
	return i.LeaseLeft, nil
}

func (g *granted) over() bool {
	select {
	case <-g.ended:
		return true
	case <-g.lost:
		return true
	default:
		return false
	}
}

// forgetGrant takes a grant out, once.
func (m *Manager) forgetGrant(g *granted) bool {
	o := m.elsewhere(g.sequence.Record)
	o.mu.Lock()
	defer o.mu.Unlock()
	key := grantKey{recordKeyOf(g.sequence.Record), g.sequence.Grant()}
	if o.grants[key] != g {
		return false
	}
	delete(o.grants, key)
	return true
}

// endGrant gives a grant's hold back.
func (m *Manager) endGrant(g *granted) {
	if m.forgetGrant(g) {
		close(g.ended)
		m.giveBack(m.elsewhere(g.sequence.Record), g.hold)
	}
}

// loseGrant uses up at the store a grant whose hold the provider has ended, so that who presents it hears of that.
func (m *Manager) loseGrant(ctx context.Context, g *granted) {
	if !m.forgetGrant(g) {
		return
	}
	close(g.lost)
	s := g.sequence
	s.warn("grant lost at the lock provider", "provider", m.elsewhere(s.Record).Name)
	s.lose(ReasonLost)
	m.useUp(ctx, s)
	m.giveBack(m.elsewhere(g.sequence.Record), g.hold)
}

// lose tells that a grant apart was lost.
func (s *Sequence) lose(reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.story.grants {
		s.story.grants = false // once
		s.tellBreak(reason, 0, tokenstore.Holder{})
	}
}

// useUp ends a grant apart at the store, and tries that until its hold has ended there by itself.
func (m *Manager) useUp(ctx context.Context, s *Sequence) {
	for end := time.Now().Add(s.Claim.Lease); ; {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, _, err := m.provider.(registrar).ReleaseGrant(call, s.Record, s.Claim, s.Grant())
		cancel()
		if err == nil || time.Now().After(end) || !rest(ctx, giveBackEvery) {
			return
		}
	}
}

// endGrants ends all grants that this manager keeps alive, and uses them up.
func (m *Manager) endGrants() {
	for _, g := range m.kept() {
		m.Detach(func(ctx context.Context) {
			g.sequence.lose(ReasonUnfit)
			m.useUp(ctx, g.sequence)
			m.endGrant(g)
		})
	}
}

// kept are the grants that this manager keeps alive.
func (m *Manager) kept() (all []*granted) {
	for _, o := range []*outside{m.outside, m.spans.outside} {
		if o == nil {
			continue
		}
		o.mu.Lock()
		for _, g := range o.grants {
			all = append(all, g)
		}
		o.mu.Unlock()
	}
	return all
}

func (m *Manager) keptGrant(r *tokenstore.Record, grant uint64) *granted {
	o := m.elsewhere(r)
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.grants[grantKey{recordKeyOf(r), grant}]
}

// GrantLost returns a channel that is closed when a grant that this manager has acquired at a lock provider elsewhere ends without its
// ReleaseGrant; nil if that is not known.
func (m *Manager) GrantLost(s *Sequence) <-chan struct{} {
	if g := m.keptGrant(s.Record, s.Grant()); g != nil {
		return g.lost
	}
	return nil
}

// grantStore is what the manager needs of the store for grants apart, whoever grants.
func (m *Manager) grantStore() registrar { return m.provider.(registrar) }

// RenewGrant extends a grant apart by the claim's lease from now: tokenstore.Store has the meaning. Errors: tokenstore.ErrLost.
func (m *Manager) RenewGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (tokenstore.Holder, error) {
	if err := m.Fit(); err != nil {
		return tokenstore.Holder{}, err
	}
	holder, err := m.grantStore().RenewGrant(ctx, r, c, grant)
	g := m.keptGrant(r, grant)
	if g == nil {
		return holder, err
	}
	select { // the store's answer counts from now on
	case g.look <- struct{}{}:
	default:
	}
	if err == nil && isOver(g.hold) {
		m.loseGrant(ctx, g)
		return holder, tokenstore.ErrLost
	}
	return holder, err
}

// ReleaseGrant ends a grant apart, whichever proxy has acquired it, and reports whether it had a hold.
func (m *Manager) ReleaseGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (bool, error) {
	holder, ended, err := m.grantStore().ReleaseGrant(ctx, r, c, grant)
	if g := m.keptGrant(r, grant); g != nil && err == nil {
		m.endGrant(g)
	} else if ended {
		m.tell(ctx, holder)
	}
	return ended, err
}

// Break ends whatever hold there is on a session, and returns whose it was.
func (m *Manager) Break(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim) (tokenstore.Holder, bool, error) {
	holder, broken, err := m.grantStore().Break(ctx, r, c)
	if broken {
		m.tell(ctx, holder)
	}
	if home := m.homeOf(r); home != nil && err == nil { // whoever holds it, for keys in whichever slot
		if other, too, failed := home.Break(ctx, sessionName(r)); !broken {
			return other, too, failed
		}
	}
	return holder, broken, err
}

// tell tells the holder's proxy that its hold is over at the store, so that it gives it back to the provider.
func (m *Manager) tell(ctx context.Context, h tokenstore.Holder) {
	switch {
	case m.outside == nil && m.spans.outside == nil:
	case m.owns(h.Owner):
		m.told(h.Owner, h.Grant)
	default:
		if err := m.grantStore().Tell(ctx, h); err != nil {
			m.log.Warn("the holder's proxy was not told; it finds out at its next renewal", "holder", h.Client, "proxy", h.Proxy, "error", err)
		}
	}
}

func (m *Manager) owns(owner string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(owner, tokenstore.ApartPrefix), ":")
	return id == m.id
}

// told looks after a hold to which something was done at the store.
func (m *Manager) told(owner string, grant uint64) {
	if strings.HasPrefix(owner, tokenstore.ApartPrefix) {
		for _, g := range m.kept() {
			if g.sequence.Grant() == grant && g.sequence.Claim.Owner == owner {
				select {
				case g.look <- struct{}{}:
				default:
				}
			}
		}
		return
	}
	for _, o := range m.everybody() {
		for _, s := range o.all() {
			if s.Claim.Owner == owner && s.holds(grant) {
				m.Detach(func(ctx context.Context) { s.renew(ctx, grant) })
			}
		}
	}
}
