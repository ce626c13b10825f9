//go:build integration

package soak

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// street is two proxies with their guests, and the Redis that they share.
//
//	guests ──▶ subject ──▶ relay ──▶ Redis
//	guests ──▶ neighbour ──────────────▲
type street struct {
	testing.TB

	server     *harness.Redis
	straight   *redis.Client
	relay      *harness.Relay
	subject    *subject
	neighbour  *harness.Proxy
	home, next *house
	deck       *deck
	counts     []atomic.Int64 // of visits
	variant    int            // the rules of the subject
}

const (
	guests     = 24 // of the subject at any time: enough that they share connections to Redis
	neighbours = 6
)

// durable keeps what Redis has acknowledged when its process ends, in a file that is written anew before it takes long to load.
var durable = harness.WithArgs("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-min-size", "8mb")

const base = "admin_pprof: true\nlog:\n  level: error\n"

// Short times let holds end in every way within a spell, and records soon after it.
const rules = `rules:
  - name: ctx
    prefix: "ctx:"
    mode: lock
    owner: connection
    wait: 300ms
    idle: 300ms
    lease: 1s
    max_hold: 1s
    record_ttl: 2s
`

// variants are the rules that a reload gives the subject: each is safe beside the neighbour's.
var variants = func() (all []string) {
	for _, mode := range []string{"lock", "fence", "auto"} {
		for _, wait := range []string{"300ms", "600ms"} {
			text := strings.NewReplacer("mode: lock", "mode: "+mode, "wait: 300ms", "wait: "+wait).Replace(rules)
			fresh := strings.NewReplacer("name: ctx", "name: fresh", `"ctx:"`, `"ctx:fresh:home:"`, "rules:\n", "").Replace(text)
			all = append(all, text, text+fresh)
		}
	}
	return all
}()

func newStreet(tb testing.TB, seed uint64) *street {
	tb.Helper()
	s := &street{TB: tb, server: harness.StartRedis(tb, durable), deck: &deck{Rand: rand.New(rand.NewPCG(seed, 1))}, counts: make([]atomic.Int64, len(visits))}
	s.straight = s.server.Client()
	s.relay = harness.StartRelay(tb, s.server.Addr, harness.WithoutPast())
	s.subject = startSubject(tb, s.relay, base+variants[0])
	s.neighbour = harness.StartProxy(tb, harness.ProxyOptions{Name: "neighbour", Redis: s.server, Admin: true, ConfigYAML: base + rules})
	updates := &ledger{accounts: map[string]*account{}}
	s.home = &house{name: "home", addr: s.subject.Addr, trouble: newTrouble(), ledger: updates, stacks: func() string { return stacks(s.subject.Admin) }}
	s.next = &house{name: "next", addr: s.neighbour.Addr, trouble: newTrouble(), ledger: updates, stacks: func() string { return stacks(s.neighbour.Admin) }}
	return s
}

// spell lets guests come and go for a while, and meanwhile some faults happen. It returns a reading from the midst of it. When it
// returns, all have left.
func (s *street) spell(lasts time.Duration, faults int, each func(k *kind, healed time.Duration)) reading {
	s.Helper()
	var seats sync.WaitGroup
	seat := func(h *house, visits []visit, counts []atomic.Int64) {
		r := rand.New(rand.NewPCG(s.deck.Uint64(), 2))
		seats.Go(func() {
			for !h.leaving.Load() {
				i := r.IntN(len(visits))
				if err := visits[i].perform(h, r); err != nil {
					s.Error(err)
					return
				}
				counts[i].Add(1)
			}
		})
	}
	end := time.Now().Add(lasts)
	for _, h := range all(s) {
		h.leaving.Store(false)
	}
	for range guests {
		seat(s.home, visits, s.counts)
	}
	for range neighbours {
		seat(s.next, guardedVisits, make([]atomic.Int64, len(guardedVisits)))
	}
	s.busy("the spell begins")
	for n := range faults {
		time.Sleep(time.Until(end) / time.Duration(2*(faults-n)))
		k := s.deck.draw()
		each(k, s.play(k))
		if s.Failed() {
			break
		}
	}
	during := s.look()
	time.Sleep(time.Until(end))
	for _, h := range all(s) {
		h.leaving.Store(true)
	}
	seats.Wait()
	if s.Failed() {
		s.FailNow()
	}
	return during
}

func (s *street) look() reading {
	s.Helper()
	r := s.subject.read()
	r.records = len(s.keys(records))
	return r
}

// idle is a reading of a subject that nobody visits: the least of several, since to look at it takes something, too.
func (s *street) idle() reading {
	s.Helper()
	least := s.calm(reading{goroutines: math.MaxInt, descriptors: math.MaxInt})
	for range 10 {
		r := s.look()
		least.goroutines, least.descriptors = min(least.goroutines, r.goroutines), min(least.descriptors, r.descriptors)
	}
	return least
}

// stacks are those of the goroutines of a proxy, for a failure's message.
func stacks(admin string) string {
	r, err := http.Get("http://" + admin + "/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// records are all keys that the proxies keep at Redis.
const records = "fence-proxy:*"

func (s *street) keys(pattern string) (keys []string) {
	s.Helper()
	ctx := s.Context()
	found := s.straight.Scan(ctx, 0, pattern, 1000).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	if err := found.Err(); err != nil {
		s.Fatal(err)
	}
	return keys
}

// calm waits until all that the guests had has gone: what they held of the subject, and their records at Redis.
func (s *street) calm(idle reading) (after reading) {
	s.Helper()
	var kept []string
	defer func() {
		if s.Failed() {
			s.Logf("kept after a minute: %s; connections that the other side has closed: %v\n%s", strings.Join(kept, ", "), after.dead, s.home.stacks())
		}
	}()
	harness.Eventually(s, time.Minute, func() bool {
		left := s.keys(records)
		kept = nil
		for _, key := range left[:min(len(left), 5)] {
			kept = append(kept, fmt.Sprintf("%s (TTL %v)", key, s.straight.PTTL(s.Context(), key).Val()))
		}
		time.Sleep(50 * time.Millisecond)
		return len(left) == 0
	}, "all fence records have gone")
	harness.Eventually(s, time.Minute, func() bool {
		after = s.look()
		kept = above(after, idle)
		return len(kept) == 0
	}, "what the subject has goes back to that of the idle proxy")
	return after
}
