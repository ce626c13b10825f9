//go:build integration

package integration

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// pair is two proxies of one Redis.
type pair struct {
	redis         *harness.Redis
	first, second *harness.Proxy
}

func startPair(t *testing.T, config string) *pair {
	t.Helper()
	server := harness.StartRedis(t)
	return &pair{
		redis:  server,
		first:  harness.StartProxy(t, harness.ProxyOptions{Name: "first", Redis: server, ConfigYAML: config}),
		second: harness.StartProxy(t, harness.ProxyOptions{Name: "second", Redis: server, ConfigYAML: config}),
	}
}

// Cases 16 and 17. Nobody would wait for as long as the lease takes.
func TestClientThatDiesGivesItsSessionToTheNextAtOnce(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	for _, death := range []struct {
		name string
		hold func(t *testing.T, addr string) (holder *party, die func())
	}{
		{"its process is killed", func(t *testing.T, addr string) (*party, func()) {
			t.Helper()
			a, process := spawn(t, "A", addr)
			return a, process.Kill
		}},
		{"it closes its connection", func(t *testing.T, addr string) (*party, func()) {
			t.Helper()
			a, conn := connect(t, "A", addr)
			return a, func() { _ = conn.Close() }
		}},
		{"its connection is reset", func(t *testing.T, addr string) (*party, func()) {
			t.Helper()
			a, conn := connect(t, "A", addr)
			return a, conn.Reset
		}},
	} {
		t.Run(death.name, func(t *testing.T) {
			proxies := startPair(t, guarding(longHolds...))
			proxies.first.WaitLog(t, "after a proxy is killed its holds last until the lease (1m) ends")
			a, die := death.hold(t, proxies.first.Addr)
			a.does(nil, "GET", key)
			b, _ := connect(t, "B", proxies.second.Addr)
			b.sends("GET", key)
			recordOf(t, proxies.redis, key).hasWaiters(1)
			die()
			b.hears(nil)
			b.does("OK", "SET", key, "B's")
		})
	}
}

// Case 16. A killed proxy can't release anything, so its lease has to end, and the next owner comes no sooner: Redis
// says in which order it happens. Who gives up before that may try again.
func TestSessionOfAKilledProxyIsGrantedOnceItsLeaseHasEnded(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, guarding("wait: 50ms", "lease: 1s", "max_hold: 10m", "idle: 10m"))
	record := recordOf(t, proxies.redis, key)
	a, conn := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	a.does(nil, "GET", key)
	first := record.grant()
	events := record.events()
	proxies.first.Kill()
	conn.ExpectClosed()
	harness.Eventually(t, 0, func() bool {
		b.sends("GET", key)
		reply := b.reply()
		if reply == nil {
			return true
		}
		if !isError(reply, "LOCKED") {
			t.Fatalf("B hears %v, want nothing but -LOCKED until it is granted", reply)
		}
		return false
	}, "B is granted")
	if second := record.grant(); second <= first {
		t.Errorf("B is granted %d after %d", second, first)
	}
	var happened []string
	for event := ""; event != "set"; {
		if event = nextEvent(t, events); event != "expire" { // a last renewal
			happened = append(happened, event)
		}
	}
	if len(happened) != 2 || happened[0] != "expired" {
		t.Errorf("the hold saw %v, want it expired, then set by B", happened)
	}
	b.does("OK", "SET", key, "B's")
}

// Case 41.
func TestSigtermLetsAnOpenSequenceCommit(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, "drain: 10m\n"+guarding(longHolds...))
	record := recordOf(t, proxies.redis, key)
	a, conn := connect(t, "A", proxies.first.Addr)
	_, idle := connect(t, "a client without a sequence", proxies.first.Addr)
	a.does(nil, "GET", key)
	proxies.first.Terminate()
	harness.Eventually(t, 0, func() bool { return !accepts(proxies.first.Addr) }, "no new connection is accepted")
	if record.holder() == "" {
		t.Error("the open sequence has lost its hold")
	}
	a.does(nil, "GET", key)
	a.does("OK", "SET", key, "A's")
	if code := proxies.first.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	conn.ExpectClosed()
	idle.ExpectClosed()
	wantValue(t, proxies.redis, key, "A's")
	if holder := record.holder(); holder != "" {
		t.Errorf("%s still holds the session", holder)
	}
}

func TestSigtermEndsAProxyAtOnceIfNoSequenceIsOpen(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, "drain: 10m\n"+guarding(longHolds...))
	a, conn := connect(t, "A", proxies.first.Addr)
	a.does(nil, "GET", key)
	a.does("OK", "SET", key, "A's")
	proxies.first.Terminate()
	if code := proxies.first.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	conn.ExpectClosed()
}

// Case 41.
func TestSigtermReleasesWhatIsStillHeldWhenTheDrainIsOver(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	proxies := startPair(t, "drain: 100ms\n"+guarding(longHolds...))
	record := recordOf(t, proxies.redis, key)
	a, holding := connect(t, "A", proxies.first.Addr)
	a.does("OK", "SET", key, "before")
	a.does("before", "GET", key)
	for n := range 300 {
		a.sends("GET", fmt.Sprint("ctx:more:", n))
	}
	for range 300 {
		a.hears(nil)
	}
	b, waiting := connect(t, "B", proxies.first.Addr)
	b.sends("GET", key)
	record.hasWaiters(1)
	c, _ := connect(t, "C", proxies.second.Addr)
	c.sends("GET", key)
	record.hasWaiters(2)
	proxies.first.Terminate()
	if code := proxies.first.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	holding.ExpectClosed()
	// B is told, or, being the next in line when A's hold is released, it is served, and its own hold ends: one of them.
	if told := string(waiting.ReadReply()); !strings.HasPrefix(told, "-FENCEDOWN ") && told != "$6\r\nbefore\r\n" {
		t.Errorf("B, whom the proxy left in line, hears %q", told)
	}
	waiting.ExpectClosed()
	c.hears("before") // the lease would have a minute to go
	c.does("OK", "SET", key, "C's")
	wantValue(t, proxies.redis, key, "C's")
	held, err := proxies.redis.Client().Keys(t.Context(), "fence-proxy:*:h").Result()
	if err != nil || len(held) > 0 {
		t.Errorf("%d sessions are still held (%v)", len(held), err)
	}
}

// Case 19.
func TestHoldOfAClientThatOnlyPingsEndsAtMaxHold(t *testing.T) {
	t.Parallel()
	proxies := startPair(t, guarding("wait: 20s", "lease: 200ms", "max_hold: 800ms", "idle: 10m"))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	for _, came := range []bool{false, true} {
		name := "nobody came"
		if came {
			name = "its successor has come"
		}
		t.Run(name, func(t *testing.T) {
			key := "ctx:" + name
			record := recordOf(t, proxies.redis, key)
			a.does("OK", "SET", key, "before")
			a.does("before", "GET", key)
			first := record.grant()
			harness.Eventually(t, 0, func() bool {
				a.does("PONG", "PING")
				return record.holder() == "" && record.grant() > first // used up, not only without a lease
			}, "the hold ends")
			proxies.first.WaitLog(t, "hold reached max_hold and was revoked")
			if came {
				b.does("before", "GET", key)
			}
			a.fails("FENCED", "SET", key, "A's, stale")
			wantValue(t, proxies.redis, key, "before")
		})
	}
}

// Case 20. A renewal that gets no answer is given up while there is lease left to try again in, and renewals go on.
func TestRenewalSurvivesARedisThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	const key, failure = "ctx:s", "lease not renewed, trying again"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding("lease: 2s", "max_hold: 10m", "idle: 10m"),
	})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxy.Addr)
	a.does("OK", "SET", key, "before")
	events := record.events()
	harness.Eventually(t, 0, func() bool { // a machine that stalls may miss the lease now and then
		a.does("before", "GET", key)
		failures := strings.Count(proxy.Logs(), failure)
		server.Pause()
		harness.Eventually(t, 0, func() bool { return strings.Count(proxy.Logs(), failure) > failures }, "a renewal fails")
		server.Resume()
		for line := range strings.Lines(proxy.Logs()) {
			if strings.Contains(line, failure) && !strings.Contains(line, "left=-") {
				return true
			}
		}
		return false
	}, "a renewal fails while there is lease left")
	renewals(t, events, 2)
	a.does("OK", "SET", key, "A's")
	wantValue(t, server, key, "A's")
}

// Case 20.
func TestRenewalGoesOnAfterTheLockWasLostAndTakenAgain(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding("lease: 300ms", "max_hold: 10m", "idle: 10m"),
	})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", key)
	record.loses(record.token, record.hold)
	proxy.WaitLog(t, "hold lost") // to a renewal
	a.fails("FENCED", "SET", key, "A's, stale")
	events := record.events()
	a.does(nil, "GET", key)
	renewals(t, events, 3)
	a.does("OK", "SET", key, "A's")
	wantValue(t, server, key, "A's")
}

// A renewal is no news for a write that is still to come: it costs the one round trip that it costs without.
func TestRenewalDoesNotDisturbTheWriteThatFollows(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding("lease: 300ms", "max_hold: 10m", "idle: 10m"),
	})
	events := recordOf(t, server, key).events()
	a, _ := connect(t, "A", proxy.Addr)
	a.does(nil, "GET", key)
	renewals(t, events, 2)
	before := server.CommandCalls(t.Context())
	a.does("OK", "SET", key, "A's")
	if n := server.CommandCalls(t.Context())["exec"] - before["exec"]; n != 1 {
		t.Errorf("the write took %d transactions, want 1", n)
	}
}

// renewals waits for so many renewals of the lease.
func renewals(t *testing.T, events <-chan *redis.Message, n int) {
	t.Helper()
	last := ""
	for n > 0 {
		event := nextEvent(t, events)
		if event == "expire" && last != "set" { // SET … PX is one of each
			n--
		}
		last = event
	}
}

// Case 27. The release is under way when the connection breaks: on its way to Redis, or its reply is on its way back.
func TestReleaseThatBrokeIsTriedAgain(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	for _, broken := range []struct {
		name      string
		direction harness.Direction
		bytes     int
	}{
		{"before it reached Redis", harness.ToServer, 10},
		{"after it was carried out", harness.ToClient, 0},
	} {
		t.Run(broken.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			network := harness.StartRelay(t, server.Addr)
			config := guarding(longHolds...)
			proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Upstream: network.URL(), ConfigYAML: config})
			proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: config})
			a, conn := connect(t, "A", proxyA.Addr)
			b, _ := connect(t, "B", proxyB.Addr)
			a.does(nil, "GET", key)
			b.sends("GET", key)
			recordOf(t, server, key).hasWaiters(1)
			cut := network.CutAfterBytes(broken.direction, broken.bytes)
			_ = conn.Close()
			<-cut
			b.hears(nil)
			b.does("OK", "SET", key, "B's")
		})
	}
}

// Case 27. While Redis is out of reach nobody can release anything, and the lock is still known.
func TestReleaseWaitsUntilRedisIsBackInReach(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server := harness.StartRedis(t)
	network := harness.StartRelay(t, server.Addr)
	config := guarding("wait: 20s", "lease: 60s", "max_hold: 10m", "idle: 10m")
	proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Upstream: network.URL(), ConfigYAML: config})
	proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, ConfigYAML: config})
	record := recordOf(t, server, key)
	a, conn := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	a.does(nil, "GET", key)
	holder := record.holder()
	network.Cut()
	proxyA.WaitLog(t, "upstream connection broke between read and write")
	a.fails("FENCED", "SET", key, "stale")
	conn.ExpectClosed()
	b.sends("GET", key)
	record.hasWaiters(1)
	if now := record.holder(); now != holder {
		t.Fatalf("%q holds the session, want %q still", now, holder)
	}
	network.Restore()
	b.hears(nil)
	b.does("OK", "SET", key, "B's")
	again, _ := connect(t, "A, connected again,", proxyA.Addr)
	again.does("B's", "GET", key)
	again.does("OK", "SET", key, "A's")
	wantValue(t, server, key, "A's")
}

// Case 28.
func TestClientThatLeavesInTheMiddleOfACommandReleasesItsHold(t *testing.T) {
	t.Parallel()
	const key, other = "ctx:s", "ctx:other"
	for _, inFlight := range []struct {
		name string
		send func(t *testing.T, proxies *pair, a *party)
		then func(t *testing.T, proxies *pair)
	}{
		{
			name: "that blocks",
			send: func(t *testing.T, proxies *pair, a *party) {
				t.Helper()
				a.sends("BLPOP", "queue", "0")
				harness.Eventually(t, 0, func() bool { return blocked(t, proxies.redis) }, "BLPOP blocks")
			},
		},
		{
			name: "that waits for another session",
			send: func(t *testing.T, proxies *pair, a *party) {
				t.Helper()
				c, _ := connect(t, "C", proxies.second.Addr)
				c.does(nil, "GET", other)
				a.sends("GET", other)
				recordOf(t, proxies.redis, other).hasWaiters(1)
			},
			then: func(t *testing.T, proxies *pair) {
				t.Helper()
				recordOf(t, proxies.redis, other).hasWaiters(0)
			},
		},
		{
			name: "that Redis does not answer",
			send: func(_ *testing.T, proxies *pair, a *party) {
				proxies.redis.Pause()
				a.sends("SET", key, "A's")
			},
			then: func(t *testing.T, proxies *pair) {
				t.Helper()
				proxies.first.WaitLog(t, "client left")
				proxies.redis.Resume()
			},
		},
	} {
		t.Run(inFlight.name, func(t *testing.T) {
			proxies := startPair(t, "log:\n  level: debug\n"+guarding(longHolds...))
			a, conn := connect(t, "A", proxies.first.Addr)
			a.does(nil, "GET", key)
			b, _ := connect(t, "B", proxies.second.Addr)
			inFlight.send(t, proxies, a)
			_ = conn.Close()
			if inFlight.then != nil {
				inFlight.then(t, proxies)
			}
			b.sends("GET", key)
			if reply := b.reply(); reply != nil && reply != "A's" { // whose SET may have been carried out
				t.Fatalf("B hears %v", reply)
			}
			b.does("OK", "SET", key, "B's")
			wantValue(t, proxies.redis, key, "B's")
		})
	}
}

// The hold of a sequence that never writes ends after idle, and what it read may still be written: the store knows
// whether anybody came in between.
func TestIdleEndsTheHoldAndNotTheSequence(t *testing.T) {
	t.Parallel()
	proxies := startPair(t, guarding("wait: 20s", "lease: 60s", "max_hold: 10m", "idle: 200ms"))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	for _, c := range []struct {
		name string
		came func(key string) // in between
		next func(key string) // what A does then
		want string
	}{
		{
			"nobody came and it writes", nil,
			func(key string) { a.does("OK", "SET", key, "A's") }, "A's",
		},
		{
			"nobody came and it reads again", nil,
			func(key string) { a.does("before", "GET", key); a.does("OK", "SET", key, "A's") }, "A's",
		},
		{
			"somebody read and it writes",
			func(key string) { b.does("before", "GET", key) },
			func(key string) { a.fails("FENCED", "SET", key, "A's, stale") }, "before",
		},
		{
			"somebody wrote and it writes",
			func(key string) { b.does("before", "GET", key); b.does("OK", "SET", key, "B's") },
			func(key string) { a.fails("FENCED", "SET", key, "A's, stale") }, "B's",
		},
		{
			"somebody wrote blindly and it writes",
			func(key string) { b.does("OK", "SET", key, "B's") },
			func(key string) { a.fails("FENCED", "SET", key, "A's, stale") }, "B's",
		},
		{
			"somebody wrote and it reads again",
			func(key string) { b.does("before", "GET", key); b.does("OK", "SET", key, "B's") },
			func(key string) { a.does("B's", "GET", key); a.does("OK", "SET", key, "A's") }, "A's",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := "ctx:" + c.name
			a.does("OK", "SET", key, "before")
			a.does("before", "GET", key)
			recordOf(t, proxies.redis, key).becomesFree()
			if c.came != nil {
				c.came(key)
			}
			c.next(key)
			wantValue(t, proxies.redis, key, c.want)
		})
	}
}

// What is written depends on all that was read in the session, not only on what was read again.
func TestReadingOneKeyAgainDoesNotMakeTheReadOfAnotherGood(t *testing.T) {
	t.Parallel()
	const plan, notes = "ctx:s:plan", "ctx:s:notes"
	proxies := startPair(t, guarding(`session: "ctx:<session>:*"`, "wait: 20s", "lease: 60s", "max_hold: 10m", "idle: 200ms"))
	a, _ := connect(t, "A", proxies.first.Addr)
	b, _ := connect(t, "B", proxies.second.Addr)
	a.does(nil, "GET", plan)
	a.does(nil, "GET", notes)
	recordOf(t, proxies.redis, "s").becomesFree()
	b.does(nil, "GET", notes)
	b.does("OK", "SET", notes, "B's")
	a.does(nil, "GET", plan)
	a.fails("FENCED", "SET", plan, "A's, after other notes")
	wantValue(t, proxies.redis, plan, "")
	a.does(nil, "GET", plan)
	a.does("B's", "GET", notes)
	a.does("OK", "SET", plan, "A's, after B's notes")
	wantValue(t, proxies.redis, plan, "A's, after B's notes")
}

// With owner: proxy the connections of a pool are one owner: that one of them closes does not make a write that comes
// over another a blind one.
func TestReadOfAProxysOwnerOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	for _, came := range []bool{false, true} {
		name := "nobody came"
		if came {
			name = "its successor has written"
		}
		t.Run(name, func(t *testing.T) {
			const key = "ctx:s"
			proxies := startPair(t, guarding(append([]string{"owner: proxy"}, longHolds...)...))
			record := recordOf(t, proxies.redis, key)
			a, conn := connect(t, "A's first connection", proxies.first.Addr)
			other, _ := connect(t, "A's other connection", proxies.first.Addr)
			b, _ := connect(t, "B", proxies.second.Addr)
			a.does(nil, "GET", key)
			_ = conn.Close()
			record.becomesFree()
			if !came {
				other.does("OK", "SET", key, "A's")
				wantValue(t, proxies.redis, key, "A's")
				return
			}
			b.does(nil, "GET", key)
			b.does("OK", "SET", key, "B's")
			other.fails("FENCED", "SET", key, "A's, stale")
			wantValue(t, proxies.redis, key, "B's")
		})
	}
}

// accepts reports whether somebody listens there.
func accepts(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// blocked reports whether a client of the server is blocked.
func blocked(t *testing.T, server *harness.Redis) bool {
	t.Helper()
	info, err := server.Client().Info(t.Context(), "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(info, "blocked_clients:1\r\n")
}
