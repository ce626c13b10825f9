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
	w := startTwins(t, guarding("writes_per_read: many"))
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			empty(t, w.straight)
			empty(t, w.behind)
			for _, p := range w.plays(t, protocol, transactionStates) {
				_ = p.client.Close() // and gives back what it holds
			}
		})
	}
}

// Case 45.
func TestHelloIsAnsweredByRedis(t *testing.T) {
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
