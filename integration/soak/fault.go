//go:build integration

package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// kind is one way in which things go wrong.
type kind struct {
	name  string
	least time.Duration // it lasts so long at least, and three times as long at most; 0: it is over at once
	tells func(s *street) []*house
	begin func(s *street, n int) // n says how bad it is
	end   func(s *street)        // nil: there is nothing to mend
}

// These are whose guests are told of a fault.
var (
	all    = func(s *street) []*house { return []*house{s.home, s.next} }
	home   = func(s *street) []*house { return []*house{s.home} }
	next   = func(s *street) []*house { return []*house{s.next} }
	nobody = func(*street) []*house { return nil }
)

// kinds are all ways.
var kinds = []kind{
	{
		"Redis killed, restarted with its data", 50 * time.Millisecond, all,
		func(s *street, _ int) { s.server.Kill() },
		func(s *street) { s.server.Restart() },
	},
	{
		"Redis stopped, restarted with its data", 50 * time.Millisecond, all,
		func(s *street, _ int) { s.server.Stop() },
		func(s *street) { s.server.Restart() },
	},
	{
		"Redis frozen", 300 * time.Millisecond, all,
		func(s *street, _ int) { s.server.Pause() },
		func(s *street) { s.server.Resume() },
	},
	{"connections killed at Redis", 0, all, (*street).killConnections, nil},
	{
		"network to Redis slow", 200 * time.Millisecond, home,
		func(s *street, n int) { s.relay.Slow(time.Duration(5+n%100) * time.Millisecond) },
		func(s *street) { s.relay.Slow(0) },
	},
	{
		"network to Redis silent", 300 * time.Millisecond, home,
		func(s *street, _ int) { s.relay.Blackhole(true) },
		func(s *street) { s.relay.Blackhole(false) },
	},
	{"network to Redis reset", 0, home, func(s *street, _ int) { s.relay.Reset() }, nil},
	{
		"network to Redis refused", 100 * time.Millisecond, home,
		func(s *street, _ int) { s.relay.Cut() },
		func(s *street) { s.relay.Restore() },
	},
	{
		"network to Redis cut after some bytes", 0, home,
		func(s *street, n int) {
			cut := s.relay.CutAfterBytes(harness.Direction(n%2), n/2%4000)
			harness.Eventually(s, 0, func() bool { return closed(cut) }, "so many bytes come by")
		},
		nil,
	},
	{
		"neighbour killed, with holds and waiters", 100 * time.Millisecond, next,
		(*street).killNeighbour,
		func(s *street) { s.neighbour.Start() },
	},
	{"configuration reloaded", 0, nobody, (*street).reload, nil},
	{"records expired under their holders", 0, nobody, (*street).expire, nil},
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// deck gives out kinds of faults, each as often as any other, in an order that follows from a seed.
type deck struct {
	*rand.Rand

	left []int
}

func (d *deck) draw() *kind {
	if len(d.left) == 0 {
		d.left = d.Perm(len(kinds))
	}
	k := d.left[0]
	d.left = d.left[1:]
	return &kinds[k]
}

// play has one fault happen and be mended, and returns when new guests of all houses are served again. That took so long, from the
// moment on in which all was mended.
func (s *street) play(k *kind) (healed time.Duration) {
	s.Helper()
	houses := k.tells(s)
	for _, h := range houses {
		h.trouble.begin(k.name)
	}
	k.begin(s, s.deck.IntN(1<<30))
	if k.least > 0 {
		time.Sleep(k.least + time.Duration(s.deck.Int64N(2*int64(k.least))))
	}
	if k.end != nil {
		k.end(s)
	}
	mended := time.Now()
	for _, h := range all(s) {
		harness.Eventually(s, 0, func() bool { return h.serves() }, fmt.Sprintf("%s: new guests of %s are served again", k.name, h.name))
	}
	healed = time.Since(mended)
	for _, h := range houses {
		h.trouble.over()
	}
	s.busy(k.name)
	return healed
}

// busy waits until guests of all houses have been answered a good deal more.
func (s *street) busy(since string) {
	s.Helper()
	for _, h := range all(s) {
		enough := h.commands.Load() + 100
		harness.Eventually(s, 0, func() bool { return h.commands.Load() > enough || s.Failed() }, fmt.Sprintf("%s: the guests of %s go on", since, h.name))
	}
}

// serves reports whether a new guest's read and write are carried out.
func (h *house) serves() bool {
	conn, err := harness.Connect(h.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	key := "ctx:probe:" + h.name
	if _, err := conn.Write([]byte(harness.Encode("GET", "plain:probe") + harness.Encode("GET", key) + harness.Encode("SET", key, "v", "EX", "20"))); err != nil {
		return false
	}
	for range 3 {
		if raw, err := conn.Read(); err != nil || raw[0] == '-' {
			return false
		}
	}
	return true
}

// killConnections is an operator's who closes all connections at Redis.
func (s *street) killConnections(int) {
	for _, which := range []string{"normal", "pubsub"} {
		if err := s.straight.ClientKillByFilter(s.Context(), "TYPE", which).Err(); err != nil {
			s.Fatal(err)
		}
	}
}

// killNeighbour kills the neighbour while one of its clients holds a session and others wait for it, at both proxies.
func (s *street) killNeighbour(n int) {
	asks := harness.Dial(s, s.subject.Addr)
	defer asks.Close()
	attempt := 0
	var crowd []*harness.RawConn
	leave := func() {
		for _, one := range crowd {
			_ = one.Close()
		}
		crowd = nil
	}
	defer leave()
	harness.Eventually(s, 0, func() bool { // on a slow machine a hold may end before all are in line
		leave()
		attempt++
		key := fmt.Sprintf("ctx:left:%d:%d", n, attempt)
		for _, addr := range []string{s.next.addr, s.next.addr, s.next.addr, s.home.addr} {
			crowd = append(crowd, harness.Dial(s, addr))
		}
		holds := string(crowd[0].Do("GET", key))
		for _, one := range crowd[1:] { // whatever the rule's mode is, and for longer than it says
			one.Send(harness.Encode("FENCE.ACQUIRE", key, "TTL", "500", "WAIT", "5000"))
		}
		for strings.HasPrefix(holds, "$") {
			if strings.Contains(string(asks.Do("FENCE.INSPECT", key)), "waiters\r\n*3\r\n") {
				return true
			}
			holds = string(crowd[0].Do("GET", key))
		}
		return false
	}, "one holds and three wait")
	s.neighbour.Kill()
}

// reload gives the subject other rules.
func (s *street) reload(int) {
	variant := s.deck.IntN(len(variants) - 1)
	if variant >= s.variant {
		variant++
	}
	s.variant = variant
	s.subject.revise(variants[variant])
}

// expire has all records come to their end at once, whoever holds the sessions.
func (s *street) expire(int) {
	ctx := s.Context()
	records := s.keys("fence-proxy:{ctx:*}:t")
	if len(records) == 0 {
		s.Fatal("under load there are no records")
	}
	_, err := s.straight.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, record := range records {
			p.PExpire(ctx, record, time.Millisecond)
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}
