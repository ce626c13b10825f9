//go:build integration

package integration

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What users of locks, proxies and agent frameworks have met, and what it comes to in each mode: lock and auto hold
// sessions, fence refuses what is stale, observe and pass leave everything as it is at Redis. What a case is about in
// particular has a test of its own elsewhere.

var (
	everyMode = []string{"lock", "fence", "auto", "observe", "pass"}
	enforcing = everyMode[:3]
)

// stage is where a case is played: two proxies of one Redis, with one rule.
type stage struct {
	*testing.T
	mode          string
	config        string
	server        *harness.Redis
	first, second *harness.Proxy
	record        *record // of ctx:s
}

func newStage(t *testing.T, mode string, options []string, redis ...harness.RedisOption) *stage {
	t.Helper()
	s := &stage{T: t, mode: mode, server: harness.StartRedis(t, redis...), config: guarding(append(slices.Clone(options), "mode: "+mode)...)}
	s.first = harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: s.server, ConfigYAML: s.config})
	s.second = harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: s.server, ConfigYAML: s.config})
	s.record = recordOf(t, s.server, "ctx:s")
	return s
}

func (s *stage) enforces() bool { return slices.Contains(enforcing, s.mode) }

// a and b connect a client behind the first and the second proxy.
func (s *stage) a() *party { p, _ := s.meet("A", s.first); return p }
func (s *stage) b() *party { p, _ := s.meet("B", s.second); return p }

func (s *stage) meet(name string, at *harness.Proxy) (*party, *harness.RawConn) {
	s.Helper()
	return connect(s.T, name, at.Addr)
}

// practises makes mode auto take p for one who writes what it reads.
func (s *stage) practises(p *party) {
	s.Helper()
	if s.mode != "auto" {
		return
	}
	key := "ctx:practice of " + p.name
	for n := range 4 {
		p.sends("GET", key)
		p.reply()
		p.does("OK", "SET", key, strconv.Itoa(n))
	}
}

// holds makes p hold ctx:s: by a read, or where such a hold would not be there, or not for long, by an acquisition.
func (s *stage) holds(p *party, want any) {
	s.Helper()
	if s.mode != "lock" {
		p.acquires("ctx:s", "TTL", "10m")
		return
	}
	p.does(want, "GET", "ctx:s")
}

// waits sends a command of p's that has to wait for the holder of ctx:s, and returns when it stands in line as the nth.
func (s *stage) waits(p *party, nth int64) {
	s.Helper()
	s.practises(p)
	if s.mode == "fence" {
		p.sends("SET", "ctx:s", p.name) // reads never wait
	} else {
		p.sends("GET", "ctx:s")
	}
	s.record.hasWaiters(nth)
}

// served takes the reply to waits; what p wrote is the value then.
func (s *stage) served(p *party, before any) {
	s.Helper()
	if s.mode == "fence" {
		p.hears("OK")
		return
	}
	p.hears(before)
	p.does("OK", "SET", "ctx:s", p.name)
}

// gives ends what holds has begun, by a write.
func (s *stage) gives(p *party, value string) {
	s.Helper()
	p.does("OK", "SET", "ctx:s", value)
	if s.mode != "lock" {
		p.does(int64(1), "FENCE.RELEASE", "ctx:s", strconv.FormatUint(s.record.grant(), 10))
	}
}

// writes fails unless p's write of what it has read comes to what it should: refused if it is stale, unless nothing is
// enforced.
func (s *stage) writes(p *party, stale bool, key, value string) {
	s.Helper()
	if stale && s.enforces() {
		before := s.server.Client().Get(s.Context(), key).Val()
		p.fails("FENCED", "SET", key, value)
		wantValue(s.T, s.server, key, before)
		return
	}
	p.does("OK", "SET", key, value)
	wantValue(s.T, s.server, key, value)
}

var stories = []struct {
	number  int
	what    string
	modes   []string
	options []string
	play    func(s *stage)
}{
	{1, "parallel tasks", everyMode, []string{"wait: 30s"}, func(s *stage) {
		const tasks = 8
		all := newTasks(tasks, nil)
		for i := range tasks {
			_, conn := s.meet(fmt.Sprint("task ", i), s.first)
			all.Go(func() error { return all.turn(conn, i) })
		}
		if s.enforces() {
			if applied := all.end(s.T, s.server); s.mode == "lock" && applied != tasks {
				s.Errorf("%d updates were applied", applied)
			}
			return
		}
		if all.Wait(); len(all.acknowledged) != tasks {
			s.Errorf("%d updates were acknowledged: %v", len(all.acknowledged), all.failed)
		}
	}},
	{2, "two append to what both have read", everyMode, []string{"wait: 20s"}, func(s *stage) {
		a, b := s.a(), s.b()
		a.does(nil, "GET", "ctx:s")
		if s.mode == "lock" {
			b.sends("GET", "ctx:s")
			s.record.hasWaiters(1)
			a.does("OK", "SET", "ctx:s", "A's")
			b.hears("A's")
		} else {
			b.does(nil, "GET", "ctx:s")
			a.does("OK", "SET", "ctx:s", "A's")
			if s.writes(b, true, "ctx:s", "B's"); !s.enforces() {
				return
			}
			b.does("A's", "GET", "ctx:s")
		}
		s.writes(b, false, "ctx:s", "A's, B's")
	}},
	{4, "a process that was frozen", everyMode, shortHolds, func(s *stage) {
		a, process := spawn(s.T, "A", s.first.Addr)
		testFrozen(s, a, process.Pause, process.Resume)
	}},
	{4, "a proxy that was frozen", everyMode, shortHolds, func(s *stage) {
		testFrozen(s, s.a(), s.first.Pause, s.first.Resume)
	}},
	{5, "turns of several appends", everyMode, []string{"wait: 20s", "writes_per_read: many", "idle: 10m", "max_hold: 10m"}, func(s *stage) {
		a, conn := s.meet("A", s.first)
		b := s.b()
		push := func(p *party, items ...string) {
			for _, item := range items {
				p.sends("RPUSH", "ctx:s", item)
				p.reply()
			}
		}
		a.does([]any{}, "LRANGE", "ctx:s", "0", "-1")
		if s.mode == "lock" { // B sees A's whole turn
			b.sends("LRANGE", "ctx:s", "0", "-1")
			s.record.hasWaiters(1)
			push(a, "u1", "a1")
			_ = conn.Close()
			b.hears([]any{"u1", "a1"})
			push(b, "u2", "a2")
		} else { // without a hold, appends come as they come, and none is refused
			b.does([]any{}, "LRANGE", "ctx:s", "0", "-1")
			push(a, "u1")
			push(b, "u2")
			push(a, "a1")
			push(b, "a2")
		}
		want := []string{"u1", "u2", "a1", "a2"}
		if s.mode == "lock" {
			want = []string{"u1", "a1", "u2", "a2"}
		}
		if got := s.server.Client().LRange(s.Context(), "ctx:s", 0, -1).Val(); !slices.Equal(got, want) {
			s.Errorf("the list is %q, want %q", got, want)
		}
	}},
	{6, "a list that is rewritten in two writes", everyMode, []string{"wait: 20s", "writes_per_read: many", "idle: 10m", "max_hold: 10m"}, func(s *stage) {
		s.server.Client().RPush(s.Context(), "ctx:s", "old")
		a, conn := s.meet("A", s.first)
		b := s.b()
		a.does([]any{"old"}, "LRANGE", "ctx:s", "0", "-1")
		a.does(int64(1), "DEL", "ctx:s")
		b.sends("RPUSH", "ctx:s", "pushed")
		if s.mode == "lock" {
			s.record.hasWaiters(1)
			a.does(int64(1), "LPUSH", "ctx:s", "rewritten")
			_ = conn.Close()
			b.hears(int64(2))
		} else {
			b.hears(int64(1))
			a.does(int64(2), "LPUSH", "ctx:s", "rewritten")
		}
		if got := s.server.Client().LRange(s.Context(), "ctx:s", 0, -1).Val(); !slices.Equal(got, []string{"rewritten", "pushed"}) {
			s.Errorf("the list is %q", got)
		}
	}},
	{7, "a save after another's turn", everyMode, []string{"wait: 20s", "idle: 100ms"}, func(s *stage) {
		a, b := s.a(), s.b()
		a.does(nil, "GET", "ctx:s")
		s.record.becomesFree()
		b.does(nil, "GET", "ctx:s")
		b.does("OK", "SET", "ctx:s", "B's turn")
		s.writes(a, true, "ctx:s", "A's stale document")
	}},
	{9, "two resumes of one run", everyMode, []string{"wait: 0s"}, func(s *stage) {
		s.server.Client().Set(s.Context(), "ctx:s", "interrupted", 0)
		a, b := s.a(), s.b()
		a.does("interrupted", "GET", "ctx:s")
		if s.mode == "lock" {
			b.fails("LOCKED", "GET", "ctx:s")
			a.does("OK", "SET", "ctx:s", "busy")
			if n := s.server.CommandCalls(s.Context())["zadd"]; n > 0 {
				s.Errorf("somebody stood in line %d times", n)
			}
		} else {
			b.does("interrupted", "GET", "ctx:s")
			a.does("OK", "SET", "ctx:s", "busy")
			s.writes(b, true, "ctx:s", "busy, too")
		}
	}},
	{11, "a part of a document and the whole, in one pipeline", everyMode, []string{"wait: 20s"}, func(s *stage) {
		a, conn := s.meet("A", s.first)
		b := s.b()
		for turn := range 20 {
			part, whole := fmt.Sprint("part ", turn), fmt.Sprint("whole ", turn)
			conn.Send(harness.Encode("JSON.SET", "ctx:s", "$.f", part) + harness.Encode("JSON.SET", "ctx:s", "$", whole))
			a.hears("OK")
			a.hears("OK")
			wantValue(s.T, s.server, "ctx:s", whole) // the stand-in for RedisJSON takes a part for the whole
		}
		a.does("whole 19", "JSON.GET", "ctx:s")
		if s.mode == "lock" {
			b.sends("JSON.GET", "ctx:s")
			s.record.hasWaiters(1)
		} else {
			b.does("whole 19", "JSON.GET", "ctx:s")
		}
		a.does("OK", "JSON.SET", "ctx:s", "$", "A's")
		switch {
		case s.mode == "lock":
			b.hears("A's")
			b.does("OK", "JSON.SET", "ctx:s", "$", "A's, B's")
		case s.enforces():
			b.fails("FENCED", "JSON.SET", "ctx:s", "$.f", "B's, stale")
			wantValue(s.T, s.server, "ctx:s", "A's")
		default:
			b.does("OK", "JSON.SET", "ctx:s", "$.f", "B's")
		}
	}},
	{13, "two processes", enforcing, []string{"wait: 30s"}, func(s *stage) {
		const each = 20
		python := harness.Python(s.T)
		var all sync.WaitGroup
		outputs := make([]string, 2)
		for i, proxy := range []*harness.Proxy{s.first, s.second} {
			process := exec.CommandContext(s.Context(), python, "-c", addItems, proxy.URL(), proxy.Addr, fmt.Sprint(each))
			all.Go(func() {
				out, err := process.CombinedOutput()
				if outputs[i] = strings.TrimSpace(string(out)); err != nil {
					s.Errorf("a process failed: %v\n%s", err, out)
				}
			})
		}
		all.Wait()
		wantWholeTurns(s.T, s.server, 2*each)
		if s.mode == "lock" && !slices.Equal(outputs, []string{"0 refused", "0 refused"}) {
			s.Errorf("somebody was refused: %q", outputs)
		}
	}},
	{15, "a pool that is known as one client", enforcing, []string{"owner: client", "wait: 20s"}, func(s *stage) {
		testPool(s, true)
	}},
	{15, "a pool that has to be found out", enforcing, []string{"owner: auto", "wait: 20s"}, func(s *stage) {
		testPool(s, true)
	}},
	{15, "two connections that are not one client", enforcing, []string{"owner: connection", "wait: 200ms", "max_hold: 10m", "idle: 10m"}, func(s *stage) {
		testPool(s, false)
	}},
	{16, "a proxy that is killed, and waits shorter than the lease", enforcing, []string{"wait: 50ms", "lease: 1s", "max_hold: 10m", "idle: 10m"}, func(s *stage) {
		a := s.a()
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		s.first.Kill()
		b := s.b()
		harness.Eventually(s.T, 0, func() bool {
			b.sends("GET", "ctx:s")
			reply := b.reply()
			if reply != nil && (!isError(reply, "LOCKED") || s.mode != "lock") {
				s.Fatalf("B hears %v", reply)
			}
			return reply == nil
		}, "B reads")
		harness.Eventually(s.T, 0, func() bool {
			b.sends("SET", "ctx:s", "B's")
			reply := b.reply()
			if reply != "OK" && !isError(reply, "LOCKED") {
				s.Fatalf("B hears %v", reply)
			}
			return reply == "OK"
		}, "B writes")
	}},
	{17, "a client that is killed", enforcing, longHolds, func(s *stage) {
		a, process := spawn(s.T, "A", s.first.Addr)
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		b := s.b()
		process.Kill()
		b.does(nil, "GET", "ctx:s") // the lease would be a minute
		b.does("OK", "SET", "ctx:s", "B's")
	}},
	{19, "a client that only pings", everyMode, []string{"wait: 20s", "lease: 200ms", "max_hold: 800ms", "idle: 10m"}, func(s *stage) {
		a, b := s.a(), s.b()
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		harness.Eventually(s.T, 0, func() bool {
			a.does("PONG", "PING")
			return s.record.holder() == ""
		}, "its hold ends")
		b.does(nil, "GET", "ctx:s")
		b.does("OK", "SET", "ctx:s", "B's")
		s.writes(a, true, "ctx:s", "A's, stale")
	}},
	{20, "a Redis that does not answer for longer than the lease", everyMode, []string{"wait: 20s", "lease: 300ms", "max_hold: 10m", "idle: 10m"}, func(s *stage) {
		a := s.a()
		for round := range 3 { // and again, when the lock was lost and taken
			s.practises(a)
			a.sends("GET", "ctx:s")
			a.reply()
			held := s.record.holder() != ""
			s.server.Pause()
			if held {
				failures := strings.Count(s.first.Logs(), "lease not renewed")
				harness.Eventually(s.T, 0, func() bool { return strings.Count(s.first.Logs(), "lease not renewed") > failures }, "a renewal fails")
			}
			s.server.Resume()
			s.writes(a, false, "ctx:s", fmt.Sprint("A's ", round))
		}
	}},
	{21, "a client that gives up waiting", enforcing, longHolds, func(s *stage) {
		a := s.a()
		s.holds(a, nil)
		for range 2 {
			b, conn := s.meet("B", s.second)
			s.waits(b, 1)
			_ = conn.Close()
			s.record.hasWaiters(0)
		}
		s.gives(a, "A's")
		c := s.b()
		c.does("A's", "GET", "ctx:s")
		c.does("OK", "SET", "ctx:s", "C's")
	}},
	{24, "a write behind a read that waits", enforcing, longHolds, func(s *stage) {
		a := s.a()
		s.holds(a, nil)
		b, conn := s.meet("B", s.second)
		s.practises(b)
		conn.Send(harness.Encode("ECHO", "before") + harness.Encode("GET", "ctx:s") + harness.Encode("SET", "ctx:s", "B's") + harness.Encode("ECHO", "after"))
		b.hears("before")
		s.record.hasWaiters(1)
		wantValue(s.T, s.server, "ctx:s", "")
		s.gives(a, "A's")
		switch read := b.reply(); {
		case read == "A's" && s.mode != "fence": // it has waited
			b.hears("OK")
		case read == nil && s.mode != "lock": // it has not, and the write is stale
			b.hearsError("FENCED")
			wantValue(s.T, s.server, "ctx:s", "A's")
		default:
			s.Fatalf("B reads %v", read)
		}
		b.hears("after")
	}},
	{25, "a client that reads twice", everyMode, longHolds, func(s *stage) {
		a := s.a()
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		a.does(nil, "GET", "ctx:s")
		s.writes(a, false, "ctx:s", "A's")
		if n := s.server.CommandCalls(s.Context())["zadd"]; n > 0 {
			s.Errorf("it stood in line for its own session %d times", n)
		}
	}},
	{27, "a release that does not reach Redis", enforcing, []string{"wait: 20s", "lease: 60s", "max_hold: 10m", "idle: 10m"}, func(s *stage) {
		network := harness.StartRelay(s.T, s.server.Addr)
		far := harness.StartProxy(s.T, harness.ProxyOptions{Name: "the far one", Upstream: network.URL(), ConfigYAML: s.config})
		a, conn := s.meet("A", far)
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		network.Cut()
		far.WaitLog(s.T, "upstream connection broke between read and write")
		a.fails("FENCED", "SET", "ctx:s", "stale")
		conn.ExpectClosed()
		network.Restore()
		b := s.b()
		b.does(nil, "GET", "ctx:s")
		b.does("OK", "SET", "ctx:s", "B's")
		again, _ := s.meet("A again", far)
		again.does("B's", "GET", "ctx:s")
		s.writes(again, false, "ctx:s", "A's")
	}},
	{28, "a client that leaves with a command under way", enforcing, longHolds, func(s *stage) {
		a, conn := s.meet("A", s.first)
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		a.sends("BLPOP", "queue", "0")
		harness.Eventually(s.T, 0, func() bool { return blocked(s.T, s.server) }, "BLPOP blocks")
		_ = conn.Close()
		b := s.b()
		b.does(nil, "GET", "ctx:s")
		b.does("OK", "SET", "ctx:s", "B's")
	}},
	{30, "waiters some of which are killed", enforcing, endlessOptions, func(s *stage) {
		const n = 20
		a := s.a()
		s.holds(a, nil)
		var rest []*party
		for i := range n {
			b, conn := s.meet(fmt.Sprint("waiter ", i), s.second)
			s.waits(b, int64(len(rest)+1))
			if i%4 == 1 {
				conn.Reset()
				s.record.hasWaiters(int64(len(rest)))
				continue
			}
			rest = append(rest, b)
		}
		s.gives(a, "A's")
		before := any("A's")
		for _, b := range rest {
			s.served(b, before)
			before = b.name
		}
		wantValue(s.T, s.server, "ctx:s", rest[len(rest)-1].name)
		s.record.hasWaiters(0)
		s.record.becomesFree()
	}},
	{31, "many that wait", enforcing, endlessOptions, func(s *stage) {
		a := s.a()
		s.holds(a, nil)
		var all []*party
		fill := func(n int) int64 {
			for i := len(all); i < n; i++ {
				b, _ := s.meet(fmt.Sprint("waiter ", i), s.second)
				s.waits(b, int64(i+1))
				all = append(all, b)
			}
			return commandsForAWhile(s.T, s.server)
		}
		few, many := fill(5), fill(50)
		if many > 3*few+100 {
			s.Errorf("Redis runs %d commands while 50 wait, and %d while 5 do", many, few)
		}
		s.gives(a, "A's")
		before := any("A's")
		for _, b := range all {
			s.served(b, before)
			before = b.name
		}
	}},
	{32, "a dashboard that only reads", enforcing, append([]string{"readers: [dashboard]"}, longHolds...), func(s *stage) {
		a, reader := s.a(), s.b()
		reader.does("OK", "CLIENT", "SETNAME", "dashboard")
		s.practises(a)
		a.does(nil, "GET", "ctx:s")
		holder := s.record.holder()
		for range 50 {
			reader.does(nil, "GET", "ctx:s") // without waiting for A
			reader.does([]any{nil, nil}, "MGET", "ctx:s", "free")
		}
		if now := s.record.holder(); now != holder {
			s.Errorf("%q holds the session, want %q still", now, holder)
		}
		s.writes(a, false, "ctx:s", "A's")
		reader.does("A's", "GET", "ctx:s")
		if now := s.record.holder(); now != "" {
			s.Errorf("%q holds the session", now)
		}
	}},
	{34, "a user's key that is named like a record", everyMode, nil, func(s *stage) {
		a := s.a()
		a.does(nil, "GET", "ctx:s")
		a.does("OK", "SET", "ctx:s", "v")
		a.does("v", "GET", "ctx:s")
		for _, key := range s.record.redis.Keys(s.Context(), "fence-proxy:*").Val() {
			a.fails("FENCEDENIED", "DEL", key)
		}
		a.fails("FENCEDENIED", "SET", s.record.token, "x")
		a.does([]any{"ctx:s"}, "KEYS", "*")
		a.does([]any{"0", []any{"ctx:s"}}, "SCAN", "0", "COUNT", "1000")
	}},
	{43, "a record that is deleted", enforcing, longHolds, func(s *stage) {
		a, b := s.a(), s.b()
		s.practises(a)
		a.does("OK", "SET", "ctx:s", "before")
		last := s.record.grant()
		for _, came := range []bool{false, true} {
			a.sends("GET", "ctx:s")
			value := fmt.Sprint(a.reply())
			last = max(last, s.record.grant())
			s.record.loses(s.record.token, s.record.hold, s.record.queue)
			if came {
				b.does("OK", "SET", "ctx:s", "B's")
				value = "B's"
			}
			s.writes(a, true, "ctx:s", "A's, stale")
			a.does(value, "GET", "ctx:s")
			s.writes(a, false, "ctx:s", "A's")
			if grant := s.record.grant(); grant <= last {
				s.Errorf("grant %d comes after %d", grant, last)
			} else {
				last = grant
			}
		}
	}},
	{44, "sessions that are used once", everyMode, []string{"lease: 1s", "idle: 1s", "max_hold: 1s", "record_ttl: 2s"}, func(s *stage) {
		var commands strings.Builder
		const sessions = 200
		for i := range sessions {
			key := fmt.Sprint("ctx:", i)
			commands.WriteString(harness.Encode("GET", key))
			if i%2 == 0 {
				commands.WriteString(harness.Encode("SET", key, "v", "PX", "500"))
			}
		}
		a, conn := s.meet("A", s.first)
		conn.Send(commands.String())
		for range sessions + sessions/2 {
			a.reply()
		}
		all := s.server.Client()
		if n := len(all.Keys(s.Context(), "fence-proxy:*").Val()); (n > 0) == (s.mode == "pass") {
			s.Errorf("%d keys of records", n)
		}
		harness.Eventually(s.T, 0, func() bool { return all.DBSize(s.Context()).Val() == 0 }, "all keys are gone")
	}},
	{52, "a transaction the second half of which is stale", everyMode, longHolds, func(s *stage) {
		a, b := s.a(), s.b()
		a.does(nil, "GET", "ctx:s")
		s.record.loses(s.record.hold) // as if the lease had ended
		b.does("OK", "SET", "ctx:s", "B's")
		for _, first := range []string{"ctx:ok", "free"} {
			a.does("OK", "MULTI")
			a.does("QUEUED", "SET", first, "A's")
			a.does("QUEUED", "SET", "ctx:s", "A's, stale")
			if !s.enforces() {
				a.does([]any{"OK", "OK"}, "EXEC")
				continue
			}
			a.fails("FENCED", "EXEC")
			wantValue(s.T, s.server, first, "")
			wantValue(s.T, s.server, "ctx:s", "B's")
			a.does("B's", "GET", "ctx:s")
			s.record.loses(s.record.hold)
			b.does("OK", "SET", "ctx:s", "B's")
		}
		if s.enforces() {
			a.fails("FENCED", "SET", "ctx:s", "A's, stale")
		}
		a.does("OK", "MULTI")
		a.does("QUEUED", "SET", "ctx:ok", "A's")
		a.does([]any{"OK"}, "EXEC")
	}},
	{68, "scripts and functions", everyMode, longHolds, func(s *stage) {
		const set = "return redis.call('set', KEYS[1], ARGV[1])"
		const library = "#!lua name=lib\nredis.register_function('put', function(keys, args) return redis.call('set', keys[1], args[1]) end)"
		a, b := s.a(), s.b()
		functions := knows(s.T, s.server, "function")
		if functions {
			a.does("lib", "FUNCTION", "LOAD", library)
		}
		a.fails("NOSCRIPT", "EVALSHA", strings.Repeat("0", 40), "1", "ctx:s", "x")
		for _, call := range [][]string{
			{"EVAL", set, "1", "ctx:s"},
			{"EVALSHA", s.server.Client().ScriptLoad(s.Context(), set).Val(), "1", "ctx:s"},
			{"FCALL", "put", "1", "ctx:s"},
		} {
			if call[0] == "FCALL" && !functions {
				continue
			}
			b.does("OK", append(call, "before")...)
			a.does("before", "GET", "ctx:s")
			s.record.loses(s.record.hold)
			b.does("OK", append(call, "B's")...)
			if s.enforces() {
				a.fails("FENCED", append(call, "A's, stale")...)
				wantValue(s.T, s.server, "ctx:s", "B's")
			} else {
				a.does("OK", append(call, "A's")...)
			}
		}
		for _, undeclared := range [][]string{
			{"EVAL", "return redis.call('set', 'ctx:' .. ARGV[1], 'x')", "0", "made"},
			{"EVAL", "return redis.call('set', ARGV[1], 'x')", "0", "ctx:made"},
		} {
			if s.enforces() {
				a.fails("FENCEDENIED", undeclared...)
				wantValue(s.T, s.server, "ctx:made", "")
			} else {
				a.does("OK", undeclared...)
			}
		}
	}},
	{69, "writes of every kind", everyMode, longHolds, func(s *stage) {
		dump := s.server.Client()
		dump.Set(s.Context(), "free", "f", 0)
		dump.RPush(s.Context(), "list", "1")
		restored := dump.Dump(s.Context(), "free").Val()
		lacks := newLacking(s.T, s.server)
		getsWhatItReplaces := takes(s.T, s.server, "SET", "probe", "v", "GET") // since 6.2
		b := s.b()
		for _, write := range [][]string{
			{"SET", "ctx:s", "A's"},
			{"SETEX", "ctx:s", "100", "A's"},
			{"SET", "ctx:s", "A's", "XX", "GET"},
			{"GETDEL", "ctx:s"},
			{"GETSET", "ctx:s", "A's"},
			{"SETRANGE", "ctx:s", "0", "A's"},
			{"DEL", "ctx:s"},
			{"UNLINK", "ctx:s"},
			{"RENAME", "ctx:s", "free2"},
			{"RENAME", "free", "ctx:s"},
			{"COPY", "free", "ctx:s", "REPLACE"},
			{"RESTORE", "ctx:s", "0", restored, "REPLACE"},
			{"SORT", "list", "STORE", "ctx:s"},
			{"SORT", "list", "BY", "w_*", "STORE", "ctx:s"},
			{"MOVE", "ctx:s", "1"},
			{"MSET", "free", "f", "ctx:s", "A's"},
			{"EXPIRE", "ctx:s", "-1"},
			{"BITFIELD", "ctx:s", "SET", "u8", "0", "1"},
			{"SUNIONSTORE", "ctx:s", "none"},
			{"JSON.SET", "ctx:s", "$", "A's"},
			{"JSON.MERGE", "ctx:s", "$", "A's"},
		} {
			if lacks.any(s.T, [][]string{write}) || slices.Contains(write, "GET") && !getsWhatItReplaces {
				continue
			}
			dump.Set(s.Context(), "free", "f", 0)
			dump.Del(s.Context(), "ctx:s")
			b.does("OK", "SET", "ctx:s", "before")
			a := s.a()
			a.does("before", "GET", "ctx:s")
			s.record.loses(s.record.hold)
			b.does("OK", "SET", "ctx:s", "B's")
			a.sends(write...)
			switch reply := a.reply(); {
			case !s.enforces():
				if _, failed := reply.(harness.ReplyError); failed {
					s.Errorf("%q: %v", write, reply)
				}
			case !isError(reply, "FENCED"):
				s.Errorf("%q is stale: %v", write, reply)
			default:
				wantValue(s.T, s.server, "ctx:s", "B's")
			}
		}

		// A change of the expiry changes no value.
		a := s.a()
		b.does("OK", "SET", "ctx:s", "B's")
		a.does("B's", "GET", "ctx:s")
		a.does(int64(1), "EXPIRE", "ctx:s", "100")
		a.does("OK", "SET", "ctx:s", "A's")

		// A database that is emptied takes its records along: what was read before is stale.
		a.does("A's", "GET", "ctx:s")
		b.does("OK", "FLUSHDB")
		s.writes(a, true, "ctx:s", "A's, stale")
	}},
}

// endlessOptions are those of endless.
var endlessOptions = []string{"wait: 60s", "lease: 10m", "max_hold: 10m", "idle: 10m"}

func TestCasesInEveryMode(t *testing.T) {
	t.Parallel()
	json := harness.WithJSON(t)
	for _, story := range stories {
		for _, mode := range story.modes {
			t.Run(fmt.Sprintf("Case %d, %s, in mode %s", story.number, story.what, mode), func(t *testing.T) {
				t.Parallel()
				story.play(newStage(t, mode, story.options, json))
			})
		}
	}
}

// testFrozen has A read, stop for longer than any hold lasts, and write what is stale by then.
func testFrozen(s *stage, a *party, pause, resume func()) {
	s.Helper()
	b := s.b()
	b.does("OK", "SET", "ctx:s", "before")
	s.practises(a)
	a.does("before", "GET", "ctx:s")
	pause()
	a.sends("SET", "ctx:s", "A's, stale") // to be sent, or to be read, when A goes on
	b.does("before", "GET", "ctx:s")
	b.does("OK", "SET", "ctx:s", "B's")
	resume()
	if s.enforces() {
		a.hearsError("FENCED")
		wantValue(s.T, s.server, "ctx:s", "B's")
		return
	}
	a.hears("OK")
}

// testPool has a client read over one connection and write over another.
func testPool(s *stage, one bool) {
	s.Helper()
	reads, writes := s.a(), s.a()
	s.practises(reads)
	if one {
		for _, p := range []*party{reads, writes} {
			p.does("OK", "CLIENT", "SETNAME", "pool")
		}
		s.practises(reads)
	}
	for turn := range 3 {
		reads.sends("GET", "ctx:s")
		reads.reply()
		held := s.record.holder() != ""
		switch {
		case one || !held:
			writes.does("OK", "SET", "ctx:s", fmt.Sprint("turn ", turn))
		default: // it waits for the reader, but not for ever
			writes.fails("LOCKED", "SET", "ctx:s", "somebody else's")
			reads.does("OK", "SET", "ctx:s", fmt.Sprint("turn ", turn))
		}
		wantValue(s.T, s.server, "ctx:s", fmt.Sprint("turn ", turn))
	}
}

// Case 12 in every mode: replies, TTLs and the effects of NX, XX and GET are Redis's own.
func TestWritesWithATTLSoundAsAtRedisInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range everyMode {
		w := startTwins(t, guarding("mode: "+mode, "writes_per_read: many"))
		for _, protocol := range []string{"2", "3"} {
			t.Run(mode, func(t *testing.T) {
				w.one(t, protocol, `
					A: SET ctx:s v EXAT 4102444800 ; EXPIRETIME ctx:s ; GET ctx:s ; SET ctx:s w KEEPTTL ; EXPIRETIME ctx:s => 5
					A: SET ctx:s x NX ; SET ctx:s y NX GET ; SET ctx:s z XX GET ; EXPIRETIME ctx:s ; SET ctx:t z XX GET ; SET ctx:t z NX GET => 6
					A: SETEX ctx:s 60 v ; PERSIST ctx:s ; TTL ctx:s ; PSETEX ctx:s 60000 v ; PERSIST ctx:s ; SET ctx:s v EX 0 ; SET ctx:s v KEEPTTL EX 3 => 7
					A: GETEX ctx:s EXAT 4102444800 ; EXPIRETIME ctx:s ; GETEX ctx:s PERSIST ; EXPIRETIME ctx:s ; GETEX ctx:none EX 10 => 5
					A: SET ctx:s v PXAT 4102444800000 ; GETSET ctx:s w ; TTL ctx:s ; GETDEL ctx:s ; TTL ctx:s => 5
					A: MULTI ; SET ctx:s v EXAT 4102444800 ; GETEX ctx:s PERSIST ; EXPIREAT ctx:s 4102444801 ; EXEC ; EXPIRETIME ctx:s => 6`)
			})
		}
	}
}
