//go:build integration

package integration

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// acquires takes a session by FENCE.ACQUIRE and returns the grant, as clients pass it on.
func (p *party) acquires(key string, options ...string) string {
	p.t.Helper()
	p.sends(append([]string{"FENCE.ACQUIRE", key}, options...)...)
	return p.hearsGrant()
}

func (p *party) hearsGrant() string {
	p.t.Helper()
	grant, ok := p.reply().(int64)
	if !ok || grant <= 0 {
		p.t.Fatalf("%s gets no grant", p.name)
	}
	return strconv.FormatInt(grant, 10)
}

// asks sends a command that is answered by names and values.
func (p *party) asks(args ...string) map[string]any {
	p.t.Helper()
	p.sends(args...)
	return namesAndValues(p.t, p.reply())
}

func namesAndValues(t *testing.T, reply any) map[string]any {
	t.Helper()
	flat, ok := reply.([]any)
	if !ok || len(flat)%2 != 0 {
		t.Fatalf("no names and values: %v", reply)
	}
	m := map[string]any{}
	for i := 0; i < len(flat); i += 2 {
		m[fmt.Sprint(flat[i])] = flat[i+1]
	}
	return m
}

// noneOf returns the record of a key that no rule guards.
func noneOf(t *testing.T, server *harness.Redis, key string) *record {
	t.Helper()
	base := "fence-proxy:{(none):" + key + "}:"
	return &record{t: t, redis: server.Client(), token: base + "t", hold: base + "h", queue: base + "q"}
}

func TestAnAcquiredSessionIsTheConnectionsUntilItIsReleased(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"ctx:s", "unguarded"} {
		t.Run(key, func(t *testing.T) {
			proxies := startPair(t, guarding(longHolds...))
			a, _ := connect(t, "A", proxies.first.Addr)
			b, _ := connect(t, "B", proxies.second.Addr)
			grant := a.acquires(key)
			b.fails("LOCKED", "FENCE.ACQUIRE", key, "WAIT", "0")
			a.does(nil, "GET", key)
			a.does("OK", "SET", key, "1") // each is the grant's next write, and no read is used up
			a.does("OK", "SET", key, "2")
			a.does("OK", "MULTI")
			a.does("QUEUED", "GET", key)
			a.does("QUEUED", "APPEND", key, "3")
			a.does([]any{"2", int64(2)}, "EXEC")
			if got := a.asks("FENCE.INSPECT", key); got["stored_seq"] != int64(3) || fmt.Sprint(got["stored_grant"]) != grant {
				t.Errorf("the third write is stored as %v", got)
			}
			b.sends("FENCE.ACQUIRE", key, "WAIT", "30s")
			r := recordOf(t, proxies.redis, key)
			if key == "unguarded" {
				r = noneOf(t, proxies.redis, key)
			}
			r.hasWaiters(1)
			a.does(int64(1), "FENCE.RELEASE", key, grant)
			next := b.hearsGrant()
			if newer, _ := strconv.ParseUint(next, 10, 64); fmt.Sprint(newer) <= grant {
				t.Errorf("the next grant is %s, after %s", next, grant)
			}
			a.does(int64(0), "FENCE.RELEASE", key, grant)
			a.fails("FENCED", "FENCE.DO", grant, "SET", key, "stale")
			a.fails("FENCED", "FENCE.RENEW", key, grant)
			b.does("23", "GET", key)
			b.does("OK", "SET", key, "B's")
			wantValue(t, proxies.redis, key, "B's")
		})
	}
}

// A grant is not the connection's: it can be handed on, to another process behind another proxy, through a queue.
func TestAGrantIsHandedOnThroughAQueue(t *testing.T) {
	t.Parallel()
	const key = "ctx:job"
	proxies := startPair(t, guarding(longHolds...))
	a, process := spawn(t, "A", proxies.first.Addr)
	grant := a.acquires(key, "TTL", "1m")
	a.does("OK", "SET", key, "A's")
	a.does(int64(1), "RPUSH", "queue", grant)
	process.Kill()

	b, _ := spawn(t, "B", proxies.second.Addr)
	b.does([]any{"queue", grant}, "BLPOP", "queue", "5")
	c, _ := connect(t, "C", proxies.first.Addr)
	c.fails("LOCKED", "FENCE.ACQUIRE", key, "WAIT", "0")
	b.does("A's", "FENCE.DO", grant, "GET", key)
	b.does("OK", "FENCE.DO", grant, "SET", key, "B's")
	b.does(int64(1), "FENCE.RELEASE", key, grant)
	c.does("B's", "GET", key)
}

func TestAnyCommandIsDoneUnderAGrant(t *testing.T) {
	t.Parallel()
	const key, list = "ctx:s", "ctx:list"
	proxies := startPair(t, guarding(longHolds...))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	grant := a.acquires(key)
	b.does("OK", "FENCE.DO", grant, "SET", key, "1")
	b.does(int64(1), "FENCE.DO", grant, "EXPIRE", key, "100")
	b.does("OK", "FENCE.DO", grant, "MSET", key, "2", "unguarded beside", "x")
	b.does("2", "fence.do", grant, "eval", "return redis.call('get', KEYS[1])", "1", key)
	b.does(int64(3), "FENCE.DO", grant, "FENCE.ONCE", "id", "1m", "INCR", key)
	b.does(int64(3), "FENCE.ONCE", "id", "1m", "INCR", key)
	b.does("OK", "WATCH", "free")
	b.does("3", "FENCE.DO", grant, "GETSET", key, "4")
	b.does("OK", "MULTI")
	b.does("QUEUED", "SET", "free", "1")
	b.does([]any{"OK"}, "EXEC") // the WATCH still stood, and nothing has dirtied it

	other := a.acquires(list)
	b.sends("FENCE.DO", other, "BLPOP", list, "30")
	a.does(int64(1), "RPUSH", list, "x")
	b.hears([]any{list, "x"})
	a.does(int64(0), "LLEN", list)
}

func TestAStaleGrantDoesNothing(t *testing.T) {
	t.Parallel()
	const key, other = "ctx:s", "ctx:other"
	proxies := startPair(t, guarding(longHolds...))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	record := recordOf(t, proxies.redis, key)
	stale := a.acquires(key)
	a.does("OK", "SET", key, "before")
	record.loses(record.hold) // as if its lease had ended
	grant := b.acquires(key)
	for _, command := range [][]string{
		{"SET", key, "stale"},
		{"GET", key},
		{"EXPIRE", key, "100"},
		{"MSET", "free", "stale", key, "stale"},
		{"BLPOP", key, "1"},
		{"FENCE.ONCE", "id", "1000", "SET", key, "stale"},
	} {
		a.fails("FENCED", append([]string{"FENCE.DO", stale}, command...)...)
	}
	a.fails("FENCED", "FENCE.DO", grant, "SET", other, "another session's")
	a.fails("FENCED", "FENCE.DO", grant, "SET", "unguarded", "a session of its own")
	a.fails("FENCED", "GET", key) // A's connection stood under the stale one; it hears of it once
	a.fails("LOCKED", "FENCE.ACQUIRE", key, "WAIT", "0")
	b.does("before", "GET", key)
	wantValue(t, proxies.redis, key, "before")
	wantValue(t, proxies.redis, "free", "")
	wantValue(t, proxies.redis, other, "")
	wantValue(t, proxies.redis, "unguarded", "")
}

func TestAGrantIsRenewedByWhoPresentsIt(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, guarding(longHolds...))
	a, conn := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	record := recordOf(t, proxies.redis, key)
	grant := a.acquires(key, "TTL", "5000")
	_ = conn.Close()
	b.does(int64(60_000), "FENCE.RENEW", key, grant, "TTL", "1m")
	if left := record.redis.PTTL(t.Context(), record.hold).Val(); left < 30*time.Second || left > time.Minute {
		t.Errorf("%v are left of the lease", left)
	}
	if keep := record.redis.PTTL(t.Context(), record.token).Val(); keep < time.Minute {
		t.Errorf("the record goes in %v, before the lease", keep)
	}
	record.loses(record.hold) // its lease ends
	b.does(int64(5000), "FENCE.RENEW", key, grant, "TTL", "5s")
	c, _ := connect(t, "C", proxies.first.Addr)
	c.fails("LOCKED", "FENCE.ACQUIRE", key, "WAIT", "0")
	record.loses(record.hold)
	c.does("OK", "SET", key, "C's")
	b.fails("FENCED", "FENCE.RENEW", key, grant)
}

// What clients' own reads hold is theirs: nobody releases or renews it for knowing its grant.
func TestAGrantOfAReadIsNotForOthersToEnd(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	a.does(nil, "GET", key)
	grant := strconv.FormatUint(recordOf(t, server, key).grant(), 10)
	b.does(int64(0), "FENCE.RELEASE", key, grant)
	b.fails("FENCED", "FENCE.RENEW", key, grant)
	a.does("OK", "SET", key, "A's")
}

func TestAClientThatReadBeforeItAcquiresDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", key)
	grant := a.acquires(key, "WAIT", "0")
	a.does("OK", "SET", key, "1")
	a.does(int64(1), "FENCE.RELEASE", key, grant)
	a.does("1", "GET", key) // a sequence of its own again
	a.does("OK", "SET", key, "2")
}

func TestThoseWhoAcquireWaitInLineLikeAllOthers(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	c, leaver := connect(t, "C", proxy.Addr)
	d, _ := connect(t, "D", proxy.Addr)
	grant := a.acquires(line.key)
	b.sends("GET", line.key)
	line.hasWaiters(1)
	c.sends("FENCE.ACQUIRE", line.key)
	line.hasWaiters(2)
	d.sends("FENCE.ACQUIRE", line.key)
	line.hasWaiters(3)
	first := a.asks("FENCE.INSPECT", line.key)
	if first["waiting"] != int64(3) || len(first["waiters"].([]any)) != 3 {
		t.Errorf("in line: %v", first)
	}
	leaver.Reset()
	line.hasWaiters(2)
	a.does(int64(1), "FENCE.RELEASE", line.key, grant)
	b.hears(nil)
	b.does("OK", "SET", line.key, "B's")
	d.hearsGrant()
	d.does("B's", "GET", line.key)
}

// Two tasks on one connection: the one that waits must not keep the other from releasing what somebody waits for.
func TestARequestToAcquireGivesWayToAReleaseBehindIt(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	first, second := a.acquires("ctx:1"), b.acquires("ctx:2")
	b.sends("FENCE.ACQUIRE", "ctx:1", "WAIT", "10m")
	lineFor(t, server, "ctx:1").hasWaiters(1)
	a.sends("FENCE.ACQUIRE", "ctx:2", "WAIT", "10m")
	lineFor(t, server, "ctx:2").hasWaiters(1)
	a.sends("FENCE.RELEASE", "ctx:1", first)
	a.hearsError("LOCKED")
	a.hears(int64(1))
	b.hearsGrant()
	b.does(int64(1), "FENCE.RELEASE", "ctx:2", second)
}

func TestFenceWordsAreRefusedAsRedisRefusesCommands(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	a, conn := connect(t, "A", proxy.Addr)
	for command, want := range map[string]string{
		"fence.acquire":                           "ERR wrong number of arguments for 'fence.acquire' command",
		"FENCE.DO 5":                              "ERR wrong number of arguments for 'fence.do' command",
		"FENCE.DO 5 SET ctx:s":                    "ERR wrong number of arguments for 'set' command",
		"FENCE.DO x GET ctx:s":                    "ERR the grant is not an integer",
		"FENCE.DO 5 NOSUCH ctx:s":                 "ERR unknown command 'NOSUCH'",
		"FENCE.DO 5 PING":                         "FENCEDENIED ping touches no key",
		"FENCE.DO 5 WATCH ctx:s":                  "FENCEDENIED watch",
		"FENCE.DO 5 FENCE.DO 5 GET ctx:s":         "FENCEDENIED",
		"FENCE.ACQUIRE ctx:s TTL":                 "ERR syntax error",
		"FENCE.ACQUIRE ctx:s TTL 11m":             "ERR TTL must be between",
		"FENCE.ACQUIRE ctx:s WAIT -1":             "ERR WAIT must be between",
		"FENCE.ACQUIRE ctx:s WAIT soon":           "ERR WAIT is no time",
		"FENCE.ACQUIRE fence-proxy:{ctx:ctx:s}:t": "FENCEDENIED",
		"FENCE.NOSUCH":                            "ERR unknown command 'FENCE.NOSUCH'",
		"FENCE.LIST nosuch":                       "ERR no rule is named",
		"FENCE.ONCE id 1000 GET ctx:s":            "FENCEDENIED get",
		"FENCE.ONCE id 1000 BLPOP ctx:s 0":        "FENCEDENIED blpop",
		"FENCE.ONCE id 1000 EVAL x 1 ctx:s":       "FENCEDENIED eval",
		"FENCE.ONCE id 0 SET ctx:s v":             "ERR ttl must be between",
	} {
		a.sends(strings.Fields(command)...)
		if got := a.reply(); !strings.HasPrefix(fmt.Sprint(got), want) {
			t.Errorf("%s: %v, want %s …", command, got, want)
		}
	}
	for _, begin := range [][]string{{"SET", "ctx:s", "1"}, {"SET", "unguarded", "1"}} {
		a.does("OK", "MULTI")
		a.does("QUEUED", begin...)
		if got := a.fails("ERR", "FENCE.HELP"); got != "ERR Command not allowed inside a transaction" {
			t.Error(got)
		}
		a.fails("EXECABORT", "EXEC")
	}
	wantValue(t, server, "ctx:s", "")
	a.does([]any{"subscribe", "news", int64(1)}, "SUBSCRIBE", "news")
	a.fails("ERR Can't execute 'fence.help':", "FENCE.HELP")
	a.does([]any{"unsubscribe", "news", int64(0)}, "UNSUBSCRIBE", "news")
	conn.Do("HELLO", "3")
	if help := string(conn.Do("fence.HELP")); !strings.HasPrefix(help, "*") || !strings.Contains(help, "FENCE.ACQUIRE") {
		t.Errorf("help: %q", help)
	}
	if inspect := string(conn.Do("FENCE.INSPECT", "ctx:s")); !strings.HasPrefix(inspect, "%10\r\n") || !strings.Contains(inspect, "$6\r\nholder\r\n_\r\n") {
		t.Errorf("inspect in RESP3: %q", inspect)
	}
	a.does([]any{"subscribe", "news", int64(1)}, "SUBSCRIBE", "news") // in RESP3 that takes nothing away
	a.acquires("ctx:s")
}

// In one pipeline, each reply in its place.
func TestFenceWordsGoInPipelines(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, Protocol: protocol})
		t.Cleanup(func() { _ = client.Close() })
		key := fmt.Sprint("ctx:", protocol)
		replies, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Set(t.Context(), "free", "1", 0)
			p.Do(t.Context(), "FENCE.ACQUIRE", key)
			p.Set(t.Context(), key, "2", 0)
			p.Do(t.Context(), "FENCE.ONCE", "id", 10_000, "INCR", key)
			p.Get(t.Context(), "free")
			p.Do(t.Context(), "FENCE.INSPECT", key)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := replies[3].(*redis.Cmd).Val(); got != int64(3) {
			t.Errorf("INCR once: %v", got)
		}
		if got := replies[4].(*redis.StringCmd).Val(); got != "1" {
			t.Errorf("GET: %q", got)
		}
	}
}

func TestHoldsAreShown(t *testing.T) {
	t.Parallel()
	proxies := startPair(t, guarding(longHolds...))
	a, conn := connect(t, "A", proxies.first.Addr)
	conn.Do("CLIENT", "SETNAME", "worker-1")
	b, _ := connect(t, "B", proxies.second.Addr)
	a.does(nil, "GET", "ctx:read")
	b.acquires("job:x")
	holders := func(rule ...string) map[string]any {
		t.Helper()
		list := a.asks(append([]string{"FENCE.LIST"}, rule...)...)
		if list["complete"] != int64(1) {
			t.Error("there are more")
		}
		found := map[string]any{}
		for _, hold := range list["holds"].([]any) {
			h := namesAndValues(t, hold)
			found[fmt.Sprint(h["rule"], " ", h["session"])] = namesAndValues(t, h["holder"])["name"]
		}
		return found
	}
	if got := holders(); !reflect.DeepEqual(got, map[string]any{"ctx ctx:read": "worker-1", "(none) job:x": ""}) {
		t.Errorf("held: %v", got)
	}
	if got := holders("(none)"); !reflect.DeepEqual(got, map[string]any{"(none) job:x": ""}) {
		t.Errorf("held: %v", got)
	}
	read := a.asks("FENCE.EXPLAIN", "ctx:read")
	if read["rule"] != "ctx" || read["mode"] != "lock" || !strings.Contains(fmt.Sprint(read["acts_as"]), "holds the session under grant") {
		t.Errorf("explained: %v", read)
	}
	job := b.asks("FENCE.EXPLAIN", "job:x")
	if job["rule"] != "(none)" || !strings.Contains(fmt.Sprint(job["acts_as"]), "which this connection has acquired") {
		t.Errorf("explained: %v", job)
	}
	if got := a.asks("FENCE.EXPLAIN", "job:x"); !strings.HasPrefix(fmt.Sprint(got["acts_as"]), "nobody") {
		t.Errorf("explained: %v", got)
	}
}

func TestWhatModeAutoHasLearnedIsExplained(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("mode: auto")})
	a, _ := connect(t, "A", proxy.Addr)
	for n := range 20 {
		a.sends("GET", "ctx:s")
		a.reply()
		a.does("OK", "SET", "ctx:s", fmt.Sprint(n))
		a.does(int64(0), "EXISTS", "ctx:other")
	}
	locks := map[any]any{}
	for _, kind := range a.asks("FENCE.EXPLAIN", "ctx:s")["learned"].([]any) {
		k := namesAndValues(t, kind)
		locks[k["command"]] = k["locks"]
	}
	if !reflect.DeepEqual(locks, map[any]any{"get": int64(1), "exists": int64(0)}) {
		t.Errorf("learned: %v", locks)
	}
	b, conn := connect(t, "B", proxy.Addr)
	conn.Do("CLIENT", "SETNAME", "another")
	if learned := b.asks("FENCE.EXPLAIN", "ctx:s")["learned"].([]any); len(learned) != 0 {
		t.Errorf("learned of another client: %v", learned)
	}
}

func TestAnOperatorBreaksAHold(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, guarding(longHolds...))
	allow(t, proxies.redis, "agent", "+@all -@admin ~* &*")
	allow(t, proxies.redis, "operator", "+@admin +@transaction +ping")
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	c, _ := connect(t, "C", proxies.second.Addr)
	b.does("OK", "AUTH", "agent", "pw")
	c.does("OK", "AUTH", "operator", "pw")
	a.does(nil, "GET", key)
	b.fails("NOPERM", "FENCE.BREAK", key)
	b.fails("LOCKED", "FENCE.ACQUIRE", key, "WAIT", "0")
	c.does(int64(1), "FENCE.BREAK", key)
	proxies.second.WaitLog(t, "hold broken by FENCE.BREAK")
	if !strings.Contains(proxies.second.Logs(), "by.user=operator") {
		t.Error("the log does not say who")
	}
	c.does(int64(0), "FENCE.BREAK", key)
	b.acquires(key, "WAIT", "0")
	a.fails("FENCED", "SET", key, "stale")
	wantValue(t, proxies.redis, key, "")
}

// Whoever may not touch a key at Redis gets no lock on it.
func TestALockNeedsARightToItsKey(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	allow(t, server, "agent", "+@all -@admin ~ctx:mine ~fence-proxy:* &*")
	allow(t, server, "reader", "+@all -@admin %R~ctx:* ~fence-proxy:* &*") // before 7.0 none to any key of ctx:
	a, _ := connect(t, "A", proxy.Addr)
	a.does("OK", "AUTH", "agent", "pw")
	for _, command := range [][]string{
		{"FENCE.ACQUIRE", "ctx:theirs"},
		{"FENCE.RELEASE", "ctx:theirs", "5"},
		{"FENCE.RENEW", "ctx:theirs", "5"},
		{"FENCE.INSPECT", "job:theirs"},
		{"FENCE.EXPLAIN", "ctx:theirs"},
		{"FENCE.ONCE", "id", "1000", "SET", "ctx:theirs", "v"},
	} {
		a.fails("NOPERM", command...)
	}
	if got := recordOf(t, server, "ctx:theirs").grant(); got != 0 {
		t.Errorf("grant %d was issued", got)
	}
	grant := a.acquires("ctx:mine")
	a.does("OK", "FENCE.DO", grant, "SET", "ctx:mine", "v")
	a.does(int64(1), "FENCE.RELEASE", "ctx:mine", grant)
	b, _ := connect(t, "B", proxy.Addr)
	b.does("OK", "AUTH", "reader", "pw")
	grant = b.acquires("ctx:mine")
	b.does("v", "GET", "ctx:mine")
	b.fails("NOPERM", "FENCE.DO", grant, "SET", "ctx:mine", "w")
	wantValue(t, server, "ctx:mine", "v")
}

func TestWhoHasNotLoggedInGetsNoLock(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	needs(t, server, "reset")
	allow(t, server, "fence", "+@all ~* &*")
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "guest", "on", ">pw", "-@all").Err(); err != nil {
		t.Fatal(err)
	}
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	if err := server.Client().ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	a, _ := connect(t, "A", proxy.Addr)
	a.does("RESET", "RESET")
	a.fails("NOAUTH", "FENCE.ACQUIRE", "ctx:s")
	a.fails("NOAUTH", "FENCE.LIST")
	a.fails("NOAUTH", "FENCE.BREAK", "ctx:s")
	a.fails("NOAUTH", "FENCE.ONCE", "id", "1000", "SET", "free", "v")
	a.fails("NOAUTH", "FENCE.DO", "5", "SET", "ctx:s", "v")
}

func TestAProxyWithoutRulesGivesGrants(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: "rules: []\n"})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	grant := a.acquires("leader", "TTL", "1h")
	b.sends("FENCE.ACQUIRE", "leader", "WAIT", "1m")
	noneOf(t, server, "leader").hasWaiters(1)
	a.does("OK", "MULTI")
	a.does("QUEUED", "SET", "leader", "A")
	a.does([]any{"OK"}, "EXEC")
	a.does(int64(1), "FENCE.RELEASE", "leader", grant)
	next := b.hearsGrant()
	a.fails("FENCED", "FENCE.DO", grant, "SET", "leader", "A again")
	a.does("A", "FENCE.DO", next, "GET", "leader")
	b.does("OK", "SET", "leader", "B")
}

// Whatever the words make at Redis is under the reserved prefix, and goes away by itself.
func TestWhatTheWordsMakeGoesAway(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	direct := server.Client()
	grant := a.acquires("ctx:s", "TTL", "10s")
	b.sends("FENCE.ACQUIRE", "ctx:s", "WAIT", "1m")
	recordOf(t, server, "ctx:s").hasWaiters(1)
	a.acquires("job")
	a.does(int64(0), "FENCE.ONCE", "id", "20s", "DEL", "no such key")
	a.does("OK", "FENCE.ONCE", "id", "20s", "SET", "ctx:s", "v", "PX", "10000")
	a.does(int64(10_000), "FENCE.RENEW", "ctx:s", grant, "TTL", "10s")
	a.fails("FENCED", "FENCE.DO", "5", "SET", "job 2", "v")
	for _, key := range direct.Keys(t.Context(), "*").Val() {
		if ttl := direct.PTTL(t.Context(), key).Val(); !strings.HasPrefix(key, "fence-proxy:") && key != "ctx:s" || ttl <= 0 {
			t.Errorf("%s has a TTL of %v", key, ttl)
		}
	}
}

func TestAWriteIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"ctx:l", "unguarded"} {
		t.Run(key, func(t *testing.T) {
			proxies := startPair(t, guarding(longHolds...))
			a, _ := connect(t, "A", proxies.first.Addr)
			b, other := connect(t, "B", proxies.second.Addr)
			a.does(int64(2), "FENCE.ONCE", "id", "1m", "RPUSH", key, "x", "y")
			a.does(int64(2), "FENCE.ONCE", "id", "1m", "RPUSH", key, "x", "y")
			b.does(int64(2), "fence.once", "id", "60000", "rpush", key, "x", "y")
			b.fails("ERR FENCE.ONCE:", "FENCE.ONCE", "id", "1m", "RPUSH", key, "z")
			a.fails("WRONGTYPE", "FENCE.ONCE", "failing", "1m", "INCR", key)
			a.does(int64(1), "DEL", key)
			a.does(int64(1), "FENCE.ONCE", "failing", "1m", "INCR", key) // nothing is kept of what failed
			for proto, null := range map[string]string{"2": "$-1\r\n", "3": "_\r\n"} {
				other.Do("HELLO", proto)
				for range 2 {
					if got := string(other.Do("FENCE.ONCE", "nil", "1m", "SET", key, "2", "NX")); got != null {
						t.Errorf("RESP%s: %q", proto, got)
					}
				}
			}
			wantValue(t, proxies.redis, key, "1")
		})
	}
}

// Whatever the protocol of who says it first, and of who says it again.
func TestTheReplyOfAWriteThatIsCarriedOutOnceIsRedissOwn(t *testing.T) {
	t.Parallel()
	behind := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding(longHolds...)})
	lacks := newLacking(t, behind)
	straight := map[string]*harness.RawConn{} // a Redis for each protocol
	for _, protocol := range []string{"2", "3"} {
		straight[protocol] = greet(t, harness.StartRedis(t).Addr, protocol)
	}
	for _, prefix := range []string{"ctx:", "unguarded:"} {
		for _, first := range []string{"2", "3"} {
			client := map[string]*harness.RawConn{"2": greet(t, proxy.Addr, "2"), "3": greet(t, proxy.Addr, "3")}
			for i, command := range []string{
				"ZADD @z 1.5 a 2 b -inf c 3.1 d", "ZADD @z INCR 0.1 a", "ZADD @z NX INCR 1 a", "ZINCRBY @z 1e20 b", "ZINCRBY @z inf d", "ZINCRBY @z 0.2 a",
				"ZPOPMIN @z", "ZPOPMAX @z 2", "ZPOPMIN @none", "ZPOPMIN @none 2", "ZMPOP 1 @z MIN COUNT 2", "ZMPOP 1 @none MIN", "ZADD @z 1 a",
				"SADD @s m", "SPOP @s", "SPOP @s", "SADD @s n", "SPOP @s 2", "SPOP @none 2",
				"RPUSH @l 1 2 3", "LPOP @l 2", "LPOP @none", "RPOP @none 2", "LMPOP 1 @l LEFT", "LMPOP 1 @none LEFT",
				"SET @k v GET", "INCRBYFLOAT @f 0.1", "HINCRBYFLOAT @h f 0.1", "BITFIELD @b OVERFLOW FAIL SET u8 0 255 INCRBY u8 0 1",
				"GETDEL @k", "GETDEL @k", "XADD @x 1-1 f v", "DEL @z @l @f",
			} {
				if lacks.any(t, [][]string{strings.Fields(command)}) {
					continue
				}
				args := strings.Fields(strings.ReplaceAll(command, "@", prefix+first+":"))
				want := map[string]string{}
				for protocol, conn := range straight {
					want[protocol] = string(conn.Do(args...))
				}
				once := append([]string{"FENCE.ONCE", fmt.Sprint(first, ":", i), "1m"}, args...)
				for _, protocol := range []string{first, "2", "3"} {
					if got := string(client[protocol].Do(once...)); got != want[protocol] {
						t.Errorf("%q, first said in RESP%s, in RESP%s: %q, want %q", args, first, protocol, got, want[protocol])
					}
				}
			}
		}
	}
}

// A write that was applied is not refused as stale when it is said again, and one that was not is.
func TestARepetitionIsNotRefusedAsStale(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, guarding(longHolds...))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	record := recordOf(t, proxies.redis, key)
	a.does(nil, "GET", key)
	a.does("OK", "FENCE.ONCE", "a1", "1m", "SET", key, "A's")
	b.does("A's", "GET", key)
	a.does("OK", "FENCE.ONCE", "a1", "1m", "SET", key, "A's") // B holds the session
	b.does("OK", "SET", key, "B's")
	a.does("B's", "GET", key)
	record.loses(record.hold)
	b.does("OK", "SET", key, "B's second")
	a.fails("FENCED", "FENCE.ONCE", "a2", "1m", "SET", key, "A's, stale")
	wantValue(t, proxies.redis, key, "B's second")
}

// The write is applied, and its reply is lost on the way: to the client, or to the proxy.
func TestARepetitionAfterALostConnectionGetsTheReply(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"ctx:n", "unguarded"} {
		t.Run(key, func(t *testing.T) {
			server := harness.StartRedis(t)
			behind := harness.StartRelay(t, server.Addr)
			first := harness.StartProxy(t, harness.ProxyOptions{Name: "first", Upstream: behind.URL(), ConfigYAML: guarding(longHolds...)})
			second := harness.StartProxy(t, harness.ProxyOptions{Name: "second", Redis: server, ConfigYAML: guarding(longHolds...)})
			before := harness.StartRelay(t, first.Addr)

			a, _ := connect(t, "A", before.Addr)
			a.does("PONG", "PING")
			cut := before.CutAfterBytes(harness.ToClient, 0)
			a.sends("FENCE.ONCE", "a", "1m", "INCRBY", key, "10")
			<-cut
			b, _ := connect(t, "B", second.Addr)
			b.does(int64(10), "FENCE.ONCE", "a", "1m", "INCRBY", key, "10")

			c, _ := connect(t, "C", first.Addr)
			c.does(int64(15), "FENCE.ONCE", "c1", "1m", "INCRBY", key, "5")
			const look = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+OK\r\n$-1\r\n" // what may pass: nothing is kept
			cut = behind.CutAfterBytes(harness.ToClient, len(look))
			c.sends("FENCE.ONCE", "c2", "1m", "INCRBY", key, "5")
			<-cut
			if key == "unguarded" {
				c.hearsError("FENCEUNKNOWN")
			} else {
				c.hears(int64(20)) // by its record it is known to have been carried out
			}
			again, _ := connect(t, "C again", first.Addr)
			again.does(int64(20), "FENCE.ONCE", "c2", "1m", "INCRBY", key, "5")
			b.does(int64(20), "FENCE.ONCE", "c2", "1m", "INCRBY", key, "5")
			wantValue(t, server, key, "20")
		})
	}
}

// Many say the same at once, through two proxies: one is carried out, and all get its reply.
func TestOfWritesThatAreSaidAtOnceOneIsCarriedOut(t *testing.T) {
	t.Parallel()
	const parties, rounds = 8, 20
	for _, key := range []string{"ctx:n", "unguarded"} {
		t.Run(key, func(t *testing.T) {
			proxies := startPair(t, guarding("wait: 30s"))
			conns := make([]*harness.RawConn, parties)
			for i := range conns {
				conns[i] = harness.Dial(t, []string{proxies.first.Addr, proxies.second.Addr}[i%2])
			}
			for round := range rounds {
				replies := make([]string, parties)
				var all sync.WaitGroup
				for i, conn := range conns {
					conn.Send(harness.Encode("FENCE.ONCE", fmt.Sprint("round ", round), "1m", "INCR", key))
					all.Go(func() {
						raw, err := conn.Read()
						replies[i] = fmt.Sprint(string(raw), err)
					})
				}
				all.Wait()
				want := fmt.Sprintf(":%d\r\n<nil>", round+1)
				for i, got := range replies {
					if got != want {
						t.Fatalf("round %d: party %d hears %q, want %q", round, i, got, want)
					}
				}
			}
			wantValue(t, proxies.redis, key, fmt.Sprint(rounds))
		})
	}
}

// A grant that was given back is used up, also when its hold had ended before: nobody has come, so it is the newest still.
func TestAGrantThatIsReleasedTooLateIsUsedUpAllTheSame(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr) // it knows of the grant what it is told
	a.sends("FENCE.ACQUIRE", "ctx:s", "TTL", "50")
	grant := fmt.Sprint(a.reply())
	b.does("OK", "FENCE.DO", grant, "SET", "ctx:s", "before")
	harness.Eventually(t, 0, func() bool {
		return len(server.Client().Keys(t.Context(), "fence-proxy:*:h").Val()) == 0
	}, "the hold ends by itself")
	b.does("OK", "FENCE.DO", grant, "SET", "ctx:s", "newest")
	b.does(int64(0), "FENCE.RELEASE", "ctx:s", grant)
	b.fails("FENCED", "FENCE.DO", grant, "SET", "ctx:s", "used up")
	wantValue(t, server, "ctx:s", "newest")
}
