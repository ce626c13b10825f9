//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 1: eight tasks of one process read the agent's context, each appends its id and sends it
// back, and none waits for the others. Whatever is not in the value was refused.
func TestNoParallelTasksUpdateIsLostUnnoticed(t *testing.T) {
	t.Parallel()
	const tasks = 8
	server := harness.StartRedis(t)
	byConnection := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 30s")})
	byProxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 30s", "owner: proxy")})

	t.Run("with a connection each", func(t *testing.T) {
		empty(t, server)
		all := newTasks(tasks, nil)
		for i := range tasks {
			_, conn := connect(t, fmt.Sprintf("task %d", i), byConnection.Addr)
			all.Go(func() error { return all.turn(conn, i) })
		}
		if applied := all.end(t, server); applied != tasks {
			t.Errorf("%d of %d updates were applied; with this long a wait all should be", applied, tasks)
		}
	})
	t.Run("with a connection each and one owner", func(t *testing.T) {
		empty(t, server)
		var read sync.WaitGroup
		read.Add(tasks)
		all := newTasks(tasks, &read)
		for i := range tasks {
			_, conn := connect(t, fmt.Sprintf("task %d", i), byProxy.Addr)
			all.Go(func() error { return all.turn(conn, i) })
		}
		if applied := all.end(t, server); applied != 1 {
			t.Errorf("%d updates were applied, all made from the same value; want one", applied)
		}
	})
	for _, proxy := range []*harness.Proxy{byConnection, byProxy} {
		t.Run("pipelined over one connection", func(t *testing.T) {
			empty(t, server)
			all := newTasks(tasks, nil)
			client, conn := connect(t, "the process", proxy.Addr)
			conn.Send(strings.Repeat(harness.Encode("GET", "ctx:w"), tasks))
			for range tasks {
				client.hears(nil)
			}
			var pipeline strings.Builder
			for i := range tasks {
				pipeline.WriteString(harness.Encode("SET", "ctx:w", fmt.Sprintf(",%d", i)))
			}
			conn.Send(pipeline.String())
			client.hears("OK")
			for range tasks - 1 {
				client.hearsError("FENCED")
				all.refused++
			}
			all.acknowledged = []string{"0"}
			all.end(t, server)
		})
	}
}

// parallel are the tasks of case 1.
type parallel struct {
	sync.WaitGroup
	n    int
	read *sync.WaitGroup // nobody writes before everybody has read

	mu           sync.Mutex
	acknowledged []string
	refused      int
	failed       []error
}

func newTasks(n int, read *sync.WaitGroup) *parallel { return &parallel{n: n, read: read} }

// Go runs one task.
func (p *parallel) Go(task func() error) {
	p.WaitGroup.Go(func() {
		if err := task(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.failed = append(p.failed, err)
		}
	})
}

// turn is one task's: read, append, and write as a pipeline of one.
func (p *parallel) turn(conn *harness.RawConn, i int) error {
	value, err := exchange(conn, "GET", "ctx:w")
	if p.read != nil {
		p.read.Done()
		p.read.Wait()
	}
	if err != nil {
		return fmt.Errorf("GET: %w", err)
	}
	text, _ := value.(string)
	reply, err := exchange(conn, "SET", "ctx:w", fmt.Sprintf("%s,%d", text, i))
	if err != nil {
		return fmt.Errorf("SET: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if reply == "OK" {
		p.acknowledged = append(p.acknowledged, fmt.Sprint(i))
	} else {
		p.refused++
	}
	return nil
}

// exchange sends a command and returns the decoded reply, an error reply included.
func exchange(conn *harness.RawConn, args ...string) (any, error) {
	if _, err := conn.Write([]byte(harness.Encode(args...))); err != nil {
		return nil, err
	}
	raw, err := conn.Read()
	if err != nil {
		return nil, err
	}
	return harness.Decode(raw)
}

// end waits for all tasks, does the sum, and returns how many updates are in the value.
func (p *parallel) end(t *testing.T, server *harness.Redis) int {
	t.Helper()
	p.Wait()
	if len(p.failed) > 0 {
		t.Fatal(p.failed)
	}
	ids := strings.Split(server.Client().Get(t.Context(), "ctx:w").Val(), ",")[1:]
	slices.Sort(ids)
	slices.Sort(p.acknowledged)
	if !slices.Equal(ids, p.acknowledged) {
		t.Errorf("in the value are %v, acknowledged were %v", ids, p.acknowledged)
	}
	if len(ids)+p.refused != p.n {
		t.Errorf("%d ids in the value and %d errors, want %d together", len(ids), p.refused, p.n)
	}
	return len(ids)
}

// Case 2.
func TestTheSecondReaderSeesWhatTheFirstHasWritten(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	first, _ := connect(t, "A", a.Addr)
	first.does(nil, "GET", line.key)
	second := line.join("B", b)
	first.does("OK", "SET", line.key, "A's text")
	second.hears("A's text")
	second.does("OK", "SET", line.key, "A's text, B's text")
	wantValue(t, server, line.key, "A's text, B's text")
}

// Case 5.
func TestTurnsOfSeveralAppendsDoNotInterleave(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s", "writes_per_read: many")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:t")
	first, conn := connect(t, "A", a.Addr)
	first.does([]any{}, "LRANGE", line.key, "0", "-1")
	second := line.joinWith("B", b, harness.Encode("LRANGE", line.key, "0", "-1"))
	first.does(int64(1), "RPUSH", line.key, "u1")
	line.hasWaiters(1)
	first.does(int64(2), "RPUSH", line.key, "a1")
	line.hasWaiters(1)
	_ = conn.Close() // ends A's turn

	second.hears([]any{"u1", "a1"})
	second.does(int64(3), "RPUSH", line.key, "u2")
	second.does(int64(4), "RPUSH", line.key, "a2")
	third, _ := connect(t, "C", b.Addr)
	_ = second.conn.Close()
	third.does([]any{"u1", "a1", "u2", "a2"}, "LRANGE", line.key, "0", "-1")
}

// Case 6.
func TestAListRewrittenInTwoWritesKeepsAConcurrentPush(t *testing.T) {
	t.Parallel()
	t.Run("that comes between them", func(t *testing.T) {
		r := newRewrite(t, "writes_per_read: one")
		other, _ := connect(t, "B", r.elsewhere.Addr)
		other.does(int64(1), "RPUSH", r.line.key, "pushed") // the DEL has ended A's sequence
		r.does(int64(2), "LPUSH", r.line.key, "rewritten")
		r.leaves("rewritten", "pushed")
	})
	t.Run("that waits for both", func(t *testing.T) {
		r := newRewrite(t, "writes_per_read: many")
		other := r.line.joinWith("B", r.elsewhere, harness.Encode("RPUSH", r.line.key, "pushed"))
		r.does(int64(1), "LPUSH", r.line.key, "rewritten")
		if got, want := r.line.get(r.line.token), fmt.Sprintf("%d %d 2 redis", r.grant, r.grant); got != want {
			t.Errorf("after A's two writes the record is %q, want %q", got, want)
		}
		_ = r.conn.Close() // ends A's turn
		other.hears(int64(2))
		r.leaves("rewritten", "pushed")
	})
}

// rewrite is a client that replaces a list, and has deleted the old one.
type rewrite struct {
	*party
	conn      *harness.RawConn
	line      *line
	grant     uint64
	elsewhere *harness.Proxy // another proxy
}

func newRewrite(t *testing.T, rule string) *rewrite {
	t.Helper()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s", rule)}
	proxy := harness.StartProxy(t, options)
	r := &rewrite{line: lineFor(t, server, "ctx:c"), elsewhere: harness.StartProxy(t, options)}
	server.Client().RPush(t.Context(), r.line.key, "old")
	r.party, r.conn = connect(t, "A", proxy.Addr)
	r.does([]any{"old"}, "LRANGE", r.line.key, "0", "-1")
	r.grant = r.line.grant()
	r.does(int64(1), "DEL", r.line.key)
	return r
}

// leaves fails the test unless this is the list at the end.
func (r *rewrite) leaves(want ...string) {
	r.t.Helper()
	if got := r.line.redis.LRange(r.t.Context(), r.line.key, 0, -1).Val(); !slices.Equal(got, want) {
		r.t.Errorf("the list is %q, want %q", got, want)
	}
}

// Case 7.
func TestASaveAfterAnothersTurnIsRefused(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: guarding("wait: 30s", "idle: 100ms")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	session := recordOf(t, server, "ctx:s")
	first, _ := connect(t, "A", a.Addr)
	second, _ := connect(t, "B", b.Addr)
	first.does(nil, "GET", "ctx:s")
	session.becomesFree() // A thinks for longer than idle
	second.sends("GET", "ctx:s")
	second.hears(nil)
	session.becomesFree() // B thinks, too
	second.does("OK", "SET", "ctx:s", "B's turn")
	first.fails("FENCED", "SET", "ctx:s", "A's stale document")
	wantValue(t, server, "ctx:s", "B's turn")
	first.does("B's turn", "GET", "ctx:s")
	first.does("OK", "SET", "ctx:s", "B's turn, A's turn")
	wantValue(t, server, "ctx:s", "B's turn, A's turn")
}

// Case 9.
func TestOfTwoResumesExactlyOneGoesOn(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("0s")}
	addrs := [2]string{harness.StartProxy(t, options).Addr, harness.StartProxy(t, options).Addr}
	for round := range 20 {
		key := fmt.Sprintf("ctx:t%d:status", round)
		server.Client().Set(t.Context(), key, "interrupted", 0)
		var parties [2]*party
		for i, addr := range addrs {
			parties[i], _ = connect(t, fmt.Sprintf("worker %d", i), addr)
		}
		for _, p := range parties {
			p.sends("GET", key)
		}
		var goesOn []*party
		for _, p := range parties {
			switch reply := p.reply().(type) {
			case harness.ReplyError:
				if !strings.HasPrefix(string(reply), "LOCKED ") {
					t.Fatalf("%s hears %v", p.name, reply)
				}
			default:
				goesOn = append(goesOn, p)
			}
		}
		if len(goesOn) != 1 {
			t.Fatalf("round %d: %d workers go on, want one", round, len(goesOn))
		}
		goesOn[0].does("OK", "SET", key, "busy")
	}
	if n := server.CommandCalls(t.Context())["zadd"]; n > 0 {
		t.Errorf("somebody stood in line %d times, want everybody refused at once", n)
	}
}

// Case 13: two pods, each with a process and a proxy of its own.
func TestTwoProcessesAddEveryItemAndSplitNoTurn(t *testing.T) {
	t.Parallel()
	const each = 50
	server := harness.StartRedis(t)
	python := harness.Python(t)
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 2)
	for _, name := range []string{"A", "B"} {
		proxy := harness.StartProxy(t, harness.ProxyOptions{Name: name, Redis: server, ConfigYAML: guarding("wait: 30s")})
		process := exec.CommandContext(t.Context(), python, "-c", addItems, proxy.URL(), name, fmt.Sprint(each))
		go func() {
			out, err := process.CombinedOutput()
			done <- result{out, err}
		}()
	}
	for range 2 {
		if r := <-done; r.err != nil {
			t.Fatalf("a process failed: %v\n%s", r.err, r.out)
		}
	}
	wantWholeTurns(t, server, 2*each)
}

// wantWholeTurns fails the test unless the items are so many, in turns that are whole and each process's in order.
func wantWholeTurns(t *testing.T, server *harness.Redis, want int) {
	t.Helper()
	var items []struct {
		Who, Role string
		Turn      int
	}
	if err := json.Unmarshal([]byte(server.Client().Get(t.Context(), "ctx:session:items").Val()), &items); err != nil {
		t.Fatal(err)
	}
	if len(items) != want {
		t.Errorf("%d items, want %d", len(items), want)
	}
	next := map[string]int{}
	for i := 0; i+1 < len(items); i += 2 {
		user, agent := items[i], items[i+1]
		if user.Role != "user" || agent.Role != "agent" || user.Who != agent.Who || user.Turn != agent.Turn {
			t.Fatalf("items %d and %d are no turn: %v, %v", i, i+1, user, agent)
		}
		if user.Turn != next[user.Who] {
			t.Fatalf("after turn %d of %s comes turn %d", next[user.Who]-1, user.Who, user.Turn)
		}
		next[user.Who]++
	}
}

// addItems is an agent framework's session: a turn is two items, added to the whole document. Who is refused reads
// again.
const addItems = `
import json, sys, time, redis
url, who, items = sys.argv[1], sys.argv[2], int(sys.argv[3])
client = redis.Redis.from_url(url, socket_timeout=60)
client.incr("started")
while client.get("started") != b"2":
    time.sleep(0.001)
turn = refused = 0
while turn < items // 2:
    session = json.loads(client.get("ctx:session:items") or "[]")
    for role in ("user", "agent"):
        session.append({"who": who, "role": role, "turn": turn})
    time.sleep(0.001)
    try:
        assert client.set("ctx:session:items", json.dumps(session))
        turn += 1
    except redis.ResponseError as e:
        assert str(e).startswith("FENCED"), e
        refused += 1
print(refused, "refused")
`

// The traffic of a web session store: express-session with connect-redis.

func TestOfTwoRequestsOnOneConnectionTheSecondSaveIsRefused(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("owner: connection")})
	const key = "ctx:sess:sid-1001"
	store, _ := connect(t, "the session store", proxy.Addr)
	store.does("OK", "SET", key, `{"items":["a","b"]}`, "EX", "86400") // a new session: nothing was read

	store.does(`{"items":["a","b"]}`, "GET", key) // request X
	store.does(`{"items":["a","b"]}`, "GET", key) // request Y
	store.does("OK", "SET", key, `{"items":["a","b","X"]}`, "EX", "86400")
	store.fails("FENCED", "SET", key, `{"items":["a","b","Y"]}`, "EX", "86400")
	wantValue(t, server, key, `{"items":["a","b","X"]}`)

	// A request that only reads touches the session.
	store.does(`{"items":["a","b","X"]}`, "GET", key)
	store.does(int64(1), "EXPIRE", key, "86400")
	store.does(`{"items":["a","b","X"]}`, "GET", key)
	store.does("OK", "SET", key, `{"items":["a","b","X","Y"]}`, "EX", "86400")
}

func TestASaveDoesNotBringBackALoggedOutSession(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: guarding("owner: connection", "wait: 30s", "idle: 100ms")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	const key = "ctx:sess:sid-1001"
	session := recordOf(t, server, key)
	first, _ := connect(t, "A", a.Addr)
	second, _ := connect(t, "B", b.Addr)
	first.does("OK", "SET", key, `{"user":"u1"}`, "EX", "86400")

	first.does(`{"user":"u1"}`, "GET", key)
	session.becomesFree() // A's request takes longer than idle
	second.does(`{"user":"u1"}`, "GET", key)
	second.does(int64(1), "DEL", key)
	first.fails("FENCED", "SET", key, `{"user":"u1"}`, "EX", "86400")
	if n := server.Client().Exists(t.Context(), key).Val(); n > 0 {
		t.Error("the session is back")
	}
}
