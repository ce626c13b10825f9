package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

// acquire waits for the place's turn and for the key. It returns ctx's error, or the last one of a Consul that could not be asked
// for some time.
func (p *consulPlace) acquire(ctx context.Context) (*consulHold, error) {
	if err := p.awaitTurn(ctx); err != nil {
		return nil, err
	}
	var seen *api.KVPair      // the key without a holder, nil for no key
	var failedSince time.Time // zero while Consul can be asked
	for {
		s, err := p.locker.standing(ctx)
		if err != nil {
			return nil, err
		}
		grant, err := p.lock(ctx, s, seen)
		if errors.Is(err, errConsulTaken) {
			seen, err = p.await(ctx, s)
		}
		switch {
		case err == nil && grant > 0 && s.stands():
			return newConsulHold(s, p, grant)
		case err == nil: // the key is free, or the session is over
		case errors.Is(err, errConsulSessionOver):
			s.end(fmt.Errorf("%w: Consul has ended it", errConsulSessionOver))
		case errors.Is(err, errConsulDelay):
			p.sitOut(ctx)
		case ctx.Err() != nil || errors.Is(err, errConsulRefused):
			return nil, err
		case failedSince.IsZero():
			failedSince = time.Now()
			continue
		case time.Since(failedSince) > consulPatience:
			return nil, err
		default:
			consulPause(ctx, 100*time.Millisecond)
			continue
		}
		failedSince = time.Time{}
	}
}

// What Consul says to a lock that it does not give.
var (
	errConsulTaken   = errors.New("the key is not as it was seen")
	errConsulDelay   = errors.New("the lock-delay is not over")
	errConsulRefused = errors.New("refused")
)

// lock locks the key if it is as it was seen. If ctx ends first, a lock that comes about all the same is given back.
func (p *consulPlace) lock(ctx context.Context, s *consulSession, seen *api.KVPair) (uint64, error) {
	type answer struct {
		grant uint64
		err   error
	}
	answered := make(chan answer) // unbuffered: the answer is taken, or kept by who got it
	if !p.locker.spawn(func() {
		grant, err := p.tryLock(s, seen)
		select {
		case answered <- answer{grant, err}:
		case <-ctx.Done():
			switch {
			case err == nil:
				p.giveUp(s, grant)
			case !consulSaid(err):
				p.forget(s)
			}
		}
	}) {
		return 0, errConsulClosed
	}
	select {
	case a := <-answered:
		if a.err != nil && !consulSaid(a.err) {
			p.unanswered = s
		}
		return a.grant, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (p *consulPlace) tryLock(s *consulSession, seen *api.KVPair) (uint64, error) {
	guard := &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: p.key}
	if seen != nil {
		guard = &api.KVTxnOp{Verb: api.KVCheckIndex, Key: p.key, Index: seen.ModifyIndex}
	}
	lock := &api.KVTxnOp{Verb: api.KVLock, Key: p.key, Value: []byte(p.value), Session: s.id}
	var locked bool
	var response *api.KVTxnResponse
	err := p.locker.ask(p.locker.io, func(ctx context.Context) (err error) {
		locked, response, err = p.locker.transact(ctx, guard, lock)
		return err
	})
	switch {
	case err != nil && consulDenies(err.Error()):
		return 0, fmt.Errorf("%w: %w", errConsulRefused, err)
	case err != nil:
		return 0, fmt.Errorf("lock the key: %w", err)
	case !locked:
		return 0, consulRefusal(response.Errors)
	case len(response.Results) == 0:
		return 0, errors.New("lock the key: Consul does not say with what index it did")
	}
	return response.Results[len(response.Results)-1].ModifyIndex, nil
}

// consulRefusal says why a lock was not given.
func consulRefusal(said api.TxnErrors) error {
	for _, e := range said {
		switch {
		case strings.Contains(e.What, "lock delay"):
			return errConsulDelay
		case strings.Contains(e.What, "invalid session"):
			return errConsulSessionOver
		case consulDenies(e.What):
			return fmt.Errorf("%w: %s", errConsulRefused, e.What)
		}
	}
	return errConsulTaken
}

func consulDenies(said string) bool {
	return strings.Contains(said, "Permission denied") || strings.Contains(said, "ACL not found")
}

// consulSaid reports whether the error is an answer, so the key was not locked.
func consulSaid(err error) bool {
	for _, word := range []error{errConsulTaken, errConsulDelay, errConsulRefused, errConsulSessionOver} {
		if errors.Is(err, word) {
			return true
		}
	}
	return false
}

// await waits until nobody holds the key, and returns it as it is then, nil for no key. It also returns when the session is over.
func (p *consulPlace) await(ctx context.Context, s *consulSession) (free *api.KVPair, err error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	var last uint64
	for {
		pair, index, err := p.look(waiting, last)
		switch {
		case err != nil && s.ctx.Err() != nil && ctx.Err() == nil:
			return nil, nil // the next look is under the next session
		case err != nil:
			return nil, err
		case pair == nil || pair.Session == "":
			return pair, nil
		case pair.Session == s.id:
			// This proxy's, but of nobody who is in line: the answer to its lock, or its release, was lost.
			if err := p.delete(ctx, pair.ModifyIndex); err != nil {
				return nil, err
			}
		default:
			p.waitsFor(string(pair.Value))
		}
		last = consulNextIndex(last, index)
	}
}

// look reads the key: at once if last is 0, else when it has changed since that index.
func (p *consulPlace) look(ctx context.Context, last uint64) (*api.KVPair, uint64, error) {
	l := p.locker
	if last > 0 {
		select {
		case l.watches <- struct{}{}:
			defer func() { <-l.watches }()
			ctx, cancel := l.watch(ctx)
			defer cancel()
			return p.get(ctx, &api.QueryOptions{WaitIndex: last, WaitTime: consulWatch})
		default:
			consulPause(ctx, time.Duration(50+rand.IntN(100))*time.Millisecond)
		}
	}
	var pair *api.KVPair
	var index uint64
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		pair, index, err = p.get(ctx, &api.QueryOptions{})
		return err
	})
	return pair, index, err
}

func (p *consulPlace) get(ctx context.Context, query *api.QueryOptions) (*api.KVPair, uint64, error) {
	pair, meta, err := p.locker.client.KV().Get(p.key, query.WithContext(ctx))
	if err != nil {
		return nil, 0, fmt.Errorf("read the key: %w", err)
	}
	return pair, meta.LastIndex, nil
}

// delete deletes the key if it is as it was with this index.
func (p *consulPlace) delete(ctx context.Context, index uint64) error {
	return p.locker.ask(ctx, func(ctx context.Context) error {
		_, _, err := p.locker.client.KV().DeleteCAS(&api.KVPair{Key: p.key, ModifyIndex: index}, (&api.WriteOptions{}).WithContext(ctx))
		if err != nil {
			return fmt.Errorf("delete the key: %w", err)
		}
		return nil
	})
}

// sitOut waits before the next try during a lock-delay, whose end Consul does not tell.
func (p *consulPlace) sitOut(ctx context.Context) {
	const what = "Consul's lock-delay, which follows the end of the last holder's Consul session"
	if p.waitsFor(what) {
		p.locker.log.Info("waiting for "+what, "key", p.key)
	}
	consulPause(ctx, time.Duration(100+rand.IntN(200))*time.Millisecond)
}

// giveUp deletes the key that was locked, for as long as it takes.
func (p *consulPlace) giveUp(s *consulSession, grant uint64) {
	for next := 50 * time.Millisecond; s.ctx.Err() == nil && p.delete(s.ctx, grant) != nil; next = min(2*next, time.Second) {
		consulPause(s.ctx, next)
	}
}

// forget deletes the key whenever it turns out to be this owner's, who has left: a lock that was not answered may still come about. That
// can't take long: a Consul that answers nobody renews no session, either, and a lock goes with its session.
func (p *consulPlace) forget(s *consulSession) {
	ttl := s.locker.settings.SessionTTL
	for end, next := time.Now().Add(2*ttl), 20*time.Millisecond; s.ctx.Err() == nil && time.Now().Before(end); next = min(2*next, ttl/4) {
		pair, _, err := p.look(s.ctx, 0)
		if err == nil && pair != nil && pair.Session == s.id && string(pair.Value) == p.value {
			_ = p.delete(s.ctx, pair.ModifyIndex) // or the next time
		}
		consulPause(s.ctx, next)
	}
}
