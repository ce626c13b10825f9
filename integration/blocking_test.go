//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// blockings are conversations that must sound the same through a proxy that guards "ctx:"; as in
// transactions, other clients send what follows "straight:". "later:" is sent straight at Redis while the
// command before it is blocked.
var blockings = []string{
	"RPUSH ctx:l a b|BLPOP ctx:l 0|BRPOP ctx:l 1|EXISTS ctx:l",
	"BLPOP ctx:l 0.01|BRPOP ctx:l 0.01|BLPOP free ctx:l 0.01",
	"BLMOVE ctx:l ctx:m LEFT LEFT 0.01|BRPOPLPUSH ctx:l ctx:m 0.01|BLMPOP 0.01 2 ctx:l free LEFT",
	"BZPOPMIN ctx:z 0.01|BZPOPMAX ctx:z 0.01|BZMPOP 0.01 1 ctx:z MIN",
	"XREAD BLOCK 1 STREAMS ctx:x $|XREAD COUNT 2 BLOCK 1 STREAMS ctx:x ctx:y 0 $",
	"BLPOP ctx:l -1|BLPOP ctx:l x|BLPOP ctx:l|BLPOP ctx:l 1e400|BLMPOP 1 0 ctx:l LEFT|BLMPOP 0.01 1 ctx:l MIDDLE|BLMOVE ctx:l ctx:m LEFT UP 0",
	"XREAD BLOCK -1 STREAMS ctx:x $|XREAD BLOCK x STREAMS ctx:x 0|XREAD BLOCK 1 STREAMS ctx:x nonsense|XREADGROUP GROUP g c BLOCK 1 STREAMS ctx:x >",
	"XREAD COUNT x BLOCK 1 STREAMS ctx:x 7|XREADGROUP GROUP g c COUNT x BLOCK 1 STREAMS ctx:x 7|XREAD BLOCK 1 STREAMS ctx:x|XREAD BLOCK 1 STREAMS ctx:x ctx:y 0|XREAD BLOCK 1 COUNT STREAMS ctx:x 0",
	"XREADGROUP GROUP g BLOCK 1 STREAMS ctx:x 7|XREAD NOACK BLOCK 1 STREAMS ctx:x 7|XREAD BLOCK 1 ctx:x 0|XREADGROUP GROUP g c NONSENSE BLOCK 1 STREAMS ctx:x >|BLMPOP 0.01 x ctx:l LEFT|BLMPOP 0.01 2 ctx:l LEFT|BLMPOP -1 x ctx:l ctx:l LEFT|BLMPOP -1 0 ctx:l ctx:m LEFT|BZMPOP 0.01 1 ctx:z MIN COUNT 0",
	"XGROUP CREATE ctx:x g $ MKSTREAM|XREADGROUP GROUP g c BLOCK 1 STREAMS ctx:x x|XREADGROUP GROUP g c BLOCK 1 STREAMS ctx:x $|XREADGROUP GROUP h c BLOCK 1 STREAMS ctx:x >|XREADGROUP GROUP g c BLOCK 1 STREAMS ctx:x ctx:y > >",
	"SET ctx:s v|BLPOP ctx:s 0|BZPOPMIN ctx:s 0|XREAD BLOCK 0 STREAMS ctx:s 0|XREAD BLOCK 0 STREAMS ctx:s $|BLMOVE ctx:s ctx:l LEFT LEFT 0|RPUSH ctx:l x|BLMOVE ctx:l ctx:s LEFT LEFT 0",
	"BLPOP ctx:l 0|later:RPUSH ctx:l x|PING",
	"BLPOP ctx:k ctx:l free 20|later:RPUSH free x|PING",
	"BRPOPLPUSH ctx:l ctx:m 0|later:RPUSH ctx:l x|LRANGE ctx:m 0 -1",
	"BLMPOP 0 2 ctx:k ctx:l LEFT COUNT 2|later:RPUSH ctx:l x y z|LRANGE ctx:l 0 -1",
	"BZPOPMIN ctx:z 0|later:ZADD ctx:z 1.5 m|PING",
	"BLPOP ctx:l 0|later:SET ctx:l x|later:DEL ctx:l|later:RPUSH ctx:l x|PING",
	"XREAD BLOCK 0 STREAMS ctx:x $|later:XADD ctx:x 5-1 f v|PING",
	"XREAD BLOCK 0 STREAMS ctx:x $|later:RPUSH ctx:x x|later:DEL ctx:x|later:XADD ctx:x 5-1 f v|PING",
	"XADD ctx:x 1-1 f v|XDEL ctx:x 1-1|XREAD BLOCK 0 STREAMS ctx:x ctx:y $ 0|later:XADD ctx:x 1-2 f v|XREAD BLOCK 10 STREAMS ctx:x 0",
	"XGROUP CREATE ctx:x g $ MKSTREAM|XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x >|later:XADD ctx:x 5-1 f v|XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x 0|XREADGROUP GROUP g c BLOCK 10 STREAMS ctx:x >|XPENDING ctx:x g",
	"XGROUP CREATE ctx:x g $ MKSTREAM|XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x >|later:DEL ctx:x|PING",
	"XGROUP CREATE ctx:x g $ MKSTREAM|XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x >|later:SET ctx:x v|PING",
	"XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x >|SET ctx:x v|XREADGROUP GROUP g c BLOCK 0 STREAMS ctx:x >",
	"WATCH ctx:a|BLPOP ctx:l 0|later:RPUSH ctx:l x|BLPOP ctx:l 0.01|MULTI|SET ctx:a 1|EXEC",
	"WATCH ctx:l|BLPOP ctx:l 0|later:RPUSH ctx:l x|MULTI|SET ctx:a 1|EXEC",
}

func TestBlockingCommandsSoundAsAtRedis(t *testing.T) {
	t.Parallel()
	direct, behind := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	lacks := newLacking(t, behind)
	for _, lines := range blockings {
		if strings.Contains(lines, "later:") && lacks.any(t, callsOf(lines)) {
			continue // nobody blocks
		}
		if strings.Contains(lines, "STREAMS ctx:x >|later:DEL") || strings.Contains(lines, "STREAMS ctx:x >|later:SET") {
			if !knows(t, direct, "function") {
				continue // before 7.0 nobody is told that the stream is gone
			}
		}
		for _, protocol := range []string{"2", "3"} {
			t.Run(fmt.Sprintf("%s, RESP%s", lines, protocol), func(t *testing.T) {
				empty(t, direct)
				empty(t, behind)
				want := blockedTalk(t, direct.Addr, direct, protocol, lines)
				got := blockedTalk(t, proxy.Addr, behind, protocol, lines)
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("reply %d: got %.300q, want %.300q", i, got[i], want[i])
					}
				}
			})
		}
	}
}

// callsOf are the calls of a conversation.
func callsOf(lines string) (calls [][]string) {
	for line := range strings.SplitSeq(lines, "|") {
		calls = append(calls, strings.Fields(strings.TrimPrefix(line, "later:")))
	}
	return calls
}

// blockedTalk sends a conversation and returns what is heard.
func blockedTalk(t *testing.T, addr string, server *harness.Redis, protocol, lines string) (heard []string) {
	t.Helper()
	conn := greet(t, addr, protocol)
	straight := server.Client()
	pending := 0
	hear := func() {
		for ; pending > 0; pending-- {
			heard = append(heard, string(conn.ReadReply()))
		}
	}
	for line := range strings.SplitSeq(lines, "|") {
		if words, ok := strings.CutPrefix(line, "later:"); ok {
			conn.ExpectSilence(30 * time.Millisecond)
			var args []any
			for _, word := range strings.Fields(words) {
				args = append(args, word)
			}
			if err := straight.Do(t.Context(), args...).Err(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		hear()
		conn.Send(harness.Encode(strings.Fields(line)...))
		pending++
	}
	hear()
	_ = conn.Close()
	return heard
}

// Case 55: a client that is blocked holds no session, and what others push through the proxy wakes it.
func TestABlockedClientHoldsNoSession(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(append(longHolds, "session: ctx:<s>:*")...)})
	record := recordOf(t, server, "s")
	worker, _ := connect(t, "worker", proxy.Addr)
	worker.does(nil, "GET", "ctx:s:state") // it holds the session
	worker.sends("BLPOP", "ctx:s:inbox", "0")
	record.becomesFree()

	reader, _ := connect(t, "reader", proxy.Addr)
	reader.sends("XREAD", "BLOCK", "0", "STREAMS", "ctx:s:log", "$")
	other, _ := connect(t, "other", proxy.Addr)
	other.does(nil, "GET", "ctx:s:notes")
	other.does("OK", "SET", "ctx:s:notes", "n")
	other.does("0-1", "XADD", "ctx:s:log", "0-1", "f", "v")
	if got := fmt.Sprint(reader.reply()); got != "[[ctx:s:log [[0-1 [f v]]]]]" {
		t.Fatalf("the reader hears %v", got)
	}
	other.sends("RPUSH", "ctx:s:inbox", "job") // behind the reader, which has begun a sequence
	reader.does("OK", "SET", "ctx:s:seen", "0-1")
	other.hears(int64(1))
	worker.hears([]any{"ctx:s:inbox", "job"})
	worker.fails("FENCED", "SET", "ctx:s:state", "stale") // others had the session since it was read
	record.becomesFree()
}

func TestABlockedClientWaitsForAHolder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("session: ctx:<s>:*", "wait: 0s")})
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(int64(1), "RPUSH", "ctx:s:inbox", "job")
	holder.does(nil, "GET", "ctx:s:state")
	worker, conn := connect(t, "worker", proxy.Addr)
	worker.does(nil, "BLPOP", "ctx:s:inbox", "0.2") // not its turn
	worker.sends("BLPOP", "ctx:s:inbox", "0")
	conn.ExpectSilence(50 * time.Millisecond)
	holder.does("OK", "SET", "ctx:s:state", "v")
	worker.hears([]any{"ctx:s:inbox", "job"})
}

func TestABlockedClientHearsWhatIsWrongOnceTheHolderIsDone(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("session: ctx:<s>:*", "wait: 0s")})
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does("OK", "SET", "ctx:s:inbox", "no list")
	holder.does(nil, "GET", "ctx:s:state")
	worker, conn := connect(t, "worker", proxy.Addr)
	worker.sends("BRPOPLPUSH", "ctx:s:inbox", "ctx:s:done", "0")
	conn.ExpectSilence(50 * time.Millisecond)
	holder.does("OK", "SET", "ctx:s:state", "v")
	if reply := conn.ReadReply(); !strings.HasPrefix(string(reply), "-WRONGTYPE ") {
		t.Fatalf("the worker hears %q", reply)
	}
}

func TestBlockedClientsAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	const n = 12
	var workers []*party
	for i := range n {
		worker, conn := connect(t, fmt.Sprintf("worker %d", i), proxy.Addr)
		worker.does("PONG", "PING")
		worker.sends("BLPOP", "ctx:jobs", "0")
		conn.ExpectSilence(20 * time.Millisecond) // so that it is there before the next
		workers = append(workers, worker)
	}
	producer, _ := connect(t, "producer", proxy.Addr)
	for i := range n / 2 {
		producer.does(int64(1), "RPUSH", "ctx:jobs", fmt.Sprint(i))
		workers[i].hears([]any{"ctx:jobs", fmt.Sprint(i)})
	}
	push := []string{"RPUSH", "ctx:jobs"}
	for i := n / 2; i < n; i++ {
		push = append(push, fmt.Sprint(i))
	}
	producer.does(int64(n/2), push...)
	for i := n / 2; i < n; i++ {
		workers[i].hears([]any{"ctx:jobs", fmt.Sprint(i)})
	}
}

func TestABlockedClientThatLeavesTakesNothing(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(), Args: []string{"--log-level", "debug"}})
	gone, conn := connect(t, "gone", proxy.Addr)
	gone.sends("BLPOP", "ctx:jobs", "0")
	conn.ExpectSilence(20 * time.Millisecond)
	next, nextConn := connect(t, "next", proxy.Addr)
	next.sends("BLPOP", "ctx:jobs", "0")
	nextConn.ExpectSilence(20 * time.Millisecond)
	_ = conn.Close()
	proxy.WaitLog(t, "client left")
	if err := server.Client().RPush(t.Context(), "ctx:jobs", "job").Err(); err != nil {
		t.Fatal(err)
	}
	next.hears([]any{"ctx:jobs", "job"})
}

// Redis counts such a client as blocked, and CLIENT UNBLOCK ends its wait.
func TestABlockedClientIsKnownToRedis(t *testing.T) {
	t.Parallel()
	direct, behind := harness.StartRedis(t), harness.StartRedis(t)
	lacks := newLacking(t, behind)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	unblocked := func(addr string, server *harness.Redis, protocol, command, how string) (heard string) {
		conn := greet(t, addr, protocol)
		id := strings.TrimSpace(string(conn.Do("CLIENT", "ID"))[1:])
		conn.Send(harness.Encode(strings.Fields(command)...))
		straight := server.Client()
		harness.Eventually(t, 0, func() bool {
			return strings.Contains(straight.Info(t.Context(), "clients").Val(), "blocked_clients:1\r\n")
		}, "the client is blocked")
		unblock := []any{"CLIENT", "UNBLOCK", id}
		if how != "" {
			unblock = append(unblock, how)
		}
		if n, err := straight.Do(t.Context(), unblock...).Int(); n != 1 || err != nil {
			t.Fatalf("CLIENT UNBLOCK: %d, %v", n, err)
		}
		heard = string(conn.ReadReply())
		if got := string(conn.Do("PING")); got != "+PONG\r\n" {
			t.Fatalf("then PING: %q", got)
		}
		_ = conn.Close()
		return heard
	}
	for _, command := range []string{
		"BLPOP ctx:l 0", "BRPOPLPUSH ctx:l ctx:m 0", "BLMOVE ctx:l ctx:m LEFT LEFT 100", "BLMPOP 0 1 ctx:l LEFT",
		"BZPOPMIN ctx:z 0", "BZMPOP 0 1 ctx:z MIN", "XREAD BLOCK 0 STREAMS ctx:x $",
	} {
		if lacks.any(t, [][]string{strings.Fields(command)}) {
			continue
		}
		for _, protocol := range []string{"2", "3"} {
			for _, how := range []string{"", "TIMEOUT", "ERROR"} {
				t.Run(fmt.Sprintf("%s, RESP%s, %s", command, protocol, how), func(t *testing.T) {
					want := unblocked(direct.Addr, direct, protocol, command, how)
					if got := unblocked(proxy.Addr, behind, protocol, command, how); got != want {
						t.Errorf("the client hears %q, want %q", got, want)
					}
				})
			}
		}
	}
}
