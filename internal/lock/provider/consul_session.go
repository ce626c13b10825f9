package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulSession is a Consul session of the proxy. It is over when Consul says so, when Consul was not heard of for its TTL by
// this process's clock, or when the Locker closes; all holds are over then, too. It never comes back.
//
// Consul ends it between one and two TTLs after it was last renewed, and at once when one of its health checks turns critical or somebody
// destroys it, which a blocking query tells.
type consulSession struct {
	locker *consul
	id     string
	over   chan struct{} // closed by end
	once   sync.Once
	ctx    context.Context // ends with over
	stop   context.CancelFunc

	mu        sync.Mutex
	untilTime time.Time
	cause     error // why it is over
}

// newSession asks for a session, and keeps it alive.
func (l *consul) newSession() (*consulSession, error) {
	s := &consulSession{locker: l, over: make(chan struct{}), untilTime: time.Now().Add(l.settings.SessionTTL)}
	entry := &api.SessionEntry{
		Name: "fence-proxy " + l.env.Proxy, TTL: l.settings.SessionTTL.String(), Behavior: api.SessionBehaviorRelease,
		LockDelay: l.settings.LockDelay, NodeChecks: l.settings.Checks,
	}
	if entry.LockDelay == 0 {
		entry.LockDelay = -1 // the client says nothing about 0, which would mean 15 s, and rounds this to 0
	}
	create := l.client.Session().Create
	if len(entry.NodeChecks) == 0 {
		create = l.client.Session().CreateNoChecks
	}
	err := l.ask(l.leaving, func(ctx context.Context) (err error) {
		s.id, _, err = create(entry, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create a session: %w", err)
	}
	s.ctx, s.stop = context.WithCancel(l.io)
	for _, task := range []func(){s.keepAlive, s.watchClock, s.watchConsul} {
		l.tasks.Go(task)
	}
	return s, nil
}

// end makes the session over. The first cause counts.
func (s *consulSession) end(cause error) {
	s.once.Do(func() {
		s.mu.Lock()
		s.cause = cause
		if now := time.Now(); now.Before(s.untilTime) {
			s.untilTime = now
		}
		s.mu.Unlock()
		if !errors.Is(cause, errConsulClosed) {
			s.locker.log.Warn("all holds are lost", "cause", cause)
		}
		s.stop()
		close(s.over)
	})
}

// leave has Consul forget the session, if it can be asked: else it ends with its TTL.
func (s *consulSession) leave() {
	ctx, cancel := context.WithTimeout(s.locker.io, s.locker.limit())
	defer cancel()
	_, _ = s.locker.client.Session().Destroy(s.id, (&api.WriteOptions{}).WithContext(ctx))
}

// until is when the session is over unless Consul is heard of.
func (s *consulSession) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilTime
}

// stands reports whether the session is not over yet by the clock, whether or not that was seen.
func (s *consulSession) stands() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause == nil && time.Now().Before(s.untilTime)
}

// renew extends the session.
func (s *consulSession) renew(ctx context.Context) error {
	asked := time.Now()
	var entry *api.SessionEntry
	err := s.locker.ask(ctx, func(ctx context.Context) (err error) {
		entry, _, err = s.locker.client.Session().Renew(s.id, (&api.WriteOptions{}).WithContext(ctx))
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("renew the session: %w", err)
	case entry == nil:
		s.end(fmt.Errorf("%w: Consul has ended it", errConsulSessionOver))
		return errConsulSessionOver
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// An answer that comes after the end makes nothing undone: what has ended stays so.
	if until := asked.Add(s.locker.settings.SessionTTL); s.cause == nil && until.After(s.untilTime) {
		s.untilTime = until
	}
	return nil
}

// keepAlive renews the session three times within its TTL.
func (s *consulSession) keepAlive() {
	ttl := s.locker.settings.SessionTTL
	next := ttl / 3
	for {
		consulPause(s.ctx, next)
		if s.ctx.Err() != nil {
			return
		}
		next = ttl / 3
		if s.renew(s.ctx) != nil {
			next = min(ttl/20, time.Second)
		}
	}
}

// watchClock ends the session when its time is up.
func (s *consulSession) watchClock() {
	for s.ctx.Err() == nil {
		if left := time.Until(s.until()); left > 0 {
			consulPause(s.ctx, left)
		} else {
			s.end(fmt.Errorf("%w: Consul was not heard of for its TTL", errConsulSessionOver))
		}
	}
}

// watchConsul ends the session when Consul has.
func (s *consulSession) watchConsul() {
	var index uint64
	for s.ctx.Err() == nil {
		ctx, cancel := s.locker.watch(s.ctx)
		query := &api.QueryOptions{WaitIndex: index, WaitTime: consulWatch}
		entry, meta, err := s.locker.client.Session().Info(s.id, query.WithContext(ctx))
		cancel()
		switch {
		case err != nil:
			index = 0
			consulPause(s.ctx, time.Second)
		case entry == nil:
			s.end(fmt.Errorf("%w: Consul has ended it", errConsulSessionOver))
		default:
			index = consulNextIndex(index, meta.LastIndex)
		}
	}
}

// consulNextIndex is what to wait for in a blocking query. An index that falls tells that Consul has begun anew.
func consulNextIndex(last, now uint64) uint64 {
	if now < last {
		return 0
	}
	return now
}
