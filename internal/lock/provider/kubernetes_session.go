package provider

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
)

// kubeSession is a session that has a Lease, or that somebody here wants.
type kubeSession struct {
	name    string
	sight   kubeSight
	waiters []*kubeWaiter // first come first served; the first one asks
	hold    *kubeHold     // the newest one here, until it is released
	changed chan struct{} // closed at the next change of sight; nil if nobody waits for it
	tidying chan struct{} // closed when the task that tidies up has ended; nil if there is none
}

// change is closed when the Lease is not as it was seen any more. Called with k.mu held, as all here that doesn't take it.
func (s *kubeSession) change() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// enter puts a waiter behind those that wait here.
func (k *kubeLocker) enter(r Request) (*kubeWaiter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open.Err() != nil {
		return nil, errKubeClosed
	}
	k.asking.Add(1)
	w := &kubeWaiter{Request: r, session: k.session(kubeLeaseName(k.Prefix, r.Session)), first: make(chan struct{})}
	w.session.waiters = append(w.session.waiters, w)
	if len(w.session.waiters) == 1 {
		close(w.first)
	}
	return w, nil
}

// leave lets the next one ask. What the waiter may have been granted and does not have is given back.
func (k *kubeLocker) leave(w *kubeWaiter) {
	defer k.asking.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := w.session
	i := slices.Index(s.waiters, w)
	s.waiters = slices.Delete(s.waiters, i, i+1)
	if i == 0 && len(s.waiters) > 0 {
		close(s.waiters[0].first)
	}
	if w.unknown {
		k.tidy(s, w.Lease)
	}
	k.forsake(s, w.identity)
	k.trim(s)
}

// forsake says that nobody believes in an identity any more.
func (k *kubeLocker) forsake(s *kubeSession, identity string) {
	delete(k.alive, identity)
	if s.changed != nil && identity != "" && s.sight.holder() == identity {
		s.turn(s.sight) // somebody may take it now
	}
	k.tidyIfNeeded(s)
}

// session returns the entry of a Lease's name, and makes it if there is none.
func (k *kubeLocker) session(name string) *kubeSession {
	s := k.sessions[name]
	if s == nil {
		s = &kubeSession{name: name}
		k.sessions[name] = s
	}
	return s
}

// trim forgets an entry that says nothing.
func (k *kubeLocker) trim(s *kubeSession) {
	if s.sight.lease == nil && len(s.waiters) == 0 && s.hold == nil && s.tidying == nil {
		delete(k.sessions, s.name)
	}
}

// mine says whether an identity is of this process.
func (k *kubeLocker) mine(identity string) bool {
	return strings.HasPrefix(identity, k.instance+"-")
}

// see takes notice of a Lease as the API server has sent it, unless something newer is known. It becomes the locker's own.
func (k *kubeLocker) see(lease *coordination.Lease) error {
	return k.saw(lease, 0)
}

// saw is see when the Lease was asked for while that version was known. An answer that is older all the same comes from
// a store that was set back, from a backup say, and nothing that was known before is true any more.
func (k *kubeLocker) saw(lease *coordination.Lease, known uint64) error {
	version, err := kubeGrant(lease.ResourceVersion)
	if err != nil {
		return err
	}
	lease.ManagedFields = nil // much, and of no use
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.session(lease.Name)
	if version > s.sight.version || version < known && s.sight.version == known {
		s.turn(s.sight.of(lease, version))
	}
	k.tidyIfNeeded(s)
	return nil
}

// gone takes notice that there was no Lease of the name at that version, unless something newer is known.
func (k *kubeLocker) gone(name string, version uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.sessions[name]; s != nil && version >= s.sight.version {
		s.turn(kubeSight{version: version})
		k.trim(s)
	}
}

// turn changes what is known of the Lease, and tells those whom it concerns.
func (s *kubeSession) turn(sight kubeSight) {
	s.sight = sight
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	if s.hold != nil && sight.holder() != s.hold.identity {
		s.hold.lose()
	}
}

// known is the version of a Lease that is known, 0 if none is.
func (k *kubeLocker) known(name string) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.sessions[name]; s != nil {
		return s.sight.version
	}
	return 0
}

// left is the Lease without what this proxy has left behind in it, nil if that is nothing: an identity that nobody believes in, or
// a place in line where nobody waits. While somebody here waits, that one takes care.
func (k *kubeLocker) left(s *kubeSession) *coordination.Lease {
	line := s.sight.line()
	place := slices.Index(line, k.me)
	holder := s.sight.holder()
	forsaken := k.mine(holder) && !k.alive[holder]
	if len(s.waiters) > 0 || place < 0 && !forsaken {
		return nil
	}
	if place >= 0 {
		line = slices.Delete(line, place, place+1)
	}
	if forsaken {
		return s.sight.freed(line)
	}
	return s.sight.withLine(line)
}

func (k *kubeLocker) tidyIfNeeded(s *kubeSession) {
	if k.left(s) != nil {
		k.tidy(s, s.sight.duration())
	}
}

// tidy starts to look at the Lease and to take out what this proxy has left behind. It tries for as long as that could stand.
func (k *kubeLocker) tidy(s *kubeSession, lease time.Duration) {
	if s.tidying != nil || k.life.Err() != nil {
		return
	}
	done := make(chan struct{})
	s.tidying = done
	k.tasks.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(k.life, lease)
		defer cancel()
		for doubt := newKubeDoubt(); !k.tidied(ctx, s, lease); doubt.again() {
			select {
			case <-time.After(doubt.left()):
			case <-ctx.Done():
			}
		}
	})
}

// tidied is one attempt, and says whether it was the last one. It looks first: what became of a question may be unknown.
func (k *kubeLocker) tidied(ctx context.Context, s *kubeSession, lease time.Duration) bool {
	err := k.look(ctx, s.name, k.known(s.name), lease)
	for {
		k.mu.Lock()
		left, version := k.left(s), s.sight.version
		if ctx.Err() != nil || err == nil && left == nil {
			s.tidying = nil
			k.trim(s)
			k.mu.Unlock()
			return true
		}
		k.mu.Unlock()
		if err != nil {
			return false
		}
		_, err = k.put(ctx, left, version, lease)
	}
}

// shut lets nobody in any more and ends all waits. It returns the holds that stand.
func (k *kubeLocker) shut() []*kubeHold {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.close()
	var holds []*kubeHold
	for _, s := range k.sessions {
		if s.hold != nil {
			holds = append(holds, s.hold)
		}
	}
	return holds
}

// settled waits until nothing is left behind.
func (k *kubeLocker) settled(ctx context.Context) error {
	for {
		var tidying chan struct{}
		k.mu.Lock()
		for _, s := range k.sessions {
			if s.tidying != nil {
				tidying = s.tidying
			}
		}
		k.mu.Unlock()
		if tidying == nil {
			return nil
		}
		select {
		case <-tidying:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kubeDoubt is when something is asked again: after a second or so, and then ever less often, up to every 15 seconds.
type kubeDoubt struct {
	pause time.Duration
	next  time.Time
}

func newKubeDoubt() *kubeDoubt {
	d := &kubeDoubt{pause: time.Second}
	d.next = time.Now().Add(d.jitter())
	return d
}

func (d *kubeDoubt) left() time.Duration { return time.Until(d.next) }

func (d *kubeDoubt) again() {
	d.pause = min(2*d.pause, 15*time.Second)
	d.next = time.Now().Add(d.jitter())
}

// jitter keeps proxies apart that began at the same time.
func (d *kubeDoubt) jitter() time.Duration {
	return d.pause/2 + rand.N(d.pause/2)
}
