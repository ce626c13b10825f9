package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// Consul keeps locks in Consul's key-value store. Its settings are ConsulSettings.
//
// A session is a key, which is there while somebody holds it: the owner's proxy locks it with its Consul session
// (consulSession), and deletes it to release it. The value says who holds it, for people.
//
//	owners of one proxy ── line, first come first served ── one at a time ──▶ key ◀── those of other proxies
//
// A free session costs one round trip, its release a second that nobody waits for.
//
// # One Consul session for all holds
//
// Consul would lock a key again for the session that has it, so among the owners of one proxy it excludes nobody. A Consul
// session for every hold at a time would: each costs a renewal every few seconds, and a write to Consul's log for a new one, and the
// owners of a proxy had no order. So a proxy has one, and a line of its own for each key.
//
// # Order
//
// First come first served among the owners of one proxy. There is none among proxies: the first in line of each waits with a
// blocking query, and who comes first after a release has the key: on the whole all in turn, those nearer to Consul more often.
//
// # Grants
//
// The grant is the key's ModifyIndex after it was locked: the number of the entry in Consul's log that did it, which grows
// with every write of the whole cluster, also when keys are deleted and come back. LockIndex would not do: it counts within one key, and starts again when
// the key goes. ModifyIndex also tells one hold from the next: a key is only ever deleted with the index that it was locked
// with, so a late release ends nobody else's hold.
//
// # Lost answers
//
// A transaction locks a key only if it is absent, or as it was seen without a holder. So one whose answer was lost, and which may
// be carried out late, can't take the key from whoever has it by then. If it takes a free one, the proxy finds
// its own value there and deletes it (forget).
//
// # Lock-delay
//
// When a Consul session ends otherwise than by releasing its keys, Consul grants them to nobody for as long as that session's lock_delay
// says. Who waits for that reason says so, in the log and in the error.
var Consul = Kind{Name: "consul", Settings: consulDefaults, Open: openConsul}

// consul is the Locker. It has one Consul session after the other.
type consul struct {
	settings  ConsulSettings
	env       Environment
	log       *slog.Logger
	client    *api.Client
	transport *http.Transport
	watches   chan struct{} // has a token for every blocking query of a waiter
	serial    atomic.Uint64 // of values

	io        context.Context // of everything asked of Consul: ends when Close gives up
	stop      context.CancelFunc
	leaving   context.Context // of those who wait: ends when Close begins
	leave     context.CancelFunc
	tasks     sync.WaitGroup
	closeOnce sync.Once
	finished  chan struct{} // closed when nothing is left of the Locker

	mu      sync.Mutex
	closed  bool
	current *consulSession
	changed chan struct{} // closed and replaced when another session is current
	failure error         // why Consul could not be asked, nil if it was asked since
	told    bool          // the log has that
	lines   map[string]consulLine
	holds   map[*consulHold]struct{}
}

var (
	errConsulClosed      = errors.New("consul: the provider is closed")
	errConsulSessionOver = errors.New("the Consul session is over")
)

const (
	// consulPatience is how long an Acquire goes on when Consul can't be asked: as long as it takes to elect another leader.
	consulPatience = 3 * time.Second
	// consulWatches limits the blocking queries at a time, each of which takes a connection: Consul's own limit is 200 a
	// client by default. Who finds no room asks again and again.
	consulWatches = 100
	// consulWatch is the longest time of a blocking query. Consul adds a sixteenth.
	consulWatch = 30 * time.Second
)

func openConsul(s Settings, env Environment) (Locker, error) {
	settings, ok := s.(*ConsulSettings)
	if !ok {
		return nil, fmt.Errorf("consul has no settings of type %T", s)
	}
	if setting, remedy := settings.Validate(); setting != "" {
		return nil, fmt.Errorf("consul: %s: %s", setting, remedy)
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("consul: http.DefaultTransport is a %T", http.DefaultTransport)
	}
	transport = transport.Clone()
	transport.MaxIdleConnsPerHost = consulWatches
	transport.TLSClientConfig = nil // cloning has made one, and the client makes its own of the settings only where there is none
	client, err := api.NewClient(&api.Config{
		Address: settings.Address, Token: settings.Token, TokenFile: settings.TokenFile, Datacenter: settings.Datacenter,
		Transport: transport,
		TLSConfig: api.TLSConfig{CAFile: settings.TLSCA, CertFile: settings.TLSCert, KeyFile: settings.TLSKey},
	})
	if err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	l := &consul{
		settings: *settings, env: env, log: env.Log.With("provider", "consul"), client: client, transport: transport,
		watches: make(chan struct{}, consulWatches), finished: make(chan struct{}), changed: make(chan struct{}),
		failure: errors.New("it has not answered yet"),
		lines:   map[string]consulLine{}, holds: map[*consulHold]struct{}{},
	}
	l.io, l.stop = context.WithCancel(context.Background())
	l.leaving, l.leave = context.WithCancel(l.io)
	l.tasks.Go(l.run)
	l.tasks.Go(l.cleanUp)
	return l, nil
}

// run has one Consul session after the other, until Close.
func (l *consul) run() {
	for l.leaving.Err() == nil {
		s, err := l.newSession()
		if err != nil {
			l.fail(err)
			consulPause(l.leaving, 200*time.Millisecond)
			continue
		}
		l.become(s)
		select {
		case <-s.over:
		case <-l.leaving.Done():
			l.giveBack()
			s.end(errConsulClosed)
		}
		l.tasks.Go(s.leave)
	}
}

// become makes a session current.
func (l *consul) become(s *consulSession) {
	l.log.Info("a Consul session stands", "id", s.id, "session_ttl", l.settings.SessionTTL, "lock_delay", l.settings.LockDelay)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.failure, l.told = s, nil, false
	close(l.changed)
	l.changed = make(chan struct{})
}

// standing waits for a session, for some time.
func (l *consul) standing(ctx context.Context) (*consulSession, error) {
	ctx, cancel := context.WithTimeout(ctx, consulPatience)
	defer cancel()
	for {
		l.mu.Lock()
		s, changed := l.current, l.changed
		l.mu.Unlock()
		if s != nil && s.stands() {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fail notes that Consul could not be asked, and says so in the log the first time.
func (l *consul) fail(err error) {
	if l.leaving.Err() != nil {
		return
	}
	l.mu.Lock()
	first := !l.told
	l.failure, l.told = err, true
	l.mu.Unlock()
	if first {
		l.log.Warn("Consul can't be asked; trying again", "error", err)
	}
}

// answered notes that Consul was asked.
func (l *consul) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure, l.told = nil, false
}

// limit is how long Consul may take to answer.
func (l *consul) limit() time.Duration { return min(l.settings.SessionTTL/3, 5*time.Second) }

// ask asks Consul, for a limited time, and notes whether it has answered.
func (l *consul) ask(ctx context.Context, question func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, l.limit())
	defer cancel()
	err := question(limited)
	switch {
	case err == nil:
		l.answered()
	case ctx.Err() == nil:
		l.fail(err)
	}
	return err
}

// watch is a context for a blocking query whose answer may never come, for its connection is dead and nobody has said so.
func (l *consul) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, consulWatch+consulWatch/16+l.limit())
}

// Acquire stands in this proxy's line for the key, and at its head contends with other proxies for it.
func (l *consul) Acquire(ctx context.Context, r Request) (Hold, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.leaving, cancel)()
	p := l.enter(r)
	hold, err := p.acquire(waiting)
	if err != nil {
		p.leave()
		return nil, l.explain(ctx, p, err)
	}
	return hold, nil
}

// explain is the error of an Acquire. ctx's error is in it only if that was cancelled, or if the owner waited for others: a deadline that passed
// without an answer is no reason to wait again.
func (l *consul) explain(ctx context.Context, p *consulPlace, err error) error {
	l.mu.Lock()
	failure := l.failure
	l.mu.Unlock()
	ended, waitedFor := ctx.Err(), p.waitedFor()
	switch {
	case l.leaving.Err() != nil:
		return errConsulClosed
	case errors.Is(ended, context.Canceled):
		return fmt.Errorf("consul: wait for %s: %w", p.key, ended)
	case failure != nil:
		return fmt.Errorf("consul: it can't be asked: %s", failure.Error()) // not wrapped: it may have a deadline of its own in it
	case ended == nil:
		return fmt.Errorf("consul: acquire %s: %s", p.key, err.Error()) // likewise
	case waitedFor == "":
		return fmt.Errorf("consul: acquire %s: no answer came in time", p.key)
	default:
		return fmt.Errorf("consul: wait for %s behind %s: %w", p.key, waitedFor, ended)
	}
}

// Check has Consul write a key and take that back in the same transaction, so it tells whether there is a leader that would let
// us; nothing changes.
func (l *consul) Check(ctx context.Context) error {
	if _, err := l.standing(ctx); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("consul: no session: %w", errors.Join(l.failure, err))
	}
	key := l.settings.Path + "/~check"
	err := l.ask(ctx, func(ctx context.Context) error {
		_, response, err := l.transact(ctx,
			&api.KVTxnOp{Verb: api.KVSet, Key: key},
			&api.KVTxnOp{Verb: api.KVCheckIndex, Key: key, Index: 0}) // which no key has
		if err != nil {
			return err
		}
		for _, e := range response.Errors {
			if e.OpIndex == 0 || !strings.Contains(e.What, "failed index check") {
				return errors.New(e.What)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("consul: write below %s: %w", l.settings.Path, err)
	}
	return nil
}

func (l *consul) transact(ctx context.Context, ops ...*api.KVTxnOp) (bool, *api.KVTxnResponse, error) {
	ok, response, _, err := l.client.KV().Txn(ops, (&api.QueryOptions{}).WithContext(ctx))
	return ok, response, err
}

// spawn runs a task that Close waits for, unless the Locker is closed.
func (l *consul) spawn(task func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.tasks.Go(task)
	return true
}

// giveBack releases all holds: a session that ends with keys would have its lock-delay.
func (l *consul) giveBack() {
	l.mu.Lock()
	var holds []*consulHold
	for h := range l.holds {
		holds = append(holds, h)
	}
	l.mu.Unlock()
	var released sync.WaitGroup
	defer released.Wait()
	for _, h := range holds {
		released.Go(func() { _ = h.Release(l.io) }) // else it ends with the session
	}
}

// Close releases all holds and ends the Consul session.
func (l *consul) Close(ctx context.Context) error {
	l.closeOnce.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.leave()
		go func() {
			defer close(l.finished)
			l.tasks.Wait()
			l.transport.CloseIdleConnections()
		}()
	})
	select {
	case <-l.finished:
		l.stop()
		return nil
	case <-ctx.Done():
		l.stop()
		return fmt.Errorf("consul: end the session: %w", ctx.Err())
	}
}

// consulPause returns after some time, or when ctx ends.
func consulPause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
