//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// looking are the modes in which a read that nothing is known of takes no hold.
var looking = []string{"fence", "auto"}

// two starts two proxies with the same rule.
func two(t *testing.T, server *harness.Redis, options ...string) (first, second *harness.Proxy) {
	t.Helper()
	first = harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding(options...)})
	second = harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding(options...)})
	return first, second
}

func TestAReadWithoutAHoldNeverWaitsAndItsStaleWriteIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range looking {
		t.Run(mode, func(t *testing.T) {
			const key = "ctx:s"
			server := harness.StartRedis(t)
			proxyA, proxyB := two(t, server, "mode: "+mode, "wait: 0s")
			record := recordOf(t, server, key)
			a, _ := connect(t, "A", proxyA.Addr)
			b, _ := connect(t, "B", proxyB.Addr)
			rounds := []any{nil, "A's"}
			if mode == "auto" {
				rounds = rounds[:1] // it learns
			}
			for _, before := range rounds {
				a.does(before, "GET", key)
				b.does(before, "GET", key)
				if record.holder() != "" {
					t.Error("a read holds the session")
				}
				b.does("OK", "SET", key, "B's")
				if text := a.fails("FENCED", "SET", key, "A's, stale"); !strings.Contains(text, `rule "ctx" session "ctx:s"`) {
					t.Errorf("the refusal does not name the session: %s", text)
				}
				wantValue(t, server, key, "B's")
				a.does("B's", "GET", key)
				a.does("OK", "SET", key, "A's")
				wantValue(t, server, key, "A's")
				b.does("A's", "GET", key) // let go of what it knows
				b.does("OK", "SET", key, "A's")
			}
		})
	}
}

// What was read before a record was lost is stale, however the record that follows looks.
func TestAReadWithoutAHoldIsStaleAfterItsRecordWasLost(t *testing.T) {
	t.Parallel()
	for _, loss := range losses {
		for _, next := range []string{"nobody came", "somebody has read", "somebody has written"} {
			for _, mode := range []string{"fence", "lock"} { // of those who come
				t.Run(loss.name+", "+next+", "+mode, func(t *testing.T) {
					t.Parallel()
					const key = "ctx:s"
					server := harness.StartRedis(t)
					proxyA := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("mode: fence")})
					proxyB := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("mode: " + mode)})
					record := recordOf(t, server, key)
					a, _ := connect(t, "A", proxyA.Addr)
					b, _ := connect(t, "B", proxyB.Addr)
					a.does(nil, "GET", key)
					loss.lose(t, server, record)
					want := ""
					switch next {
					case "somebody has read":
						b.does(nil, "GET", key)
					case "somebody has written":
						b.does("OK", "SET", key, "B's")
						want = "B's"
						loss.lose(t, server, record)
						if loss.data {
							want, _ = server.Client().Get(t.Context(), key).Result()
						}
					}
					a.fails("FENCED", "SET", key, "A's, stale")
					if got, _ := server.Client().Get(t.Context(), key).Result(); got != want {
						t.Errorf("the value is %q, want %q", got, want)
					}
				})
			}
		}
	}
}

func TestAWriteWithoutAHoldWaitsForAHolder(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	fence := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding(append(longHolds, "mode: fence")...)})
	lock := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding(append(longHolds, "mode: lock")...)})
	record := recordOf(t, server, key)
	for _, then := range []string{"leaves", "writes"} {
		t.Run("who "+then, func(t *testing.T) {
			a, _ := connect(t, "A", fence.Addr)
			b, conn := connect(t, "B", lock.Addr)
			b.does("OK", "SET", key, "before")
			b.does("before", "GET", key)
			holder := record.holder()
			a.does("before", "GET", key) // it does not wait
			a.sends("SET", key, "A's")
			record.hasWaiters(1)
			if record.holder() != holder {
				t.Fatal("B holds the session no more")
			}
			if then == "writes" {
				b.does("OK", "SET", key, "B's")
				a.hearsError("FENCED")
				wantValue(t, server, key, "B's")
				return
			}
			_ = conn.Close()
			a.hears("OK")
			wantValue(t, server, key, "A's")
		})
	}
	t.Run("and beats one whose hold has ended", func(t *testing.T) {
		a, _ := connect(t, "A", fence.Addr)
		b, _ := connect(t, "B", lock.Addr)
		b.does("OK", "SET", key, "before")
		b.does("before", "GET", key)
		a.does("before", "GET", key)
		record.loses(record.hold) // as if the lease had ended
		a.does("OK", "SET", key, "A's")
		b.fails("FENCED", "SET", key, "B's, stale")
		wantValue(t, server, key, "A's")
	})
}

func TestModeAutoLocksForThoseWhoWriteWhatTheyRead(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, append(longHolds, "mode: auto")...)
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxyA.Addr)
	reader, _ := connect(t, "reader", proxyB.Addr)
	for range 3 {
		a.does("OK", "SET", key, "v")
		a.does("v", "GET", key)
		a.does("OK", "SET", key, "v")
	}
	for range 5 {
		reader.does("v", "GET", key)
		if record.holder() != "" {
			t.Fatal("who never writes holds the session")
		}
	}
	a.does("v", "GET", key)
	if record.holder() == "" {
		t.Fatal("A has always written what it read, and does not hold the session")
	}
	reader.does("v", "GET", key) // in the middle of A's hold
	a.does("OK", "SET", key, "w")
	for range 200 { // now A reads only
		a.does("w", "GET", key)
	}
	harness.Eventually(t, 0, func() bool { return record.holder() == "" }, "A's hold ends, since no write comes")
	a.does("w", "GET", key)
	if record.holder() != "" {
		t.Error("A has only read for long, and holds the session")
	}
}

func TestInModeAutoARefusedWriteMakesTheNextReadLock(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, append(longHolds, "mode: auto")...)
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	for range 50 {
		a.does(nil, "GET", key) // so that nothing else makes it lock
	}
	b.does("OK", "SET", key, "B's")
	a.fails("FENCED", "SET", key, "A's, stale")
	a.does("B's", "GET", key)
	if record.holder() == "" {
		t.Error("A does not hold what it was refused")
	}
	b.sends("SET", key, "B's again")
	record.hasWaiters(1)
	a.does("OK", "SET", key, "A's")
	b.hears("OK")
	wantValue(t, server, key, "B's again")
}

// In mode auto nobody waits for a session who holds another.
func TestInModeAutoTwoThatWantEachOthersSessionDoNotWait(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, append(longHolds, "mode: auto")...)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	for range 3 {
		for p, key := range map[*party]string{a: "ctx:x", b: "ctx:y"} {
			p.does("OK", "SET", key, "v")
			p.does("v", "GET", key)
			p.does("OK", "SET", key, "v")
		}
	}
	a.does("v", "GET", "ctx:x")
	b.does("v", "GET", "ctx:y")
	if recordOf(t, server, "ctx:x").holder() == "" || recordOf(t, server, "ctx:y").holder() == "" {
		t.Fatal("they do not hold their sessions")
	}
	a.does("v", "GET", "ctx:y")
	b.does("v", "GET", "ctx:x")
	a.does("OK", "SET", "ctx:x", "A's")
	b.does("OK", "SET", "ctx:y", "B's")
	a.fails("FENCED", "SET", "ctx:y", "A's, stale")
	b.fails("FENCED", "SET", "ctx:x", "B's, stale")
}

func TestACommandThatWaitsInLineGivesWayToTheWritesOfItsConnection(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	holds := func(t *testing.T, addr, key string) *party {
		t.Helper()
		p, _ := connect(t, "the holder", addr)
		p.does("OK", "SET", key, "v")
		for range 3 {
			p.does("v", "GET", key)
			p.does("OK", "SET", key, "v")
		}
		p.does("v", "GET", key)
		return p
	}
	waits := map[string][]string{
		"a read":            {"GET", "ctx:y"},
		"a read of several": {"MGET", "ctx:y", "ctx:z"},
		"a blind write":     {"SET", "ctx:y", "blind"},
	}
	for name, command := range waits {
		t.Run("in mode lock, "+name, func(t *testing.T) {
			proxyA, proxyB := two(t, server, append(longHolds, "mode: lock")...)
			y := holds(t, proxyB.Addr, "ctx:y")
			a, conn := connect(t, "A", proxyA.Addr)
			a.does("OK", "SET", "ctx:x", "v")
			a.does("v", "GET", "ctx:x")
			conn.Send(harness.Encode(command...))
			recordOf(t, server, "ctx:y").hasWaiters(1)
			conn.Send(harness.Encode("SET", "ctx:x", "A's"))
			if text := a.hearsError("LOCKED"); !strings.Contains(text, "came behind") {
				t.Errorf("the refusal does not say why: %s", text)
			}
			a.hears("OK")
			wantValue(t, server, "ctx:x", "A's")
			recordOf(t, server, "ctx:y").hasWaiters(0)
			y.does("OK", "SET", "ctx:y", "v")
			conn.Send(harness.Encode("GET", "ctx:y")) // the connection goes on
			a.hears("v")
			a.does("OK", "SET", "ctx:y", "v")
		})
	}
	t.Run("in mode auto, a read", func(t *testing.T) {
		proxyA, proxyB := two(t, server, append(longHolds, "mode: auto")...)
		a := holds(t, proxyA.Addr, "ctx:w")
		a.does("OK", "SET", "ctx:w", "v") // it has learnt to lock, and holds nothing
		y := holds(t, proxyB.Addr, "ctx:y")
		a.sends("GET", "ctx:y")
		recordOf(t, server, "ctx:y").hasWaiters(1)
		a.sends("PING")
		a.hears("v")
		a.hears("PONG")
		recordOf(t, server, "ctx:y").hasWaiters(0)
		y.does("OK", "SET", "ctx:y", "the holder's")
		a.fails("FENCED", "SET", "ctx:y", "A's, stale")
	})
}

// Cases 2 and 7, in the modes whose reads do not lock, or not always.
func TestCyclesThatReadWithoutAHoldLoseNoUpdate(t *testing.T) {
	t.Parallel()
	for _, mode := range looking {
		for _, pool := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, pool of %d", mode, pool), func(t *testing.T) {
				server := harness.StartRedis(t)
				proxyA, proxyB := two(t, server, "mode: "+mode, "wait: 30s")
				testOptimisticCycles(t, server, []string{proxyA.Addr, proxyB.Addr}, pool)
			})
		}
	}
}

// testOptimisticCycles has clients that try again when they are refused.
func testOptimisticCycles(t *testing.T, server *harness.Redis, addrs []string, pool int) {
	t.Helper()
	const clients, each = 8, 50
	var (
		mu           sync.Mutex
		acknowledged []string
		all          sync.WaitGroup
	)
	for n := range clients {
		client := redis.NewClient(&redis.Options{Addr: addrs[n%len(addrs)], PoolSize: pool, MaxRetries: -1, ReadTimeout: 2 * patience})
		t.Cleanup(func() { _ = client.Close() })
		all.Go(func() {
			for cycle := range each {
				id := fmt.Sprintf("%d.%d", n, cycle)
				if err := untilApplied(t.Context(), client, fmt.Sprintf("ctx:s%d", cycle%2), id); err != nil {
					t.Errorf("client %d, cycle %d: %v", n, cycle, err)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	var found []string
	for n := range 2 {
		found = append(found, strings.Fields(server.Client().Get(t.Context(), fmt.Sprintf("ctx:s%d", n)).Val())...)
	}
	slices.Sort(found)
	slices.Sort(acknowledged)
	if !slices.Equal(found, acknowledged) {
		t.Errorf("%d updates are acknowledged, %d are in the values", len(acknowledged), len(found))
	}
	if len(acknowledged) != clients*each {
		t.Errorf("%d updates are acknowledged, want %d", len(acknowledged), clients*each)
	}
}

func untilApplied(ctx context.Context, client *redis.Client, key, id string) error {
	for {
		value, err := client.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("GET: %w", err)
		}
		err = client.Set(ctx, key, value+id+" ", 0).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "FENCED ") {
			return err
		}
	}
}

func TestTransactionsWithoutAHoldAreAppliedIfNobodyHasWritten(t *testing.T) {
	t.Parallel()
	for _, mode := range looking {
		t.Run(mode, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxyA, proxyB := two(t, server, "mode: "+mode, "wait: 0s")
			a, _ := connect(t, "A", proxyA.Addr)
			b, _ := connect(t, "B", proxyB.Addr)
			in := func(p *party, commands ...[]string) {
				p.does("OK", "MULTI")
				for _, c := range commands {
					p.does("QUEUED", c...)
				}
			}
			in(a, []string{"GET", "ctx:x"}, []string{"GET", "ctx:y"})
			a.does([]any{nil, nil}, "EXEC")
			in(b, []string{"SET", "ctx:x", "B's"}, []string{"SET", "free", "B's"})
			b.does([]any{"OK", "OK"}, "EXEC")
			in(a, []string{"SET", "free", "A's, stale"}, []string{"SET", "ctx:x", "A's, stale"})
			a.fails("FENCED", "EXEC")
			wantValue(t, server, "free", "B's")
			wantValue(t, server, "ctx:x", "B's")
			a.does("B's", "GET", "ctx:x")
			in(a, []string{"SET", "ctx:y", "A's"}, []string{"SET", "ctx:x", "A's"})
			a.does([]any{"OK", "OK"}, "EXEC")

			// Under a WATCH of its own a transaction that only reads gets its nil.
			a.does("OK", "WATCH", "free")
			in(a, []string{"GET", "ctx:x"})
			b.does("OK", "SET", "free", "B's again")
			a.does(nil, "EXEC")
			a.does("OK", "WATCH", "ctx:x")
			a.does("A's", "GET", "ctx:x")
			in(a, []string{"SET", "ctx:x", "A's again"})
			a.does([]any{"OK"}, "EXEC")
			wantValue(t, server, "ctx:x", "A's again")
		})
	}
}

// What reads and changes nothing but an expiry is a read in every mode.
func TestGetexWithoutAHoldIsARead(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	needs(t, server, "getex")
	proxyA, proxyB := two(t, server, "mode: fence", "wait: 0s")
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	b.does("OK", "SET", "ctx:s", "before")
	a.does("before", "GETEX", "ctx:s", "EX", "100")
	b.does("OK", "SET", "ctx:s", "B's")
	a.fails("FENCED", "SET", "ctx:s", "A's, stale")
	a.does("B's", "GETEX", "ctx:s", "EX", "100")
	a.does("OK", "SET", "ctx:s", "A's")
	wantValue(t, server, "ctx:s", "A's")
}

// A record made by a read that locks, or by a proxy of before there were reads without a hold, has a token for these
// reads to see as well.
func TestAReadWithoutAHoldSeesATokenInEveryRecord(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	for name, first := range map[string]func(t *testing.T, server *harness.Redis, b *party){
		"of the first holder": func(t *testing.T, _ *harness.Redis, b *party) {
			t.Helper()
			b.does(nil, "GET", key)
		},
		"without a token stored": func(t *testing.T, server *harness.Redis, _ *party) {
			t.Helper()
			if err := server.Client().Set(t.Context(), recordOf(t, server, key).token, "1796000000000000 0 0 redis", 0).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := harness.StartRedis(t)
			fence := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, ConfigYAML: guarding("mode: fence")})
			lock := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: guarding("mode: lock")})
			a, _ := connect(t, "A", fence.Addr)
			b, _ := connect(t, "B", lock.Addr)
			first(t, server, b)
			a.does(nil, "GET", key)
			b.does("OK", "SET", key, "B's")
			a.fails("FENCED", "SET", key, "A's, stale")
			wantValue(t, server, key, "B's")
			a.does("B's", "GET", key)
			a.does("OK", "SET", key, "A's")
		})
	}
}

// What one connection of a pool has read without a hold is fenced when it is written over another one.
func TestAReadWithoutAHoldOfAPoolIsFencedOverItsOtherConnections(t *testing.T) {
	t.Parallel()
	for _, mode := range looking {
		t.Run(mode, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxyA, proxyB := two(t, server, "mode: "+mode, "owner: auto")
			first, _ := connect(t, "the first of a pool", proxyA.Addr)
			second, _ := connect(t, "the second of the pool", proxyA.Addr)
			b, _ := connect(t, "B", proxyB.Addr)
			first.does(nil, "GET", "ctx:s")
			b.does("OK", "SET", "ctx:s", "B's")
			second.fails("FENCED", "SET", "ctx:s", "stale")
			wantValue(t, server, "ctx:s", "B's")
			first.does("B's", "GET", "ctx:s")
			second.does("OK", "SET", "ctx:s", "the pool's")
			wantValue(t, server, "ctx:s", "the pool's")
		})
	}
}
