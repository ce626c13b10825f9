//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// These tests fill the store's queue one waiter at a time, so that its order is known, and look
// at it straight at Redis. Nothing ends by itself while they run: a hold that is left behind
// stays, and whoever waits for it fails the test.
func endless(wait string, options ...string) string {
	return guarding(append(options, "wait: "+wait, "lease: 10m", "max_hold: 10m", "idle: 10m")...)
}

// line is the clients that wait for one key.
type line struct {
	*record
	key string
}

func lineFor(t *testing.T, server *harness.Redis, key string) *line {
	t.Helper()
	return &line{record: recordOf(t, server, key), key: key}
}

// waiter is a client in line.
type waiter struct {
	*party
	conn  *harness.RawConn
	place place
}

// place is an entry of the store's queue.
type place struct {
	id    string // of the waiter, in hand-overs
	owner string // who holds the session once the waiter has it
}

// places lists who waits.
func (l *line) places() []place {
	l.t.Helper()
	entries, err := l.redis.ZRange(l.t.Context(), l.queue, 0, -1).Result()
	if err != nil {
		l.t.Fatalf("look at the queue: %v", err)
	}
	var list []place
	for _, entry := range entries {
		part := strings.SplitN(entry, "\n", 3)
		list = append(list, place{id: part[0], owner: part[1]})
	}
	return list
}

// join sends a GET that has to wait, and returns once it stands at the end of the line.
func (l *line) join(name string, p *harness.Proxy) *waiter {
	l.t.Helper()
	return l.joinWith(name, p, harness.Encode("GET", l.key))
}

func (l *line) joinWith(name string, p *harness.Proxy, commands string) *waiter {
	l.t.Helper()
	before := l.places()
	w := &waiter{}
	w.party, w.conn = connect(l.t, name, p.Addr)
	w.conn.Send(commands)
	l.hasWaiters(int64(len(before) + 1))
	w.place = l.places()[len(before)]
	return w
}

// serve lets the waiters, one after the other, read what their predecessor has written, write
// their own name and so release the session.
func (l *line) serve(waiters []*waiter, previous string) {
	l.t.Helper()
	for _, w := range waiters {
		w.hears(previous)
		w.does("OK", "SET", l.key, w.name)
		previous = w.name
	}
}

// isEmpty fails the test if anybody holds the session or waits for it.
func (l *line) isEmpty() {
	l.t.Helper()
	if owner, waiting := l.holder(), l.places(); owner != "" || len(waiting) > 0 {
		l.t.Fatalf("%q holds the session and %v wait for it, want nobody", owner, waiting)
	}
}

// leave closes the connections of some of the waiters, every other one as a crashing client does,
// and returns those that stay.
func leave(waiters []*waiter, gone ...int) (rest []*waiter) {
	for i, w := range waiters {
		switch at := slices.Index(gone, i); {
		case at < 0:
			rest = append(rest, w)
		case at%2 == 0:
			_ = w.conn.Close()
		default:
			w.conn.Reset()
		}
	}
	return rest
}

func placesOf(waiters []*waiter) []place {
	var list []place
	for _, w := range waiters {
		list = append(list, w.place)
	}
	return list
}

// handovers hears of every session that is handed to a waiter: each gets an element in the list
// that the waiter blocks on.
type handovers struct {
	t     *testing.T
	redis *redis.Client
	sub   *redis.PubSub
}

const wakeLists = "__keyspace@0__:fence-proxy:*:w:"

func hearOfHandovers(t *testing.T, server *harness.Redis) *handovers {
	t.Helper()
	h := &handovers{t: t, redis: server.Client()}
	if err := h.redis.ConfigSet(t.Context(), "notify-keyspace-events", "Kl").Err(); err != nil {
		t.Fatalf("switch notifications on: %v", err)
	}
	h.sub = h.redis.PSubscribe(t.Context(), wakeLists+"*")
	t.Cleanup(func() { _ = h.sub.Close() })
	if _, err := h.sub.Receive(t.Context()); err != nil {
		t.Fatalf("subscribe to hand-overs: %v", err)
	}
	return h
}

// receivers lists to whom the session was handed since the last call.
func (h *handovers) receivers() []string {
	h.t.Helper()
	const end = "that is all"
	if err := h.redis.Publish(h.t.Context(), wakeLists, end).Err(); err != nil {
		h.t.Fatalf("publish: %v", err)
	}
	var ids []string
	for {
		m, err := h.sub.ReceiveMessage(h.t.Context())
		if err != nil {
			h.t.Fatalf("receive hand-overs: %v", err)
		}
		switch m.Payload {
		case end:
			return ids
		case "rpush":
			ids = append(ids, m.Channel[strings.LastIndex(m.Channel, ":")+1:])
		}
	}
}

// went fails the test unless the hand-overs so far went to these waiters, in this order.
func (h *handovers) went(to ...*waiter) {
	h.t.Helper()
	var want []string
	for _, w := range to {
		want = append(want, w.place.id)
	}
	if got := h.receivers(); !slices.Equal(got, want) {
		h.t.Fatalf("the session was handed to %d waiters %q, want %d %q", len(got), got, len(want), want)
	}
}

// Cases 30 and 31.
func TestTwoHundredWaitersCostNothingAndAreServedInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxies := [2]*harness.Proxy{
		harness.StartProxy(t, harness.ProxyOptions{Name: "first", Redis: server, ConfigYAML: endless("60s")}),
		harness.StartProxy(t, harness.ProxyOptions{Name: "second", Redis: server, ConfigYAML: endless("60s")}),
	}
	line := lineFor(t, server, "ctx:s")
	handed := hearOfHandovers(t, server)
	holder, _ := connect(t, "holder", proxies[0].Addr)
	holder.does(nil, "GET", line.key)

	var waiters []*waiter
	fill := func(n int) {
		for i := len(waiters); i < n; i++ {
			waiters = append(waiters, line.join(fmt.Sprintf("waiter %d", i), proxies[i%2]))
		}
	}
	fill(20)
	few := commandsForAWhile(t, server)
	fill(200)
	many := commandsForAWhile(t, server)
	t.Logf("Redis runs %d commands while 20 wait, %d while 200 do", few, many)
	if many > 3*few+100 {
		t.Errorf("Redis runs %d commands while 200 wait, and %d while 20 do: they grow with the number of waiters", many, few)
	}

	rest := leave(waiters, 0, 57, 58, 123, 199)
	line.hasWaiters(195)
	if !slices.Equal(line.places(), placesOf(rest)) {
		t.Fatal("with five gone, the line is not the others in their order")
	}
	holder.does("OK", "SET", line.key, "holder")
	line.serve(rest, "holder")
	handed.went(rest...)
	line.isEmpty()
}

// commandsForAWhile is how many commands Redis runs in a few seconds: long enough for several
// rounds of the slow questions that make up for lost wake-ups.
func commandsForAWhile(t *testing.T, server *harness.Redis) int64 {
	t.Helper()
	before := server.CommandCount(t.Context())
	time.Sleep(3 * time.Second)
	return server.CommandCount(t.Context()) - before
}

// Case 30.
func TestKilledWaitersLeaveTheLineToTheOthersInTheirOrder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	handed := hearOfHandovers(t, server)
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", line.key)

	var waiters []*waiter
	for i := range 20 {
		waiters = append(waiters, line.join(fmt.Sprintf("waiter %d", i), proxy))
	}
	rest := leave(waiters, 0, 1, 10, 19)
	line.hasWaiters(16)
	holder.does("OK", "SET", line.key, "holder")
	line.serve(rest[:7], "holder")

	// The fifth is killed when it has been served, and another while it is next.
	rest[7].hears(rest[6].name)
	_ = rest[8].conn.Close()
	line.hasWaiters(7)
	rest[7].conn.Reset()
	line.serve(rest[9:], rest[6].name)
	handed.went(slices.Delete(slices.Clone(rest), 8, 9)...)
	line.isEmpty()
}

// Case 21.
func TestAClientThatLeavesTheLineIsNeverGranted(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)

	for how, leave := range map[string]func(*harness.RawConn){
		"by closing":   func(c *harness.RawConn) { _ = c.Close() },
		"by resetting": func(c *harness.RawConn) { c.Reset() },
		"with more sent than is read ahead": func(c *harness.RawConn) {
			c.Send(strings.Repeat(harness.Encode("PING"), 80_000))
			_ = c.Close()
		},
	} {
		t.Run(how, func(t *testing.T) {
			line := lineFor(t, server, "ctx:s")
			handed := hearOfHandovers(t, server)
			holder, _ := connect(t, "holder", a.Addr)
			holder.does("OK", "SET", line.key, "before")
			holder.does("before", "GET", line.key)
			leave(line.join("the one that leaves", b).conn)
			line.hasWaiters(0)

			// It tries again over a new connection, and gives up again.
			again := line.join("the retry", b)
			if waiting := line.places(); len(waiting) != 1 {
				t.Fatalf("the retry stands in line %d times", len(waiting))
			}
			leave(again.conn)
			line.hasWaiters(0)

			holder.does("OK", "SET", line.key, "holder")
			line.isEmpty()
			next, _ := connect(t, "the next client", b.Addr)
			next.does("holder", "GET", line.key)
			next.does("OK", "SET", line.key, "next")
			handed.went()
		})
	}
}

// Case 21, when it is the proxy that ends the wait.
func TestAClientThatWaitedInVainIsNeverGranted(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("200ms")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	handed := hearOfHandovers(t, server)
	holder, _ := connect(t, "holder", a.Addr)
	holder.does(nil, "GET", line.key)

	other, _ := connect(t, "the other", b.Addr)
	for _, command := range [][]string{{"GET", line.key}, {"GET", line.key}, {"SET", line.key, "late"}, {"APPEND", line.key, "late"}} {
		other.fails("LOCKED", command...)
		if waiting := line.places(); len(waiting) > 0 {
			t.Fatalf("after %q was refused, %v still wait", command, waiting)
		}
	}
	holder.does("OK", "SET", line.key, "holder")
	line.isEmpty()
	handed.went()
	other.does("holder", "GET", line.key)
}

// Case 21: the moment at which the client leaves moves across that of the hand-over.
func TestAClientThatLeavesAsItIsServedLeavesNoHoldBehind(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", a.Addr)
	next, _ := connect(t, "the next client", b.Addr)
	for range 60 {
		holder.sends("GET", line.key)
		holder.reply()
		leaves := line.join("the one that leaves", b)
		left := make(chan struct{})
		pause := rand.N(3 * time.Millisecond)
		go func() {
			defer close(left)
			time.Sleep(pause)
			_ = leaves.conn.Close()
		}()
		holder.does("OK", "SET", line.key, "holder")
		<-left
		next.does("holder", "GET", line.key)
		next.does("OK", "SET", line.key, "next")
	}
	harness.Eventually(t, 0, func() bool { return line.holder() == "" && len(line.places()) == 0 }, "nobody holds the session or waits")
}

// Case 28: with the store far away, the client leaves while the answer is on its way.
func TestAClientThatLeavesBeforeItsGrantArrivesLeavesNoHoldBehind(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr, harness.WithDelay(160*time.Millisecond))
	far := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: endless("60s")})

	for _, command := range [][]string{{"GET", "ctx:s"}, {"MGET", "ctx:s", "ctx:other"}, {"SET", "ctx:s", "v"}} {
		t.Run(command[0], func(t *testing.T) {
			session, other := recordOf(t, server, "ctx:s"), recordOf(t, server, "ctx:other")
			before := session.grant()
			leaves := harness.Dial(t, far.Addr)
			leaves.Send(harness.Encode(command...))
			harness.Eventually(t, 0, func() bool { return session.grant() > before }, "the session is granted")
			_ = leaves.Close()
			session.becomesFree()
			other.becomesFree()
		})
	}
}

// Case 24.
func TestAPipelinedWriteDoesNotRunBeforeTheReadInFrontOfItIsGranted(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", a.Addr)
	holder.does("OK", "SET", line.key, "old")
	holder.does("old", "GET", line.key)

	other := line.joinWith("the pipeline", b, harness.Encode("ECHO", "before")+harness.Encode("GET", line.key)+
		harness.Encode("SET", line.key, "pipelined")+harness.Encode("ECHO", "after")+harness.Encode("GET", "free"))
	other.hears("before")
	other.conn.ExpectSilence(100 * time.Millisecond)
	wantValue(t, server, line.key, "old")
	holder.does("OK", "SET", line.key, "holder")
	for _, want := range []any{"holder", "OK", "after", nil} {
		other.hears(want)
	}
	wantValue(t, server, line.key, "pipelined")
}

// So a place that stands in line though it was left, after a failover say, is told from one that its client has taken since.
func TestNoTwoWaitsOfAClientHaveOneName(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", "ctx:s")
	names := map[string]bool{}
	b := line.join("B", proxy)
	for range 3 {
		names[strings.TrimSuffix(line.places()[0].id, "b")] = true
		holder.does("OK", "SET", "ctx:s", "v")
		b.hears("v")
		b.does("OK", "SET", "ctx:s", "v")
		holder.does("v", "GET", "ctx:s")
		b.conn.Send(harness.Encode("GET", "ctx:s"))
		line.hasWaiters(1)
	}
	if len(names) != 3 {
		t.Errorf("three waits are called %v", names)
	}
	holder.does("OK", "SET", "ctx:s", "v")
	b.hears("v")
}

// Case 25.
func TestAnOwnerThatReadsTwiceDoesNotWaitForItself(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	session := recordOf(t, server, "ctx:s")
	client, _ := connect(t, "client", proxy.Addr)
	client.does(nil, "GET", "ctx:s")
	token, owner := session.get(session.token), session.holder()
	client.does(nil, "GET", "ctx:s")
	if again := session.get(session.token); token == "" || again != token {
		t.Errorf("the second GET changed the record from %q to %q", token, again)
	}
	if again := session.holder(); owner == "" || again != owner {
		t.Errorf("the second GET changed the holder from %q to %q", owner, again)
	}
	grant := session.grant()
	client.does("OK", "SET", "ctx:s", "v")
	if got, want := session.get(session.token), fmt.Sprintf("%d %d 1 redis", grant, grant); got != want {
		t.Errorf("after the SET the record is %q, want %q: its token is the first of the grant it was read under", got, want)
	}
	if n := server.CommandCalls(t.Context())["zadd"]; n > 0 {
		t.Errorf("the owner stood in line for its own session %d times", n)
	}
}

// A write that follows no read has no privilege.
func TestABlindWriteStandsInLineLikeARead(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	a, b := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", a.Addr)
	holder.does(nil, "GET", line.key)
	reader := line.join("reader", b)
	writer := line.joinWith("writer", a, harness.Encode("SET", line.key, "blind"))
	appender := line.joinWith("appender", b, harness.Encode("APPEND", line.key, ", appended"))

	holder.does("OK", "SET", line.key, "holder")
	reader.hears("holder")
	wantValue(t, server, line.key, "holder") // no blind write has overtaken the reader
	if waiting := line.places(); !slices.Equal(waiting, placesOf([]*waiter{writer, appender})) {
		t.Fatalf("behind the reader stand %v", waiting)
	}
	reader.does("OK", "SET", line.key, "reader")
	writer.hears("OK")
	appender.hears(int64(len("blind, appended")))
	wantValue(t, server, line.key, "blind, appended")
}

func TestTheWaitersOfAKilledProxyAreSkipped(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	lives, dies := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", lives.Addr)
	holder.does(nil, "GET", line.key)

	line.join("ghost 1", dies)
	line.join("ghost 2", dies)
	first := line.join("first", lives)
	line.join("ghost 3", dies)
	second := line.join("second", lives)
	dies.Kill()
	line.hasListeners(1)

	// Who is next is decided with the write.
	holder.does("OK", "SET", line.key, "holder")
	if owner := line.holder(); owner != first.place.owner {
		t.Fatalf("the session went to %q, want the first that lives, %q", owner, first.place.owner)
	}
	line.serve([]*waiter{first}, "holder")
	if owner := line.holder(); owner != second.place.owner {
		t.Fatalf("the session went to %q, want the next that lives, %q", owner, second.place.owner)
	}
	line.serve([]*waiter{second}, "first")
	line.isEmpty()
}

// hasListeners waits until so many proxies hear of hand-overs.
func (l *line) hasListeners(n int) {
	l.t.Helper()
	harness.Eventually(l.t, 0, func() bool {
		channels, err := l.redis.PubSubChannels(l.t.Context(), "fence-proxy:wake:*").Result()
		return err == nil && len(channels) == n
	}, fmt.Sprintf("%d proxies hear of hand-overs", n))
}

// The lease is ten minutes: only the reservation ends what a frozen proxy does not take up.
func TestTheWaitersOfAFrozenProxyHoldNobodyUpForLongerThanTheirReservation(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	options := harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")}
	lives, frozen := harness.StartProxy(t, options), harness.StartProxy(t, options)
	line := lineFor(t, server, "ctx:s")
	holder, _ := connect(t, "holder", lives.Addr)
	holder.does(nil, "GET", line.key)

	ghosts := []*waiter{line.join("ghost 1", frozen)}
	first := line.join("first", lives)
	ghosts = append(ghosts, line.join("ghost 2", frozen))
	second := line.join("second", lives)
	frozen.Pause()
	holder.does("OK", "SET", line.key, "holder")
	if owner := line.holder(); owner != ghosts[0].place.owner {
		t.Fatalf("the session is reserved for %q, want the first in line, %q", owner, ghosts[0].place.owner)
	}
	line.serve([]*waiter{first, second}, "holder")

	// The waiters themselves are served when their proxy goes on. What one of them reads then may have
	// been read for it while its proxy was frozen: its write is refused, and it reads again.
	frozen.Resume()
	line.appendNames(ghosts)
	if value := line.get(line.key); value != "second,ghost 1,ghost 2" && value != "second,ghost 2,ghost 1" {
		t.Fatalf("at the end the value is %q", value)
	}
	line.isEmpty()
}

// Case 30: the subscription by which a proxy hears of hand-overs breaks.
func TestWaitersAreServedThoughTheirWakeUpIsLost(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	for _, when := range []string{"just before the release", "just after the release", "long before the release"} {
		t.Run(when, func(t *testing.T) {
			line := lineFor(t, server, "ctx:"+when)
			breaks := func() {
				if err := line.redis.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
					t.Fatalf("break the subscription: %v", err)
				}
			}
			holder, _ := connect(t, "holder", proxy.Addr)
			holder.does(nil, "GET", line.key)
			var waiters []*waiter
			for i := range 4 {
				waiters = append(waiters, line.join(fmt.Sprintf("waiter %d", i), proxy))
			}
			switch when {
			case "just before the release":
				breaks()
				holder.does("OK", "SET", line.key, "holder")
			case "just after the release":
				holder.does("OK", "SET", line.key, "holder")
				breaks()
			case "long before the release":
				breaks()
				line.hasListeners(1)
				holder.does("OK", "SET", line.key, "holder")
			}
			line.appendNames(waiters)
			names := strings.Split(line.get(line.key), ",")
			slices.Sort(names)
			if want := []string{"holder", "waiter 0", "waiter 1", "waiter 2", "waiter 3"}; !slices.Equal(names, want) {
				t.Fatalf("at the end the value holds %q, want %q", names, want)
			}
			line.isEmpty()
		})
	}
}

// appendNames lets the waiters, in whatever order they are served, write what they have read with
// their name behind it.
func (l *line) appendNames(waiters []*waiter) {
	l.t.Helper()
	served := make(chan error, len(waiters))
	for _, w := range waiters {
		go func() { served <- w.appendName(l.key) }()
	}
	for range waiters {
		if err := <-served; err != nil {
			l.t.Fatal(err)
		}
	}
}

func (w *waiter) appendName(key string) error {
	value, err := w.read()
	if err != nil {
		return fmt.Errorf("%s waits for its GET: %w", w.name, err)
	}
	if _, err := fmt.Fprint(w.conn, harness.Encode("SET", key, fmt.Sprintf("%v,%s", value, w.name))); err != nil {
		return err
	}
	switch reply, err := w.read(); {
	case isError(reply, "FENCED"):
		if _, err := fmt.Fprint(w.conn, harness.Encode("GET", key)); err != nil {
			return err
		}
		return w.appendName(key)
	case err != nil || reply != "OK":
		return fmt.Errorf("%s: SET: %v, %w", w.name, reply, err)
	}
	return nil
}
