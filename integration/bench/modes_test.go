package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// A mix: of so many clients, half of them behind each of two proxies, one in twenty reads, thinks and writes, and the
// others only read. Then it flips: the others read, think and write, and one in twenty only reads.
const (
	mixClients  = 40
	mixWriters  = mixClients / 20
	mixSessions = 4
	mixThink    = 5 * time.Millisecond
	mixTurn     = 2 * time.Second
)

// mix is the mix under one mode.
type mix struct {
	mode    string
	clients []*redis.Client
	proxies [2]*harness.Proxy
	acked   [mixSessions]atomic.Int64

	waits [2]float64
	rates [2]series // reads and applied cycles per second, before and after the flip
	done  [2]tally
}

// tally is what came of the commands.
type tally struct{ reads, cycles, fenced, locked atomic.Int64 }

func BenchmarkModes(b *testing.B) {
	results := report.Table{Title: fmt.Sprintf("Modes, %d clients over two proxies on %d sessions; a cycle thinks %v", mixClients, mixSessions, mixThink)}
	results.Add("mix", "mode", "reads and cycles/s", "x lock", "x fence", "reads", "cycles", "FENCED", "LOCKED", "waited")
	server := harness.StartRedis(b)
	modes := []string{"lock", "fence", "auto"}
	mixes := make([]*mix, len(modes))
	for i, mode := range modes {
		mixes[i] = newMix(b, server, mode)
	}
	for b.Loop() {
		for _, m := range mixes {
			for phase := range 2 {
				m.turn(b, phase)
			}
		}
	}
	for phase, name := range []string{"95% read", "95% read and write"} {
		for _, m := range mixes {
			d := &m.done[phase]
			results.Add(name, m.mode, m.rates[phase].median(), m.rates[phase].over(mixes[0].rates[phase]).median(), m.rates[phase].over(mixes[1].rates[phase]).median(),
				d.reads.Load(), d.cycles.Load(), d.fenced.Load(), d.locked.Load(), int(m.waits[phase]))
		}
	}
	for _, m := range mixes {
		for i := range mixSessions {
			n := server.Client().StrLen(b.Context(), m.key(i)).Val()
			if acked := m.acked[i].Load(); acked != n {
				b.Errorf("mode %s, session %d: %d updates were acknowledged, %d are in the value", m.mode, i, acked, n)
			}
		}
	}
	report.Publish(b, report.Section{
		Name: "modes", Heading: "Modes",
		Says: "The same clients under each mode of a rule: first one in twenty reads, thinks and writes while the others only read, then it is the other way round. " +
			"What was refused or gave up is counted and begins again; a lost update fails the benchmark.",
		Tables: []*report.Table{&results},
	})
}

func newMix(b *testing.B, server *harness.Redis, mode string) *mix {
	b.Helper()
	m := &mix{mode: mode}
	for i := range m.proxies {
		m.proxies[i] = harness.StartProxy(b, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: fmt.Sprintf(
			"rules:\n  - {name: %s, prefix: \"%s:\", mode: %s, owner: connection, idle: 1s, lease: 1s}\n", mode, mode, mode)})
	}
	for i := range mixClients {
		client := redis.NewClient(&redis.Options{Addr: m.proxies[i%2].Addr, PoolSize: 1, MaxRetries: -1})
		b.Cleanup(func() { _ = client.Close() })
		m.clients = append(m.clients, client)
	}
	return m
}

func (m *mix) key(session int) string { return fmt.Sprintf("%s:%d", m.mode, session) }

// turn lets the clients work for a time.
func (m *mix) turn(b *testing.B, phase int) {
	b.Helper()
	ctx := b.Context()
	d := &m.done[phase]
	before := d.reads.Load() + d.cycles.Load()
	waited := m.waited()
	start := time.Now()
	var working sync.WaitGroup
	for i, client := range m.clients {
		writes := i < mixWriters == (phase == 0)
		working.Go(func() {
			for n := i; time.Since(start) < mixTurn; n++ {
				session := n % mixSessions
				if err := m.step(ctx, client, session, writes, d); err != nil {
					b.Errorf("mode %s: %v", m.mode, err)
					return
				}
			}
		})
	}
	working.Wait()
	m.waits[phase] += m.waited() - waited
	m.rates[phase] = append(m.rates[phase], float64(d.reads.Load()+d.cycles.Load()-before)/time.Since(start).Seconds())
}

// step is one read, or one cycle.
func (m *mix) step(ctx context.Context, client *redis.Client, session int, writes bool, d *tally) error {
	key := m.key(session)
	value, err := client.Get(ctx, key).Result()
	switch {
	case d.refused(err):
		return nil
	case err != nil && !errors.Is(err, redis.Nil):
		return err
	case !writes:
		d.reads.Add(1)
		return nil
	}
	time.Sleep(mixThink)
	err = client.Set(ctx, key, value+"x", 0).Err()
	switch {
	case d.refused(err):
		return nil
	case err != nil:
		return err
	}
	d.cycles.Add(1)
	m.acked[session].Add(1)
	return nil
}

// waited is how many commands have waited for another owner so far.
func (m *mix) waited() (n float64) {
	for _, p := range m.proxies {
		n += p.Metric(fmt.Sprintf("fence_proxy_wait_duration_seconds_count{rule=%q}", m.mode))
	}
	return n
}

func (d *tally) refused(err error) bool {
	switch {
	case err == nil:
		return false
	case strings.HasPrefix(err.Error(), "FENCED "):
		d.fenced.Add(1)
	case strings.HasPrefix(err.Error(), "LOCKED "):
		d.locked.Add(1)
	default:
		return false
	}
	return true
}
