//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Cases 50 and 51: DISCARD, UNWATCH and RESET take a WATCH away, and what is said inside MULTI is
// answered by Redis.
const transactionStates = `
A: WATCH free => 1
A: MULTI => 1
A: DISCARD => 1
D: SET free 1 => 1
A: MULTI ; SET other 1 ; EXEC => 3
A: WATCH free => 1
A: UNWATCH => 1
D: SET free 2 => 1
A: MULTI ; SET other 2 ; EXEC => 3
A: WATCH free => 1
A: MULTI ; SET other 2 ; EXEC => 3
D: SET free 3 => 1
A: MULTI ; SET other 3 ; EXEC => 3
A: WATCH free => 1
D: SET free 4 => 1
A: MULTI ; SET other 4 ; EXEC => 3
A: GET other => 1
A: WATCH free ctx:s => 1
D: SET ctx:s 1 => 1
A: MULTI ; SET other 4 ; EXEC => 3
A: MULTI ; WATCH free ; SET other 5 ; EXEC => 4
A: MULTI ; PING ; EXEC => 3
A: MULTI ; MULTI ; PING text ; ECHO x ; CLIENT GETNAME ; CLIENT SETNAME named ; EXEC ; CLIENT GETNAME => 8
A: MULTI ; SELECT 1 ; SET free in1 ; EXEC ; GET free ; SET ctx:s in1 ; SELECT 0 ; GET free => 8
A: MULTI ; SELECT 99 ; SELECT x ; PING ; EXEC ; GET other => 6
A: EXEC ; DISCARD => 2
A: MULTI ; SET other 6 ; EXEC now ; EXEC => 4
A: MULTI now ; SET other 7 => 2
A: WATCH => 1
A: WATCH free => 1
A: RESET => 1
D: SET free 5 => 1
A: MULTI ; SET other 8 ; EXEC => 3
A: MULTI ; SET other 9 ; RESET ; GET other ; EXEC => 5
A: SET ctx:s w => 1
A: GET ctx:s => 1
A: MULTI ; HELLO 3 ; EXEC ; HSET h f v ; HGETALL h ; HELLO 2 ; HGETALL h => 7
`

func TestTransactionsLeaveTheConnectionAsRedisWould(t *testing.T) {
	t.Parallel()
	for _, mode := range everyMode {
		w := startTwins(t, guarding("writes_per_read: many", "mode: "+mode))
		for _, protocol := range []string{"2", "3"} {
			t.Run(mode+" RESP"+protocol, func(t *testing.T) {
				empty(t, w.straight)
				empty(t, w.behind)
				for _, p := range w.plays(t, protocol, transactionStates) {
					_ = p.client.Close() // and gives back what it holds
				}
			})
		}
	}
}

// What is refused, or done at once, inside MULTI, and what its EXEC changes.
const misuses = `
A: MULTI ; DISCARD x ; SELECT 1 ; SET free a ; EXEC ; GET free => 6
A: MULTI x ; SELECT 1 ; SET free b ; GET free ; SELECT 0 ; GET free => 6
A: MULTI ; SET free c ; EXEC x ; SELECT 1 ; GET free ; SELECT 0 ; GET free => 7
A: MULTI ; SELECT x y ; SELECT 1 ; EXEC ; SET free d ; GET free => 6
A: MULTI ; SELECT 99 ; EXEC ; SET free e ; GET free => 5
A: MULTI ; SELECT 99 ; SET free f ; SELECT 1 ; EXEC ; GET free ; SELECT 0 ; GET free => 8
A: MULTI ; SELECT 1 ; SELECT 99 ; EXEC ; SET free g ; GET free ; SELECT 0 ; GET free => 8
A: MULTI ; SELECT 1 ; DISCARD ; GET free => 4
A: MULTI ; RESET ; SET ctx:s v ; GET ctx:s ; SET ctx:s w => 5
A: MULTI ; SET ctx:s a ; RESET ; SET ctx:s v ; GET ctx:s ; SET ctx:s w => 6
A: MULTI ; SET free h ; RESET ; GET free ; EXEC => 5
A: EXEC x ; DISCARD x ; UNWATCH x ; WATCH ; MULTI ; WATCH ; EXEC => 7
A: MULTI ; HELLO 3 ; EXEC ; HSET h f v ; HGETALL h ; HELLO 2 ; HGETALL h => 7
A: MULTI ; HELLO 9 ; EXEC ; HGETALL h ; MULTI ; HELLO 3 ; DISCARD ; HGETALL h => 8
A: HELLO 3 ; MULTI ; HELLO 2 ; HGETALL h ; EXEC ; HGETALL h ; GET none => 7
A: MULTI ; SELECT 1 ; SUBSCRIBE a ; EXEC ; PING ; UNSUBSCRIBE a ; GET free ; SET ctx:s 1 ; GET ctx:s => 9
A: MULTI ; SUBSCRIBE a ; SELECT 0 ; EXEC ; PING ; UNSUBSCRIBE a ; GET free ; SET ctx:s 2 ; GET ctx:s => 9
A: HELLO 3 ; MULTI ; SUBSCRIBE a ; SELECT 1 ; EXEC ; UNSUBSCRIBE a ; GET free ; SET ctx:s 3 ; GET ctx:s => 9
A: MULTI ; SUBSCRIBE a b ; SUBSCRIBE c d e ; ECHO x ; UNSUBSCRIBE ; EXEC => 13
A: GET free ; SET ctx:s 5 ; GET ctx:s ; MULTI ; UNSUBSCRIBE ; EXEC ; GET ctx:s => 7
A: MULTI ; SUBSCRIBE a ; SELECT 0 ; HELLO 2 ; EXEC ; UNSUBSCRIBE a ; HGETALL h ; SET ctx:s 4 ; GET ctx:s => 9
`

func TestAMisusedTransactionLeavesTheConnectionAsRedisWould(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"rules: []\n", guarding("writes_per_read: many")} {
		for _, others := range []int{0, 8} { // so many share connections
			w := startTwins(t, config)
			confirmsLeaving(t, w.straight)
			if others > 0 {
				crowd(t, w.proxy, others)
			}
			for _, protocol := range []string{"2", "3"} {
				t.Run(fmt.Sprintf("%d others, %s", others, strings.SplitN(config, "\n", 2)[0]), func(t *testing.T) {
					w.one(t, protocol, misuses)
				})
			}
		}
	}
}

// An EXEC that Redis refuses for its arguments takes every WATCH away, the fence's too.
func TestAnExecWithAnArgumentLeavesTheFenceStanding(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("10s")})
	client, _ := connect(t, "client", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	session := recordOf(t, server, "ctx:k")
	client.does(nil, "GET", "ctx:k")
	client.fails("EXECABORT", "EXEC", "x")
	session.loses(session.hold) // as when its lease has ended
	other.does("OK", "SET", "ctx:k", "newer")
	client.fails("FENCED", "SET", "ctx:k", "stale")
	wantValue(t, server, "ctx:k", "newer")
}

// "+0" is no database to Redis: the transaction stays in the one before.
func TestASelectThatRedisRefusesLeadsNowhere(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	for _, number := range []string{"+0", "00", "x", "99"} {
		client.does("OK", "MULTI")
		client.does("QUEUED", "SELECT", "1")
		client.does("QUEUED", "SELECT", number)
		client.fails("FENCEDENIED", "SET", "ctx:k", "v")
		client.fails("EXECABORT", "EXEC")
	}
}

// Case 45.
func TestHelloIsAnsweredByRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding(), harness.WithPassword("pw"))
	p := w.meet(t, "client", "2")
	for _, command := range []string{
		"HELLO 3 AUTH default pw SETNAME a", "CLIENT GETNAME", "HSET h f v", "HGETALL h", "GET ctx:none",
		"HELLO", "HELLO 4", "HELLO x", "HELLO 1", "HGETALL h",
		"HELLO 2 AUTH default wrong", "HGETALL h", "HELLO 2 SETNAME b", "CLIENT GETNAME", "HGETALL h", "GET ctx:none",
		"HELLO 3 NONSENSE", "HELLO 3 AUTH default", "HGETALL h", "HELLO 3", "HELLO 2 AUTH default pw",
		"CLIENT SETINFO LIB-NAME x", "CLIENT SETNAME", "GET ctx:none",
	} {
		p.says(1, strings.Fields(command))
	}
}

// Case 55: what blocks waits as Redis does, and nobody waits with it.
func TestABlockedClientWaitsForRedisAlone(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	direct := server.Client()
	for i, c := range []struct {
		blocks []string
		end    []any
		want   any
	}{
		{[]string{"BLMOVE", "jobs", "done", "LEFT", "LEFT", "0"}, []any{"RPUSH", "jobs", "j"}, "j"},
		{[]string{"BZPOPMIN", "queue", "0"}, []any{"ZADD", "queue", "1", "m"}, []any{"queue", "m", "1"}},
		{
			[]string{"XREAD", "BLOCK", "0", "STREAMS", "events", "0"},
			[]any{"XADD", "events", "1-1", "f", "v"},
			[]any{[]any{"events", []any{[]any{"1-1", []any{"f", "v"}}}}},
		},
		{[]string{"WAIT", "1", "0"}, nil, int64(0)},
	} {
		if !knows(t, server, strings.ToLower(c.blocks[0])) {
			continue
		}
		client, _ := connect(t, c.blocks[0], proxy.Addr)
		name := fmt.Sprint("blocked-", i)
		client.does("OK", "CLIENT", "SETNAME", name)
		client.does("OK", "SET", "free", "v")
		client.sends(c.blocks...)
		client.sends("PING")
		var blocked string // its line in CLIENT LIST
		harness.Eventually(t, 0, func() bool {
			for line := range strings.Lines(direct.ClientList(t.Context()).Val()) {
				if strings.Contains(line, " name="+name+" ") && strings.Contains(line, " flags=b ") {
					blocked = line
				}
			}
			return blocked != ""
		}, "the client is blocked")
		other, _ := connect(t, "other", proxy.Addr)
		other.does("OK", "SET", "ctx:s", "v")
		if c.end == nil {
			c.end = []any{"CLIENT", "UNBLOCK", strings.TrimPrefix(strings.Fields(blocked)[0], "id=")}
		}
		if err := direct.Do(t.Context(), c.end...).Err(); err != nil {
			t.Fatal(err)
		}
		client.hears(c.want)
		client.hears("PONG")
	}
}

// Case 76: who waits for a session holds up itself alone, and its own replies keep their order.
func TestAWaitingClientHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	clients := crowd(t, proxy, 12) // some connections are shared
	line := lineFor(t, server, "ctx:slow")
	holder, waiter, others := clients[0], clients[1], clients[2:]
	holder.does(nil, "GET", line.key)
	waiter.sends("SET", "free", "before")
	waiter.sends("GET", line.key)
	waiter.sends("GET", "free")
	waiter.sends("GET", "ctx:fast")
	line.hasWaiters(1)
	for i, other := range others {
		key := fmt.Sprint("ctx:", i)
		other.does(nil, "GET", key)
		other.does("OK", "SET", key, "v")
		other.does("OK", "SET", "free", fmt.Sprint(i))
		other.does(fmt.Sprint(i), "GET", "free")
	}
	holder.does("OK", "SET", line.key, "v")
	for _, want := range []any{"OK", "v", fmt.Sprint(len(others) - 1), nil} {
		waiter.hears(want)
	}
}
