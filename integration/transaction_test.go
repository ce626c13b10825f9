//go:build integration

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// transactions are conversations that must sound the same through a proxy that guards "ctx:". A
// line is a command; "straight:" ones are sent by another client, straight at Redis, when all before
// is answered.
var transactions = map[string]string{
	"a write":                   "MULTI|SET ctx:a 1|EXEC|GET ctx:a",
	"a read":                    "SET ctx:a 1|MULTI|GET ctx:a|EXEC|SET ctx:a 2",
	"reads of several":          "MSET ctx:a 1 ctx:b 2|MULTI|GET ctx:b|GET ctx:a|GET ctx:none|EXEC|SET ctx:b x|SET ctx:a y",
	"reads and writes":          "MULTI|GET ctx:a|SET ctx:a 1|GET ctx:a|SET ctx:b 2|MGET ctx:a ctx:b|EXEC|SET ctx:a 3|MGET ctx:a ctx:b",
	"guarded and not":           "MULTI|SET free 1|SET ctx:a 1|INCR free|DBSIZE|EXEC|GET free",
	"not guarded":               "MULTI|SET free 1|INCR free|EXEC|MULTI|EXEC|MULTI|PING|ECHO x|EXEC",
	"guarded at last":           "MULTI|SET f 1|INCR f|INCR f|INCR f|INCR ctx:a|EXEC",
	"a read before":             "SET ctx:a 1|GET ctx:a|MULTI|INCR ctx:a|EXEC|GET ctx:a|MULTI|SET ctx:a x|EXEC",
	"all kinds of replies":      "MULTI|HSET ctx:h a 1 b 2|HGETALL ctx:h|SADD ctx:s x|SMEMBERS ctx:s|ZADD ctx:z 1.5 m|ZRANGE ctx:z 0 -1 WITHSCORES|ZSCORE ctx:z m|GET ctx:n|LPOP ctx:l 2|SET ctx:n v GET|HGETALL ctx:none|EXEC",
	"run-time errors":           "SET ctx:a x|MULTI|INCR ctx:a|SET ctx:b 1|LPUSH ctx:a y|EXEC|GET ctx:a|GET ctx:b",
	"only run-time errors":      "SET ctx:a x|MULTI|INCR ctx:a|EXEC|MULTI|LLEN ctx:a|EXEC|SET ctx:a y",
	"wrong arity":               "MULTI|SET ctx:a 1|SET ctx:a|SET ctx:b 1|EXEC|EXISTS ctx:a ctx:b",
	"wrong arity first":         "MULTI|GET|SET ctx:a 1|EXEC|EXISTS ctx:a",
	"wrong arity last":          "MULTI|SET ctx:a 1|GET|EXEC|EXISTS ctx:a",
	"unknown":                   "MULTI|SET ctx:a 1|NONSENSE x|EXEC|EXISTS ctx:a",
	"unknown among free ones":   "MULTI|SET free 1|NONSENSE x|EXEC|EXISTS free",
	"discarded":                 "MULTI|SET ctx:a 1|DISCARD|EXISTS ctx:a|EXEC|DISCARD",
	"nested":                    "MULTI|SET ctx:a 1|MULTI|SET ctx:b 2|EXEC|EXEC",
	"nested, wrong arity":       "MULTI|SET ctx:a 1|MULTI x|EXEC|EXISTS ctx:a",
	"MULTI with an argument":    "MULTI x|SET ctx:a 1|EXEC|GET ctx:a",
	"EXEC with an argument":     "MULTI|SET ctx:a 1|EXEC x|EXEC|EXISTS ctx:a",
	"DISCARD with an argument":  "MULTI|SET ctx:a 1|DISCARD x|EXEC|EXISTS ctx:a",
	"WATCH inside":              "MULTI|WATCH ctx:a|SET ctx:a 1|WATCH free|EXEC|GET ctx:a",
	"UNWATCH inside":            "WATCH free|MULTI|UNWATCH|SET ctx:a 1|EXEC",
	"RESET inside":              "MULTI|SET ctx:a 1|RESET|EXEC|EXISTS ctx:a",
	"SELECT of the same":        "MULTI|SELECT 0|SET ctx:a 1|EXEC|GET ctx:a",
	"SELECT, not guarded":       "MULTI|SELECT 1|SET free 1|EXEC|GET free|SET ctx:a 1|GET ctx:a|MULTI|SET ctx:a 2|EXEC",
	"a script":                  "MULTI|EVAL return{redis.call('incr',KEYS[1]),ARGV[1]} 1 ctx:a x|EXEC|GET ctx:a",
	"a script that fails":       "MULTI|EVAL return{err='MY$words'} 1 ctx:a|EXEC|EVALSHA ffff 1 ctx:a",
	"what would block":          "MULTI|BLPOP ctx:l 0|RPUSH ctx:l x y|BLPOP ctx:l 0|BLMOVE ctx:l ctx:m LEFT LEFT 0|EXEC",
	"EXPIRE":                    "MULTI|SET ctx:a 1|EXPIRE ctx:a 100|PERSIST ctx:a|EXEC|MULTI|EXPIRE ctx:a 10|EXEC",
	"celery":                    "MULTI|SETEX ctx:r 86400 {}|PUBLISH ctx:r {}|EXEC",
	"many":                      "MULTI" + strings.Repeat("|RPUSH ctx:l element|LLEN ctx:l", 700) + "|EXEC",
	"an empty one behind WATCH": "WATCH ctx:a|MULTI|EXEC|WATCH ctx:a|straight:SET ctx:a x|MULTI|EXEC",

	"WATCH, nothing changes":          "SET ctx:a 1|WATCH ctx:a|GET ctx:a|MULTI|SET ctx:a 2|EXEC|GET ctx:a",
	"WATCH, its key changes":          "SET ctx:a 1|WATCH ctx:a|GET ctx:a|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC|GET ctx:a",
	"WATCH, it changes inside":        "SET ctx:a 1|WATCH ctx:a|GET ctx:a|MULTI|SET ctx:a 2|straight:SET ctx:a x|EXEC|GET ctx:a|MULTI|SET ctx:a 3|EXEC",
	"WATCH, another changes":          "WATCH ctx:a|straight:SET free x|MULTI|SET ctx:a 2|EXEC",
	"WATCH of a free key":             "WATCH free|MULTI|SET ctx:a 2|EXEC|WATCH free|straight:SET free x|MULTI|SET ctx:a 3|EXEC|GET ctx:a",
	"WATCH, a blind write":            "WATCH ctx:a|MULTI|SET ctx:a 2|GET ctx:a|EXEC|MULTI|SET ctx:a 3|EXEC|GET ctx:a",
	"WATCH, only reads":               "SET ctx:a 1|WATCH ctx:a|MULTI|GET ctx:a|EXEC|SET ctx:a 2|WATCH ctx:a|straight:SET ctx:a x|MULTI|GET ctx:a|EXEC|GET ctx:a",
	"WATCH, reads and writes":         "WATCH ctx:a|GET ctx:b|MULTI|GET ctx:c|SET ctx:a 1|SET ctx:b 1|EXEC|SET ctx:c 1|SET ctx:b 1",
	"WATCH, its own write":            "WATCH ctx:a|SET ctx:a 1|MULTI|SET ctx:a 2|EXEC|GET ctx:a",
	"WATCH, its own write beside":     "WATCH ctx:a|SET ctx:b 1|GET ctx:b|MULTI|SET ctx:a 2|EXEC|GET ctx:a",
	"WATCH, its own write, pipelined": "WATCH ctx:a|GET ctx:b|GET free|SET ctx:b 1|LRANGE ctx:l 0 -1|RPUSH ctx:l x|SET ctx:b|MULTI|SET ctx:a 2|EXEC",
	"WATCH, UNWATCH":                  "WATCH ctx:a|UNWATCH|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, DISCARD":                  "WATCH ctx:a|MULTI|SET ctx:a 0|DISCARD|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, aborted":                  "WATCH ctx:a|MULTI|SET ctx:a|EXEC|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, aborted, guarded":         "WATCH ctx:a|MULTI|SET ctx:a 1|NONSENSE|EXEC|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, EXEC without MULTI":       "WATCH ctx:a|EXEC|DISCARD|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, UNWATCH with an argument": "WATCH ctx:a|UNWATCH x|SET ctx:b 1|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC",
	"WATCH, EXEC with an argument":    "WATCH ctx:a|EXEC x|straight:SET ctx:a x|MULTI|SET ctx:a 2|EXEC|GET ctx:a",
	"WATCH without keys":              "WATCH|SET ctx:a 1|MULTI|SET ctx:a 2|EXEC",
	"SELECT of no number":             "MULTI|SELECT 1|SELECT +0|SET free 1|EXEC|GET free|SELECT 0|GET free",
	"WATCH, a hold that has ended":    "ZCARD ctx:z|BZPOPMIN ctx:z ctx:y 0.01|WATCH ctx:a|MULTI|ZREM ctx:z a|EXEC|ZADD ctx:z 1 a|COPY ctx:a ctx:z",
	"lists of keys":                   "SET ctx:a 1|GET ctx:a|MULTI|KEYS *|GET ctx:a|SET ctx:a 2|RANDOMKEY|SCAN 0 COUNT 100|PUBSUB CHANNELS|EXEC|GET ctx:a|SET ctx:a 3",
	"lists of keys beside reads":      "SET ctx:a 1|MULTI|KEYS *|GET ctx:a|RANDOMKEY|KEYS none|EXEC|SET ctx:a 2|WATCH ctx:a|MULTI|KEYS *|GET ctx:a|EXEC",
	"WATCH, nested":                   "WATCH ctx:a|MULTI|MULTI|SET ctx:a 1|WATCH free|EXEC",
	"WATCH, not guarded":              "WATCH free|MULTI|SET free 1|INCR free|EXEC|WATCH free|straight:SET free x|MULTI|SET free 1|EXEC|GET free",
	"WATCH, SELECT":                   "WATCH free|MULTI|SELECT 2|SET free 1|EXEC|GET free|WATCH ctx:a|SET ctx:a 1|MULTI|SET ctx:a 2|EXEC",
	"WATCH, RESET":                    "WATCH ctx:a|MULTI|SET ctx:a 1|RESET|EXEC|EXISTS ctx:a",
	"WATCH, run-time errors":          "SET ctx:a x|WATCH ctx:a|MULTI|INCR ctx:a|SET ctx:b 1|EXEC",
}

// talk sends a conversation, and returns what is heard.
func talk(t *testing.T, addr, protocol string, straight *redis.Client, lines string, pipelined bool) (heard []string) {
	t.Helper()
	conn := greet(t, addr, protocol)
	sent := 0
	hear := func() {
		for ; sent > 0; sent-- {
			heard = append(heard, string(conn.ReadReply()))
		}
	}
	var block strings.Builder
	flush := func() {
		if block.Len() > 0 {
			conn.Send(block.String())
			block.Reset()
		}
	}
	for line := range strings.SplitSeq(lines, "|") {
		if words, ok := strings.CutPrefix(line, "straight:"); ok {
			flush()
			hear()
			var args []any
			for _, word := range strings.Fields(words) {
				args = append(args, word)
			}
			if err := straight.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		words := strings.Fields(line)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "$", " ")
		}
		block.WriteString(harness.Encode(words...))
		sent++
		if !pipelined {
			flush()
			hear()
		}
	}
	flush()
	hear()
	_ = conn.Close()
	return heard
}

func TestTransactionsSoundAsAtRedis(t *testing.T) {
	t.Parallel()
	direct, behind := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	straight, straightBehind := direct.Client(), behind.Client()
	for name, lines := range transactions {
		for _, protocol := range []string{"2", "3"} {
			for _, pipelined := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, RESP%s, pipelined %v", name, protocol, pipelined), func(t *testing.T) {
					empty(t, direct)
					empty(t, behind)
					want := talk(t, direct.Addr, protocol, straight, lines, pipelined)
					got := talk(t, proxy.Addr, protocol, straightBehind, lines, pipelined)
					for i := range want {
						if got[i] != want[i] {
							t.Fatalf("reply %d of %.300s: got %.300q, want %.300q", i, lines, got[i], want[i])
						}
					}
					if held := keysLike(t, straightBehind, "fence-proxy:*:h"); len(held) > 0 && !strings.Contains(name, "read") {
						harness.Eventually(t, 0, func() bool { return len(keysLike(t, straightBehind, "fence-proxy:*:h")) == 0 }, "no session is held")
					}
				})
			}
		}
	}
}

func keysLike(t *testing.T, client *redis.Client, pattern string) []string {
	t.Helper()
	keys, err := client.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A transaction may be cut anywhere: what the proxy holds of it, and what it has asked Redis about, differs.
func TestATransactionMayComeInPieces(t *testing.T) {
	t.Parallel()
	direct, behind := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	for _, lines := range []string{
		"MULTI|SET free 1|SET ctx:a 1|GET ctx:b|INCR ctx:a|EXEC|GET ctx:a",
		"MULTI|SET free 1|SET ctx:a|GET ctx:b|INCR ctx:a|EXEC|GET ctx:a",
		"WATCH ctx:a|MULTI|SET free 1|SET ctx:a 1|GET ctx:b|INCR ctx:a|EXEC|GET ctx:a",
		"WATCH free|MULTI|SET free 1|INCR free|EXEC|GET free",
	} {
		var all string
		n := 0
		for line := range strings.SplitSeq(lines, "|") {
			all += harness.Encode(strings.Fields(line)...)
			n++
		}
		for range 40 {
			empty(t, direct)
			empty(t, behind)
			at := []int{0, rand.IntN(len(all)), rand.IntN(len(all)), len(all)}
			if at[1] > at[2] {
				at[1], at[2] = at[2], at[1]
			}
			var heard [2][]byte
			for i, addr := range []string{direct.Addr, proxy.Addr} {
				conn := harness.Dial(t, addr)
				for j := range 3 {
					conn.Send(all[at[j]:at[j+1]])
					time.Sleep(2 * time.Millisecond) // so that it comes in three pieces; the replies are the same if not
				}
				for range n {
					reply, err := conn.Read()
					if err != nil {
						t.Fatalf("%s cut at %v: %v after %q", lines, at, err, heard[i])
					}
					heard[i] = append(heard[i], reply...)
				}
				_ = conn.Close()
			}
			if !bytes.Equal(heard[0], heard[1]) {
				t.Fatalf("%s cut at %v: got %q, want %q", lines, at, heard[1], heard[0])
			}
		}
	}
}

// increment adds one to a counter by read and transaction, again and again until it is applied.
func increment(ctx context.Context, client *redis.Client, key string, watch bool) error {
	for {
		err := incrementOnce(ctx, client, key, watch)
		var refusal redis.Error
		switch {
		case err == nil:
			return nil
		case errors.Is(err, redis.TxFailedErr):
		case errors.As(err, &refusal) && (strings.HasPrefix(refusal.Error(), "FENCED ") || strings.HasPrefix(refusal.Error(), "LOCKED ")):
		default:
			return err
		}
	}
}

func incrementOnce(ctx context.Context, client *redis.Client, key string, watch bool) error {
	write := func(tx interface {
		Get(context.Context, string) *redis.StringCmd
		TxPipelined(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error)
	},
	) error {
		n, err := tx.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key, n+1, 0)
			p.Set(ctx, key+":copy", n+1, 0)
			return nil
		})
		return err
	}
	if watch {
		return client.Watch(ctx, func(tx *redis.Tx) error { return write(tx) }, key)
	}
	conn := client.Conn() // the read and the write of one owner
	defer conn.Close()
	return write(conn)
}

func TestTransactionsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	const clients, each = 6, 20
	for _, watch := range []bool{false, true} {
		t.Run(fmt.Sprintf("WATCH %v", watch), func(t *testing.T) {
			server := harness.StartRedis(t)
			proxies := []*harness.Proxy{
				harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 20s")}),
				harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 20s")}),
			}
			var work sync.WaitGroup
			for i := range clients {
				client := proxies[i%2].Client()
				work.Go(func() {
					for range each {
						if err := increment(t.Context(), client, "ctx:n", watch); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			work.Wait()
			wantValue(t, server, "ctx:n", strconv.Itoa(clients*each))
			wantValue(t, server, "ctx:n:copy", strconv.Itoa(clients*each))
		})
	}
}

// begin sends the commands of a transaction, each by itself without EXEC, which exec does, or all at once
// with it. What answered returns comes before EXEC's reply.
func begin(conn *harness.RawConn, p *party, interactive bool, commands ...string) (exec func() (answered func())) {
	if !interactive {
		return func() func() {
			block := harness.Encode("MULTI")
			for _, command := range commands {
				block += harness.Encode(strings.Fields(command)...)
			}
			conn.Send(block + harness.Encode("EXEC"))
			return func() {
				p.hears("OK")
				for range commands {
					p.hears("QUEUED")
				}
			}
		}
	}
	p.does("OK", "MULTI")
	for _, command := range commands {
		p.does("QUEUED", strings.Fields(command)...)
	}
	return func() func() {
		p.sends("EXEC")
		return func() {}
	}
}

// Case 52.
func TestATransactionWithAStaleWriteAppliesNothing(t *testing.T) {
	t.Parallel()
	for _, interactive := range []bool{false, true} {
		for _, watch := range []bool{false, true} {
			for _, fence := range fences {
				t.Run(fmt.Sprintf("interactive %v, WATCH %v, %s", interactive, watch, fence.name), func(t *testing.T) {
					server := harness.StartRedis(t)
					proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
					record := recordOf(t, server, "ctx:s")
					a, conn := connect(t, "A", proxy.Addr)
					b, _ := connect(t, "B", proxy.Addr)
					if watch {
						a.does("OK", "WATCH", "free")
					}
					a.does(nil, "GET", "ctx:s")
					fence.place(a)
					exec := begin(conn, a, interactive, "SET free 1", "SET ctx:other 1", "SET ctx:s stale", "GET ctx:s")
					record.loses(record.hold) // as if the lease had ended
					b.does(nil, "GET", "ctx:s")
					exec()()
					a.hearsError("FENCED")
					for _, key := range []string{"free", "ctx:other", "ctx:s"} {
						wantValue(t, server, key, "")
					}
					b.does("OK", "SET", "ctx:s", "B's")
					a.does("B's", "GET", "ctx:s") // told once
					begin(conn, a, interactive, "SET free 1", "SET ctx:other 1", "APPEND ctx:s ,A's")()()
					a.hears([]any{"OK", "OK", int64(len("B's,A's"))})
				})
			}
		}
	}
}

func TestATransactionWaitsForAHolder(t *testing.T) {
	t.Parallel()
	for _, interactive := range []bool{false, true} {
		for _, watch := range []bool{false, true} {
			for _, commands := range [][]string{{"SET free 1", "SET ctx:s x"}, {"GET free", "GET ctx:s"}, {"GET ctx:s", "SET ctx:r 1"}} {
				t.Run(fmt.Sprintf("interactive %v, WATCH %v, %s", interactive, watch, commands), func(t *testing.T) {
					server := harness.StartRedis(t)
					patient := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
					hasty := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 50ms")})
					record := recordOf(t, server, "ctx:s")
					holder, _ := connect(t, "holder", patient.Addr)
					holder.does(nil, "GET", "ctx:s")

					a, conn := connect(t, "A", hasty.Addr)
					if watch {
						a.does("OK", "WATCH", "other")
					}
					begin(conn, a, interactive, commands...)()()
					a.hearsError("LOCKED")
					wantValue(t, server, "free", "")
					wantValue(t, server, "ctx:r", "")
					record.hasWaiters(0)

					b, conn := connect(t, "B", patient.Addr)
					if watch {
						b.does("OK", "WATCH", "other")
					}
					answered := begin(conn, b, interactive, commands...)()
					record.hasWaiters(1)
					holder.does("OK", "SET", "ctx:s", "holder's")
					answered()
					reply := b.reply()
					if _, ok := reply.([]any); !ok {
						t.Fatalf("EXEC: %v", reply)
					}
					if strings.Contains(fmt.Sprint(commands), "GET ctx:s") {
						if !strings.Contains(fmt.Sprint(reply), "holder's") {
							t.Fatalf("EXEC has read %v", reply)
						}
						if record.holder() == "" {
							t.Fatal("it was no read")
						}
						b.does("OK", "SET", "ctx:s", "y")
					}
					record.becomesFree()
				})
			}
		}
	}
}

// A transaction that waits is still under its client's WATCH.
func TestAWatchStandsWhileItsTransactionWaits(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	straight := server.Client()
	for _, commands := range [][]string{{"SET ctx:s x"}, {"GET ctx:s"}, {"GET ctx:s", "SET ctx:r 1"}} {
		t.Run(fmt.Sprint(commands), func(t *testing.T) {
			empty(t, server)
			holder, _ := connect(t, "holder", proxy.Addr)
			holder.does(nil, "GET", "ctx:s")
			a, conn := connect(t, "A", proxy.Addr)
			a.does("OK", "WATCH", "other")
			answered := begin(conn, a, true, commands...)()
			recordOf(t, server, "ctx:s").hasWaiters(1)
			straight.Set(t.Context(), "other", "changed", 0)
			holder.does("OK", "SET", "ctx:s", "holder's")
			answered()
			a.hears(nil)
			recordOf(t, server, "ctx:s").becomesFree()
			wantValue(t, server, "ctx:s", "holder's")
		})
	}
}

// What a tool has read in a transaction it writes in another.
func TestAReadInATransactionBeginsASequence(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("session: ctx:<s>:*", "wait: 20s")})
	a, connA := connect(t, "A", proxy.Addr)
	b, connB := connect(t, "B", proxy.Addr)
	begin(connA, a, false, "GET ctx:t:checkpoint", "GET ctx:t:writes")()()
	a.hears([]any{nil, nil})
	answered := begin(connB, b, false, "GET ctx:t:writes")() // waits
	begin(connA, a, false, "SET ctx:t:writes t1", "EXPIRE ctx:t:writes 3600")()()
	a.hears([]any{"OK", int64(1)})
	answered()
	b.hears([]any{"t1"})
	begin(connB, b, false, "SET ctx:t:writes t1,t2", "EXPIRE ctx:t:writes 3600")()()
	b.hears([]any{"OK", int64(1)})
	wantValue(t, server, "ctx:t:writes", "t1,t2")
}

func TestWhatATransactionReadsBesideItsWritesGoesStale(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("session: ctx:<s>:*", "wait: 20s")})
	for _, interactive := range []bool{false, true} {
		for name, commands := range map[string][]string{
			"beside":           {"SET ctx:t:status busy", "GET ctx:t:history"},
			"behind":           {"SET ctx:t:history x", "GET ctx:t:history"},
			"another session":  {"SET ctx:other:history x", "GET ctx:t:history"},
			"before, and kept": {"GET ctx:t:history", "SET ctx:t:status busy"},
		} {
			t.Run(fmt.Sprintf("%s, interactive %v", name, interactive), func(t *testing.T) {
				empty(t, server)
				record := recordOf(t, server, "t")
				a, conn := connect(t, "A", proxy.Addr)
				b, _ := connect(t, "B", proxy.Addr)
				begin(conn, a, interactive, commands...)()()
				if _, ok := a.reply().([]any); !ok {
					t.Fatal("EXEC failed")
				}
				record.loses(record.hold) // if it has one
				b.sends("SET", "ctx:t:history", "B's")
				b.hears("OK")
				a.fails("FENCED", "SET", "ctx:t:history", "stale")
				wantValue(t, server, "ctx:t:history", "B's")

				// With nobody in between, the write goes through.
				begin(conn, a, interactive, commands...)()()
				a.reply()
				a.does("OK", "SET", "ctx:t:history", "A's")
			})
		}
		t.Run(fmt.Sprintf("what is written behind does not, interactive %v", interactive), func(t *testing.T) {
			empty(t, server)
			a, conn := connect(t, "A", proxy.Addr)
			b, _ := connect(t, "B", proxy.Addr)
			begin(conn, a, interactive, "GET ctx:t:history", "SET ctx:t:history x")()()
			a.hears([]any{nil, "OK"})
			b.does("OK", "SET", "ctx:t:history", "B's")
			a.does("OK", "SET", "ctx:t:history", "blind") // as after SET and SET
		})
	}
}

func TestTransactionsOnSeveralSessionsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxies := []*harness.Proxy{
		harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 20s")}),
		harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 20s")}),
	}
	const clients, rounds = 6, 30
	var work sync.WaitGroup
	for i := range clients {
		client := proxies[i%2].Client(func(o *redis.Options) { o.PoolSize = 1 })
		work.Go(func() {
			for range rounds {
				keys := []string{"ctx:1", "ctx:2", "ctx:3"}
				rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
					p.Incr(t.Context(), keys[0])
					p.Incr(t.Context(), "free")
					p.Incr(t.Context(), keys[1])
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	wantValue(t, server, "free", strconv.Itoa(clients*rounds))
	sum := 0
	for _, key := range []string{"ctx:1", "ctx:2", "ctx:3"} {
		n, err := server.Client().Get(t.Context(), key).Int()
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum != 2*clients*rounds {
		t.Errorf("%d increments are left of %d", sum, 2*clients*rounds)
	}
}

func TestWhatCannotBeInAGuardedTransaction(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	large := strings.Repeat("x", 33<<20)
	for name, commands := range map[string][][]string{
		"a reserved key":                {{"SET", "ctx:s", "v"}, {"DEL", "fence-proxy:{ctx:s}:t"}},
		"another database before":       {{"SELECT", "1"}, {"SET", "ctx:s", "v"}},
		"another database behind":       {{"SET", "ctx:s", "v"}, {"SELECT", "1"}},
		"a subscription":                {{"SET", "ctx:s", "v"}, {"SUBSCRIBE", "channel"}},
		"too much":                      {{"SET", "ctx:s", large}, {"SET", "free", large}},
		"too much before it is guarded": {{"SET", "free", large}, {"SET", "free", large}, {"SET", "ctx:s", "v"}},
	} {
		for _, watch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, WATCH %v", name, watch), func(t *testing.T) {
				client, conn := connect(t, "client", proxy.Addr)
				if watch {
					client.does("OK", "WATCH", "other")
				}
				block := harness.Encode("MULTI")
				for _, command := range commands {
					block += harness.Encode(command...)
				}
				conn.Send(block + harness.Encode("SET", "free", "2") + harness.Encode("EXEC") + harness.Encode("EXEC"))
				client.hears("OK")
				for range commands[1:] {
					client.hears("QUEUED")
				}
				client.hearsError("FENCEDENIED")
				client.hears("QUEUED")
				client.hearsError("EXECABORT")
				client.hearsError("ERR") // EXEC without MULTI
				if n := server.Client().DBSize(t.Context()).Val(); n > 0 {
					t.Fatalf("the transaction left %d keys", n)
				}
				client.does("OK", "MULTI")
				client.does("QUEUED", "SET", "free", "3")
				client.does([]any{"OK"}, "EXEC")
				client.does("OK", "SET", "ctx:s", "v")
				client.does("v", "GET", "ctx:s")
				empty(t, server)
			})
		}
	}
}

// Redis refuses what it has no memory for when it is queued. That it has some again at EXEC changes nothing.
func TestACommandThatWasRefusedWhenQueuedAbortsTheTransaction(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	straight := server.Client()
	for _, watch := range []bool{false, true} {
		for _, first := range []string{"free", "ctx:a"} {
			t.Run(fmt.Sprintf("WATCH %v, %s first", watch, first), func(t *testing.T) {
				client, _ := connect(t, "client", proxy.Addr)
				client.does("OK", "SET", "ctx:s", "v") // its scripts are loaded, and its connection is made
				if watch {
					client.does("OK", "WATCH", "other")
					client.does("OK", "SET", "ctx:s", "v")
				}
				client.does("OK", "MULTI")
				straight.ConfigSet(t.Context(), "maxmemory", "1")
				client.fails("OOM", "SET", first, "1")
				straight.ConfigSet(t.Context(), "maxmemory", "0")
				client.does("QUEUED", "SET", "ctx:b", "1")
				client.fails("EXECABORT", "EXEC")
				wantValue(t, server, first, "")
				wantValue(t, server, "ctx:b", "")
				client.does("v", "GET", "ctx:s")
			})
		}
	}
}

// Without MULTI, the command in a block would be carried out by itself.
// While a script keeps Redis busy, a transaction is refused in Redis's own words and leaves nothing behind.
func TestATransactionMeetsABusyRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding())
	for _, c := range []struct{ watch, more bool }{{}, {more: true}, {watch: true, more: true}} {
		p := w.meet(t, fmt.Sprintf("client %+v", c), "2")
		key := fmt.Sprintf("ctx:%t:%t", c.watch, c.more)
		if c.watch {
			p.says(1, []string{"WATCH", "ctx:watched"})
		}
		p.says(1, []string{"MULTI"})
		p.says(1, []string{"INCR", key})
		var scripts []*harness.RawConn
		for _, server := range []*harness.Redis{w.straight, w.behind} {
			if err := server.Client().ConfigSet(t.Context(), "lua-time-limit", "10").Err(); err != nil {
				t.Fatal(err)
			}
			script := harness.Dial(t, server.Addr)
			script.Send(harness.Encode("EVAL", "while true do end", "0"))
			scripts = append(scripts, script)
			harness.Eventually(t, 0, func() bool {
				err := server.Client().Ping(t.Context()).Err()
				return err != nil && strings.HasPrefix(err.Error(), "BUSY ")
			}, "Redis is busy")
		}
		if c.more {
			p.says(1, []string{"INCR", key})
		}
		p.says(1, []string{"EXEC"})
		for i, server := range []*harness.Redis{w.straight, w.behind} {
			if err := server.Client().ScriptKill(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			_, _ = scripts[i].Read()
		}
		p.says(4, []string{"EXISTS", key}, []string{"MULTI"}, []string{"INCR", key}, []string{"EXEC"})
	}
}

// What was queued may not be carried out any more.
func TestATransactionMeetsARedisThatHasChanged(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding())
	both := func(args ...any) {
		for _, server := range []*harness.Redis{w.straight, w.behind} {
			if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	both("CONFIG", "SET", "replica-serve-stale-data", "no")
	for _, c := range []struct {
		command      []string
		change, back []any
	}{
		{[]string{"INCR", "ctx:a"}, []any{"CONFIG", "SET", "min-replicas-to-write", "2"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{[]string{"GET", "ctx:a"}, []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		p := w.meet(t, c.command[0], "2")
		p.says(1, []string{"MULTI"})
		p.says(1, c.command)
		both(c.change...)
		p.says(1, []string{"EXEC"})
		p.says(3, []string{"MULTI"}, c.command, []string{"EXEC"})
		both(c.back...)
		p.says(4, []string{"GET", "ctx:a"}, []string{"MULTI"}, c.command, []string{"EXEC"})
		p.says(1, []string{"SET", "ctx:a", "1"})
	}
}

func TestAUserThatMayNotUseMultiWritesNothing(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	allow(t, server, "u", "+@all -multi ~* &*")
	for _, interactive := range []bool{true, false} {
		client, conn := connect(t, "client", proxy.Addr)
		client.does("OK", "AUTH", "u", "pw")
		client.fails("FENCEDOWN", "SET", "ctx:s", "unfenced")
		client.does(nil, "GET", "ctx:s")
		client.fails("FENCEDOWN", "SET", "ctx:s", "unfenced")
		if interactive {
			client.fails("NOPERM", "MULTI")
			client.fails("FENCEDOWN", "SET", "ctx:s", "unfenced")
			client.does(nil, "GET", "ctx:s")
			client.fails("ERR", "EXEC")
		} else {
			conn.Send(harness.Encode("MULTI") + harness.Encode("SET", "ctx:s", "unfenced") + harness.Encode("GET", "ctx:s") + harness.Encode("EXEC"))
			client.hearsError("NOPERM")
			client.hearsError("FENCEDOWN")
			client.hears(nil)
			client.hearsError("ERR")
		}
		wantValue(t, server, "ctx:s", "")
		_ = conn.Close()
	}
}

// What runs on a second connection runs as the same user, in the same database.
func TestWhatRunsBesideAWatchRunsAsTheClient(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	allow(t, server, "u", "+@all ~ctx:mine ~fence-proxy:* &*")
	for name, login := range map[string][]string{
		"AUTH":  {"AUTH", "u", "pw"},
		"HELLO": {"HELLO", "2", "AUTH", "u", "pw", "SETNAME", "n"},
	} {
		t.Run(name, func(t *testing.T) {
			empty(t, server)
			client, _ := connect(t, "client", proxy.Addr)
			client.sends(login...)
			if isError(client.reply(), "ERR") {
				t.Fatal("not logged in")
			}
			client.does("OK", "SELECT", "1")
			client.does("OK", "WATCH", "ctx:mine")
			client.fails("NOPERM", "SET", "ctx:other", "v")
			client.does("OK", "MULTI")
			client.fails("NOPERM", "SET", "ctx:other", "v")
			client.fails("EXECABORT", "EXEC")
			client.does("OK", "WATCH", "ctx:mine")
			client.does("OK", "SET", "ctx:mine", "v")
			client.does("OK", "MULTI")
			client.does("QUEUED", "SET", "ctx:mine", "w")
			client.does(nil, "EXEC") // it changed the key itself
			if v := server.Client(func(o *redis.Options) { o.DB = 1 }).Get(t.Context(), "ctx:mine").Val(); v != "v" {
				t.Errorf("database 1 has %q", v)
			}
			if !knows(t, server, "reset") {
				return
			}
			client.does("RESET", "RESET")
			client.does("OK", "WATCH", "ctx:mine")
			client.does("OK", "SET", "ctx:mine", "anybody's") // as the default user again
		})
	}
}

// The connection to Redis is cut in the middle of what Redis answers to a block: the outcome is not known,
// and what the client hears is no success.
func TestATransactionWhoseAnswerWasLostIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, interactive := range []bool{false, true} {
		for _, cutAt := range []int{0, 20, 50} {
			t.Run(fmt.Sprintf("interactive %v, cut at %d", interactive, cutAt), func(t *testing.T) {
				server := harness.StartRedis(t)
				relay := harness.StartRelay(t, server.Addr)
				proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: guarding()})
				client, conn := connect(t, "client", proxy.Addr)
				client.does("OK", "SET", "ctx:s", "before") // its connection is made
				block := harness.Encode("SET", "ctx:s", "x") + harness.Encode("GET", "ctx:s")
				if interactive {
					conn.Send(harness.Encode("MULTI") + block)
					client.hears("OK")
					client.hears("QUEUED")
					client.hears("QUEUED")
					block = ""
				} else {
					block = harness.Encode("MULTI") + block
				}
				cut := relay.CutAfterBytes(harness.ToClient, cutAt)
				conn.Send(block + harness.Encode("EXEC"))
				<-cut
				var heard []byte
				for {
					reply, err := conn.Read()
					heard = append(heard, reply...)
					if err != nil {
						break
					}
				}
				queued := "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
				if interactive {
					queued = ""
				}
				unfinished := !interactive && strings.HasPrefix(queued, string(heard)) // an error would be taken for a command's
				if !unfinished && !strings.HasPrefix(string(heard), queued+"-FENCEUNKNOWN") {
					t.Errorf("the client hears %q", heard)
				}
			})
		}
	}
}
