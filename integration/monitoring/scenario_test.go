//go:build integration

package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const config = `rules:
  - name: ctx
    prefix: "ctx:"
    mode: lock
    owner: connection
    wait: 3s
    lease: 2s
    max_hold: 20s
  - name: notes
    prefix: "notes:"
  - name: seen
    prefix: "seen:"
    mode: observe
    owner: connection
`

// elsewhere is a third proxy's, whose lock provider can fail.
const elsewhere = `rules:
  - name: jobs
    prefix: "jobs:"
    mode: lock
    lease: 2s
lock:
  provider: etcd
  etcd:
    endpoints: [%q]
    ttl: 2s
    request_timeout: 500ms
`

// stage is two proxies, what they stand on, and who looks at them.
type stage struct {
	*testing.T
	redis           *harness.Redis
	etcd            *harness.Etcd
	one, two, three *harness.Proxy
	prometheus      *prometheus
	must            []string // the alerts that the scene expects
}

func TestAlertsFireWhenTheyShouldAndNotOtherwise(t *testing.T) {
	t.Parallel()
	s := &stage{T: t, redis: harness.StartRedis(t), etcd: harness.StartEtcd(t, 1)}
	for i, p := range []**harness.Proxy{&s.one, &s.two, &s.three} {
		text := config
		if i == 2 {
			text = fmt.Sprintf(elsewhere, s.etcd.Addrs()[0])
		}
		*p = harness.StartProxy(t, harness.ProxyOptions{Name: fmt.Sprint("proxy ", i+1), Redis: s.redis, Admin: true, ConfigYAML: text})
	}
	s.prometheus = startPrometheus(t, s.one, s.two, s.three)

	stop := make(chan struct{})
	var ordinary sync.WaitGroup
	defer ordinary.Wait()
	defer close(stop)
	for i, p := range []*harness.Proxy{s.one, s.two} {
		for _, rule := range []string{"ctx", "notes"} {
			c := s.client(p)
			ordinary.Go(func() {
				every(100*time.Millisecond, stop, func() { turn(t, c, fmt.Sprintf("%s:ordinary-%d", rule, i), 0) })
			})
		}
	}
	s.quiet()

	s.scene("contention", func() {
		var work sync.WaitGroup
		defer work.Wait()
		over := make(chan struct{})
		defer close(over)
		for i := range 12 {
			c := s.client([]*harness.Proxy{s.one, s.two}[i%2])
			work.Go(func() { every(0, over, func() { turn(t, c, "ctx:hot", 50*time.Millisecond) }) })
		}
		s.fire("FenceProxyContention")
	})
	s.scene("a session that is not let go", func() {
		holder := s.client(s.one)
		_ = holder.Get(t.Context(), "ctx:kept").Err()
		var work sync.WaitGroup
		over := make(chan struct{})
		for range 3 {
			c := s.client(s.two)
			work.Go(func() { every(0, over, func() { turn(t, c, "ctx:kept", 0) }) }) // refused until max_hold ends the hold
		}
		s.fire("FenceProxyWaitTimeouts", "FenceProxyWaitNearLimit", "FenceProxyHoldTooLong")
		harness.Eventually(t, 0, func() bool { return turn(t, s.client(s.two), "ctx:kept", 0) }, "max_hold ends the hold")
		close(over)
		work.Wait()
		if err := holder.Set(t.Context(), "ctx:kept", "late", 0).Err(); !fenced(err) {
			t.Fatalf("%v, want FENCED", err)
		}
	}, "FenceProxyContention")
	s.scene("a stale writer", func() {
		stale, next := s.client(s.one), s.client(s.two)
		_ = stale.Get(t.Context(), "ctx:stale").Err()
		s.one.Pause()
		harness.Eventually(t, 0, func() bool { return turn(t, next, "ctx:stale", 0) }, "the session goes on")
		s.one.Resume()
		if err := stale.Set(t.Context(), "ctx:stale", "stale", 0).Err(); !fenced(err) {
			t.Fatalf("%v, want FENCED", err)
		}
		s.fire("FenceProxyLeaseExpired")
	}, "FenceProxyRenewalsFailing", "FenceProxyWaitTimeouts", "FenceProxyWaitNearLimit", "FenceProxyContention")
	s.scene("an outage of the lock provider", func() {
		stop := make(chan struct{})
		var work sync.WaitGroup
		defer work.Wait()
		defer close(stop)
		c := s.client(s.three)
		s.etcd.Stop()
		work.Go(func() { every(100*time.Millisecond, stop, func() { turn(t, c, "jobs:1", 0) }) })
		s.fire("FenceProxyProviderDown", "FenceProxyStoreDown")
		s.etcd.Start()
		harness.Eventually(t, 0, func() bool { return turn(t, s.client(s.three), "jobs:2", 0) }, "the provider is back")
	}, "FenceProxyContention", "FenceProxyWaitNearLimit", "FenceProxyWaitTimeouts") // who had asked when it went down stood in line until the end
	s.scene("an update lost where a rule only observes", func() {
		late, next := s.client(s.one), s.client(s.two)
		_ = late.Get(t.Context(), "seen:1").Err()
		if !turn(t, next, "seen:1", 0) || late.Set(t.Context(), "seen:1", "late", 0).Err() != nil {
			t.Fatal("refused, though it only observes")
		}
		s.fire("FenceProxyUpdatesLost")
	})
	s.scene("a store that is emptied", func() {
		c := s.client(s.one)
		_ = c.Get(t.Context(), "ctx:lost").Err()
		s.redis.Client().FlushAll(t.Context())
		if err := c.Set(t.Context(), "ctx:lost", "x", 0).Err(); !fenced(err) {
			t.Fatalf("%v, want FENCED", err)
		}
		s.fire("FenceProxyRecordLost")
	}, "FenceProxyWritesRefused", "FenceProxyLeaseExpired")
	s.allPanels()
}

// client is one connection, which tries nothing again.
func (s *stage) client(p *harness.Proxy) *redis.Client {
	return p.Client(func(o *redis.Options) { o.PoolSize, o.MaxRetries, o.ReadTimeout = 1, -1, time.Minute })
}

// turn is a read-modify-write with some thinking, and reports whether it was applied. Being refused is no failure.
func turn(t *testing.T, c *redis.Client, key string, think time.Duration) bool {
	t.Helper()
	text, err := c.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false
	}
	time.Sleep(think)
	return c.Set(t.Context(), key, text[max(0, len(text)-100):]+".", 0).Err() == nil
}

func every(pause time.Duration, stop <-chan struct{}, do func()) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause):
			do()
		}
	}
}

func fenced(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "FENCED") }

// quiet waits until nothing fires and goes on doing so for as long as the longest of the rules' times.
func (s *stage) quiet() {
	s.Helper()
	since := time.Now()
	var last []string
	defer func() {
		if s.Failed() {
			s.Logf("fired last: %v", last)
		}
	}()
	harness.Eventually(s.T, 2*time.Minute, func() bool {
		if firing := s.prometheus.firing(); len(firing) > 0 {
			since, last = time.Now(), firing
		}
		return time.Since(since) > 16*time.Second
	}, "no alert fires")
}

// scene plays something in which alerts may fire besides those that it expects, and no others, and waits until they have ended.
func (s *stage) scene(name string, play func(), may ...string) {
	s.Helper()
	s.Log(name)
	stop := make(chan struct{})
	fired := map[string]bool{}
	var look sync.WaitGroup
	look.Go(func() {
		every(200*time.Millisecond, stop, func() {
			for _, alert := range s.prometheus.firing() {
				fired[alert] = true
			}
		})
	})
	s.must = nil
	play()
	s.quiet()
	close(stop)
	look.Wait()
	for alert := range fired {
		if !slices.Contains(append(may, s.must...), alert) {
			s.Errorf("%s: %s fired", name, alert)
		}
	}
}

// fire waits until all of these have fired.
func (s *stage) fire(alerts ...string) {
	s.Helper()
	s.must = append(s.must, alerts...)
	missing := slices.Clone(alerts)
	defer func() {
		if len(missing) > 0 {
			s.Logf("did not fire: %v", missing)
		}
	}()
	harness.Eventually(s.T, time.Minute, func() bool {
		firing := s.prometheus.firing()
		missing = slices.DeleteFunc(missing, func(a string) bool { return slices.Contains(firing, a) })
		return len(missing) == 0
	}, "the alerts fire")
}

// allPanels looks whether each query of the dashboard has an answer.
func (s *stage) allPanels() {
	s.Helper()
	text, err := os.ReadFile(files + "dashboard.json")
	if err != nil {
		s.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		s.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m", "$job", ".*", "$namespace", ".*", "$rule", ".*")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			if queries++; strings.Contains(query, "$") || s.prometheus.series(query) == 0 {
				s.Errorf("%q has no data: %s", panel.Title, query)
			}
		}
	}
	if queries < 30 {
		s.Errorf("the dashboard has %d queries", queries)
	}
}
