package provider

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// redlockEars hear of releases at one node: a hint that saves a waiter time. They have no connection until somebody waits.
type redlockEars struct {
	prefix string // of channels
	client *redis.Client
	heard  func(session, id string)
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup // run, and read when there is a connection

	mu      sync.Mutex
	wanted  map[string]bool // sessions
	changed chan struct{}   // holds one when wanted may not be what is subscribed to
}

func newRedlockEars(client *redis.Client, prefix string, heard func(session, id string)) *redlockEars {
	e := &redlockEars{prefix: prefix, client: client, heard: heard, wanted: map[string]bool{}, changed: make(chan struct{}, 1)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.done.Go(e.run)
	return e
}

func (e *redlockEars) want(session string, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on {
		e.wanted[session] = true
	} else {
		delete(e.wanted, session)
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *redlockEars) close() {
	e.stop()
	e.done.Wait()
}

// run keeps the subscription as it is wanted. A node that is down may keep it waiting; go-redis says a subscription again
// once there is a new connection.
func (e *redlockEars) run() {
	var sub *redis.PubSub
	defer func() {
		if sub != nil {
			_ = sub.Close()
		}
	}()
	for has := map[string]bool{}; ; {
		select {
		case <-e.ctx.Done():
			return
		case <-e.changed:
		}
		add, drop := e.differences(has)
		if len(drop) > 0 {
			_ = sub.Unsubscribe(e.ctx, drop...)
		}
		if len(add) == 0 {
			continue
		}
		if sub != nil {
			_ = sub.Subscribe(e.ctx, add...)
			continue
		}
		sub = e.client.Subscribe(e.ctx, add...)
		messages := sub.Channel()
		e.done.Go(func() {
			for m := range messages {
				e.heard(strings.TrimPrefix(m.Channel, e.prefix), m.Payload)
			}
		})
	}
}

// differences are the channels that lack and those that are left over, has being what is there.
func (e *redlockEars) differences(has map[string]bool) (add, drop []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for session := range e.wanted {
		if !has[session] {
			has[session] = true
			add = append(add, e.prefix+session)
		}
	}
	for session := range has {
		if !e.wanted[session] {
			delete(has, session)
			drop = append(drop, e.prefix+session)
		}
	}
	return add, drop
}
