//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	failoverOwners   = 16
	failoverSessions = 3
)

// failoverLoad is a load that goes on whatever happens to the primary: owners behind several proxies read a session,
// think, and write back what they have read with an id behind it; others take and give back a session by its grant.
type failoverLoad struct {
	*testing.T
	set     *harness.SentinelSet
	proxies []*harness.Proxy

	stop   context.CancelFunc
	owners sync.WaitGroup

	mu     sync.Mutex
	acked  []ackedWrite
	unsure map[string]bool            // ids of writes with an unknown outcome
	cycles [failoverOwners]int        // that were acknowledged
	grants map[string]map[uint64]bool // by key
	lost   []map[string]bool          // chains that a replaced primary had, which Redis itself loses: of each session, all starts
	gaps   [][2]time.Time             // in which Redis may have lost something, where it can't be told what
}

// ackedWrite is one that the client was told is good.
type ackedWrite struct {
	key, id string
	chain   string // all that the session then had, as a hash
	at      time.Time
}

// chainOf is what tells a session's value from all others.
func chainOf(key, value string) string {
	h := fnv.New128a()
	_, _ = fmt.Fprint(h, key, " ", value)
	return string(h.Sum(nil))
}

// starts are the chains of a value and of all that it has gone on from.
func starts(key, value string) map[string]bool {
	all := map[string]bool{}
	for i, c := range value {
		if c == ' ' {
			all[chainOf(key, value[:i+1])] = true
		}
	}
	return all
}

func startFailoverLoad(t *testing.T, options ...harness.SentinelOption) *failoverLoad {
	t.Helper()
	set := harness.StartSentinels(t, options...)
	l := &failoverLoad{T: t, set: set, unsure: map[string]bool{}, grants: map[string]map[uint64]bool{}}
	for _, name := range []string{"first", "second", "third", "fourth"} {
		l.proxies = append(l.proxies, harness.StartProxy(t, harness.ProxyOptions{Name: name, Upstream: set.URL(), ConfigYAML: guarding("wait: 1s", "lease: 3s")}))
	}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	t.Cleanup(stop)
	for n := range failoverOwners {
		client := redis.NewClient(&redis.Options{Addr: l.proxies[n/4].Addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: 3 * time.Second})
		t.Cleanup(func() { _ = client.Close() })
		l.owners.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if n%4 == 3 {
					l.take(ctx, client, n)
				} else {
					l.cycle(ctx, client, n, i)
				}
			}
		})
	}
	l.goesOn()
	return l
}

func (l *failoverLoad) cycle(ctx context.Context, client *redis.Client, n, i int) {
	key, id := fmt.Sprintf("ctx:s%d", (n+i)%failoverSessions), fmt.Sprintf("%d.%d", n, i)
	value, err := client.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		time.Sleep(time.Millisecond)
		return
	}
	time.Sleep(10 * time.Millisecond) // it thinks
	value += id + " "
	err = client.Set(ctx, key, value, 0).Err()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.acked = append(l.acked, ackedWrite{key, id, chainOf(key, value), time.Now()})
		l.cycles[n]++
	case !redis.HasErrorPrefix(err, "FENCED ") && !redis.HasErrorPrefix(err, "LOCKED ") && !redis.HasErrorPrefix(err, "FENCEDOWN "):
		l.unsure[id] = true
	}
}

// take acquires a session by name and gives it back.
func (l *failoverLoad) take(ctx context.Context, client *redis.Client, n int) {
	key := fmt.Sprintf("turn:%d", n/4%2)
	grant, err := client.Do(ctx, "FENCE.ACQUIRE", key, "TTL", 2000, "WAIT", 200).Uint64()
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	l.mu.Lock()
	if l.grants[key] == nil {
		l.grants[key] = map[uint64]bool{}
	}
	if l.grants[key][grant] {
		l.Errorf("grant %d of %s was given twice", grant, key)
	}
	l.grants[key][grant] = true
	l.cycles[n]++
	l.mu.Unlock()
	client.Do(ctx, "FENCE.RELEASE", key, grant)
}

// goesOn waits until every owner has got through several times more.
func (l *failoverLoad) goesOn() {
	l.Helper()
	l.mu.Lock()
	before := l.cycles
	l.mu.Unlock()
	harness.Eventually(l.T, 2*patience, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for n := range l.cycles {
			if l.cycles[n] < before[n]+5 {
				return false
			}
		}
		return true
	}, "every owner goes on")
}

// loses takes in what a primary had that is replaced, or is about to be: all that nobody else has, Redis loses.
func (l *failoverLoad) loses(node *harness.SentinelNode) {
	l.Helper()
	client := node.Client()
	for n := range failoverSessions {
		key := fmt.Sprintf("ctx:s%d", n)
		l.lost = append(l.lost, starts(key, client.Get(l.Context(), key).Val()))
	}
}

// gap has Redis lose what it may lose while something is done.
func (l *failoverLoad) gap(do func()) {
	from := time.Now()
	do()
	l.gaps = append(l.gaps, [2]time.Time{from, time.Now()})
}

// follow waits until all proxies have found the primary.
func (l *failoverLoad) follow(primary *harness.SentinelNode) {
	l.Helper()
	hasFollowed(l.T, primary, l.proxies...)
}

// resumes waits until all goes on at another primary. How long that takes counts from when the Sentinels have made it one.
func (l *failoverLoad) resumes(what string, old *harness.SentinelNode) {
	l.Helper()
	primary := l.set.WaitOther(old)
	since := time.Now()
	l.follow(primary)
	l.goesOn()
	l.Logf("%s: every owner has gone on %v after another node has become the primary", what, time.Since(since).Round(time.Millisecond))
}

// hasFollowed waits until the primary is the last one that proxies have found; they may have followed it before.
func hasFollowed(t *testing.T, primary *harness.SentinelNode, proxies ...*harness.Proxy) {
	t.Helper()
	for _, p := range proxies {
		harness.Eventually(t, 0, func() bool {
			logs := p.Logs()
			last := strings.LastIndex(logs, " primary=")
			return last >= 0 && strings.Fields(logs[last:])[0] == "primary="+primary.Addr
		}, "the proxy follows the primary")
	}
}

// ends ends the load, and compares what is there with what was acknowledged.
func (l *failoverLoad) ends() {
	l.Helper()
	l.stop()
	l.owners.Wait()
	l.set.WaitHealthy()
	found, count := map[string]bool{}, map[string]int{}
	client := l.set.Primary().Client()
	for n := range failoverSessions {
		key := fmt.Sprintf("ctx:s%d", n)
		value := client.Get(l.Context(), key).Val()
		for start := range starts(key, value) {
			found[start] = true
		}
		for _, id := range strings.Fields(value) {
			count[id]++
		}
	}
	good, lost := map[string]bool{}, 0
	for _, w := range l.acked {
		good[w.id] = true
		switch {
		case found[w.chain]:
		case l.lostByRedis(w):
			lost++
		default:
			l.Errorf("update %s of %s was acknowledged, is not there, and no replaced primary had it", w.id, w.key)
		}
	}
	for id, n := range count {
		if n != 1 || !good[id] && !l.unsure[id] {
			l.Errorf("update %s is there %d times; acknowledged: %v, unknown: %v", id, n, good[id], l.unsure[id])
		}
	}
	l.Logf("%d updates acknowledged, %d of them lost by Redis, %d unknown", len(l.acked), lost, len(l.unsure))
}

func (l *failoverLoad) lostByRedis(w ackedWrite) bool {
	for _, chains := range l.lost {
		if chains[w.chain] {
			return true
		}
	}
	for _, g := range l.gaps {
		if !w.at.Before(g[0]) && !w.at.After(g[1]) {
			return true
		}
	}
	return false
}

// The primary is gone at once, with what its replicas had not got yet.
func TestLoadGoesOnWhenThePrimaryIsKilled(t *testing.T) {
	t.Parallel()
	l := startFailoverLoad(t)
	for _, behind := range []bool{false, true} {
		old := l.set.Primary()
		if behind {
			old.CutReplicas()
			l.goesOn()
		}
		old.Relay.Cut() // what it has now, nobody gets
		harness.Eventually(t, 0, func() bool {
			return !strings.Contains(old.Client().ClientList(t.Context()).Val(), "name=fence-proxy")
		}, "it has closed all connections")
		l.loses(old)
		old.Kill()
		l.resumes("the end of the primary", old)
		old.Join()
		old.Relay.Restore()
		old.Restart()
		l.set.WaitHealthy()
	}
	l.ends()
}

// Clients still reach the primary that the Sentinels have replaced.
func TestLoadLeavesAPrimaryThatWasReplaced(t *testing.T) {
	t.Parallel()
	l := startFailoverLoad(t)
	old := l.set.Primary()
	old.Isolate()
	l.resumes("a primary that is cut off from all others, and not from clients", old)
	before := old.Client().Get(t.Context(), "ctx:s0").Val()
	l.goesOn()
	l.loses(old)
	if after := old.Client().Get(t.Context(), "ctx:s0").Val(); after != before {
		t.Error("the replaced primary is still written to")
	}
	old.Join()
	l.set.WaitHealthy()
	l.goesOn()
	l.ends()
}

func TestLoadGoesOnThroughFailovers(t *testing.T) {
	t.Parallel()
	l := startFailoverLoad(t)
	for range 3 {
		l.gap(func() {
			l.follow(l.set.Failover())
			l.goesOn() // all has been heard that the old one has said
		})
		l.set.WaitHealthy()
	}
	l.ends()
}

// One node after the other is restarted, the primary too. What it has, it has on disk.
func TestLoadGoesOnWhileEveryNodeIsRestarted(t *testing.T) {
	t.Parallel()
	l := startFailoverLoad(t, harness.WithNodeOptions(harness.WithArgs("--appendonly", "yes")))
	for _, node := range l.set.Nodes {
		l.gap(func() {
			node.Restart()
			l.goesOn()
			l.set.WaitHealthy()
		})
	}
	for i := range l.set.Sentinels {
		l.set.RestartSentinel(i)
		l.goesOn()
	}
	l.ends()
}
