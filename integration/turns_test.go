//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// turns are owners that read values, think and write them with one word more, while something fails. Each word is written once. It is
// checked, of each write that is acknowledged, that what it was based on had the word that was acknowledged last
// before it was read. So an update that is lost is found where it was lost.
//
// A store that replicates later than it acknowledges may lose what it has acknowledged when its primary fails. That is
// counted apart, unless the words are durable.
type turns struct {
	*testing.T
	keys    []string
	durable bool

	stop   atomic.Bool
	work   sync.WaitGroup
	window atomic.Int64 // odd while a primary may be replaced

	mu      sync.Mutex
	last    map[string]word // acknowledged, of each key
	lost    int             // by the store
	done    map[string]int
	unknown int
	refused map[string]int
	grants  map[string]uint64
}

type word struct {
	text   string
	window int64
}

func newTurns(t *testing.T, keys ...string) *turns {
	t.Helper()
	return &turns{T: t, keys: keys, last: map[string]word{}, done: map[string]int{}, refused: map[string]int{}, grants: map[string]uint64{}}
}

// owner is one more owner, behind a proxy, until the turns end.
func (w *turns) owner(name string, p *harness.Proxy) {
	c := p.Client(func(o *redis.Options) {
		o.PoolSize, o.MaxRetries, o.ReadTimeout, o.ContextTimeoutEnabled = 1, -1, 20*time.Second, true
	})
	w.work.Go(func() {
		for n := 0; !w.stop.Load() && !w.Failed(); n++ {
			key := w.keys[(n+len(name))%len(w.keys)]
			if !w.turn(c, key, fmt.Sprintf("%s.%d", name, n)) {
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
}

// turn reads, thinks and writes, and reports whether that was acknowledged.
func (w *turns) turn(c *redis.Client, key, text string) bool {
	ctx := context.Background()
	conn := c.Conn() // for the turn: a write over another connection than its read's, made anew by the library, would be a blind one
	defer conn.Close()
	before := w.latest(key)
	was, err := conn.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		w.refuse(err)
		return false
	}
	time.Sleep(time.Millisecond)
	if err := conn.Set(ctx, key, was+text+" ", 0).Err(); err != nil {
		w.refuse(err)
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.window.Load()
	if before.text != "" && !slices.Contains(strings.Fields(was), before.text) {
		if w.durable || now == before.window && now%2 == 0 {
			w.Errorf("%s: %q was acknowledged, and then %q that was based on a value without it", key, before.text, text)
		} else {
			w.lost++
		}
	}
	w.last[key] = word{text, now}
	w.done[key]++
	return true
}

func (w *turns) latest(key string) word {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[key]
}

func (w *turns) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var reply redis.Error
	if !errors.As(err, &reply) {
		w.unknown++
		return
	}
	first, _, _ := strings.Cut(reply.Error(), " ")
	w.refused[first]++
}

// acquirer takes the sessions by themselves, too, and checks that their grants grow.
func (w *turns) acquirer(p *harness.Proxy) {
	c := p.Client(func(o *redis.Options) { o.PoolSize, o.MaxRetries, o.ReadTimeout = 1, -1, 20*time.Second })
	w.work.Go(func() {
		for n := 0; !w.stop.Load() && !w.Failed(); n++ {
			key := w.keys[n%len(w.keys)]
			grant, err := c.Do(context.Background(), "FENCE.ACQUIRE", key, "TTL", "2000", "WAIT", "500").Int64()
			if err == nil {
				w.granted(key, uint64(grant))
				_ = c.Do(context.Background(), "FENCE.RELEASE", key, grant).Err()
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func (w *turns) granted(key string, grant uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if grant <= w.grants[key] {
		w.Errorf("%s: grant %d after %d", key, grant, w.grants[key])
	}
	w.grants[key] = grant
}

// goesOn waits until every key has been written several times more, and returns how long that took.
func (w *turns) goesOn(after string) time.Duration {
	w.Helper()
	start := time.Now()
	w.mu.Lock()
	before := map[string]int{}
	for _, key := range w.keys {
		before[key] = w.done[key]
	}
	w.mu.Unlock()
	harness.Eventually(w.T, 2*time.Minute, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, key := range w.keys {
			if w.done[key] < before[key]+3 {
				return w.Failed()
			}
		}
		return true
	}, "the owners go on after "+after)
	return time.Since(start)
}

// while does something during which a primary may be replaced; mend makes the store whole again.
func (w *turns) while(what string, fail, mend func()) {
	w.Helper()
	w.window.Add(1)
	fail()
	took := w.goesOn(what)
	mend()
	w.window.Add(1)
	w.goesOn("the end of " + what)
	w.Logf("%s: all sessions were written again %v behind it", what, took.Round(time.Millisecond))
}

// end ends the turns, and checks that what was acknowledged last is there.
func (w *turns) end(c redis.UniversalClient) {
	w.Helper()
	w.stop.Store(true)
	w.work.Wait()
	total := 0
	for _, key := range w.keys {
		value, err := c.Get(w.Context(), key).Result()
		if err != nil {
			w.Fatal(err)
		}
		words := strings.Fields(value)
		if last := w.last[key]; !slices.Contains(words, last.text) {
			w.Errorf("%s: %q was acknowledged last, and is not there", key, last.text)
		}
		slices.Sort(words)
		if len(slices.Compact(slices.Clone(words))) != len(words) {
			w.Errorf("%s: a word is there twice", key)
		}
		total += w.done[key]
	}
	w.Logf("%d updates acknowledged, %d lost by the store, %d outcomes unknown, refused: %v", total, w.lost, w.unknown, w.refused)
}
