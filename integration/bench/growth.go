package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// axis is something that grows.
type axis struct {
	name   string // "rules"
	title  string
	sizes  []int
	scene  func(size int) scene
	lonely bool // only guarded cycles make sense
	flat   bool // the cost must not grow
}

// scene is the system at one size.
type scene struct {
	clients  int // connections of each kind
	sessions int // that exist, each connection's are its own unless shared
	shared   bool
	value    int // bytes
	rules    int
}

// usual are what does not grow.
var usual = scene{clients: 50, sessions: 10_000, value: 64, rules: 1}

// axes are those that are measured.
var axes = []axis{
	{
		name: "clients", title: "Clients: connections that all send commands", sizes: []int{1, 10, 50, 500, 5000},
		scene: func(n int) scene { s := usual; s.clients = n; return s },
	},
	{
		name: "sessions", title: "Sessions that exist", sizes: []int{1_000, 10_000, 100_000, 1_000_000}, flat: true,
		scene: func(n int) scene { s := usual; s.sessions = n; return s },
	},
	{
		name: "rules", title: "Rules, with 10,000 sessions spread over all of them", sizes: []int{1, 10, 100, 1_000, 10_000}, flat: true,
		scene: func(n int) scene { s := usual; s.rules = n; return s },
	},
	{
		name: "value", title: "Size of the value, in bytes", sizes: []int{16, 1 << 10, 16 << 10, 128 << 10, 1 << 20},
		scene: func(n int) scene { s := usual; s.value, s.clients, s.sessions = n, 8, 64; return s },
	},
	{
		name: "waiters", title: "Waiters in line for one session", sizes: []int{1, 10, 100, 1000}, lonely: true,
		scene: func(n int) scene { s := usual; s.clients, s.sessions, s.shared = n+1, 1, true; return s },
	},
}

// stage is a Redis and a proxy at one size, and who works there.
type stage struct {
	scene
	size   int
	proxy  *harness.Proxy
	server *harness.Redis
	acts   []*act
	value  string
}

// act is GET and SET of one key by all connections of a kind, one after the other, and what was measured of it.
type act struct {
	name     string
	addr     string
	do       job
	rate     series // cycles per second
	proxyCPU series // µs per cycle
	redisCPU series
}

const (
	straightAct  = "straight at Redis"
	unguardedAct = "unguarded"
	guardedAct   = "guarded"
)

// newStage starts all that belongs to one size, and has each session's record made.
func newStage(b *testing.B, a axis, size int) *stage {
	b.Helper()
	s := &stage{scene: a.scene(size), size: size}
	s.value = strings.Repeat("x", s.scene.value)
	s.server = harness.StartRedis(b, harness.WithArgs("--maxclients", "15000"))
	s.proxy = harness.StartProxy(b, harness.ProxyOptions{Redis: s.server, ConfigYAML: s.configuration()})
	if !a.lonely {
		s.add(straightAct, s.server.Addr, func(conn, n int) string { return s.session(conn, n) })
		s.add(unguardedAct, s.proxy.Addr, func(conn, n int) string { return "plain:" + s.session(conn, n) })
	}
	s.add(guardedAct, s.proxy.Addr, s.session)
	s.fill(b)
	return s
}

// add adds an act, whose connections take the key for each repetition from a function.
func (s *stage) add(name, addr string, key func(conn, n int) string) {
	s.acts = append(s.acts, &act{name: name, addr: addr, do: func(conn, n int) [][]string {
		k := key(conn, n)
		return [][]string{{"GET", k}, {"SET", k, s.value}}
	}})
}

// filling is how many writes are on their way on a connection that fills a stage.
const filling = 100

// fill writes each session once.
func (s *stage) fill(b *testing.B) {
	b.Helper()
	crew := newSwarm(b, s.proxy.Addr, min(usual.clients, s.sessions))
	defer crew.close()
	errs := make([]error, len(crew))
	_, err := crew.repeat(func(conn, _ int) [][]string {
		errs[conn] = s.write(crew[conn], conn, len(crew))
		return nil
	}, func(_, done int) bool { return done < 1 })
	for _, e := range errs {
		if e != nil {
			err = e
		}
	}
	if err != nil {
		b.Fatalf("fill %d sessions: %v", s.sessions, err)
	}
}

// write writes one of each n sessions, in pipelines.
func (s *stage) write(conn *harness.RawConn, first, n int) error {
	for at := first; at < s.sessions; {
		var text strings.Builder
		sent := 0
		for ; at < s.sessions && sent < filling && text.Len() < 1<<20; at, sent = at+n, sent+1 {
			text.WriteString(harness.Encode("SET", s.key(at), s.value))
		}
		if _, err := conn.Write([]byte(text.String())); err != nil {
			return err
		}
		for range sent {
			reply, err := conn.Read()
			if err != nil {
				return err
			}
			if string(reply) != "+OK\r\n" {
				return fmt.Errorf("SET: %.200q", reply)
			}
		}
	}
	return nil
}

// session is the key of the session that a connection comes to at its n-th repetition: all of its own, in an order that is no order, unless they are shared.
func (s *stage) session(conn, n int) string {
	own := s.sessions / s.clients
	if s.shared || own == 0 {
		return s.key(conn % s.sessions)
	}
	return s.key(conn*own + (n*7919)%own)
}

func (s *stage) key(session int) string { return fmt.Sprintf("r%d:%d", session%s.rules, session) }

// configuration has as many rules as there are.
func (s *stage) configuration() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range s.rules {
		fmt.Fprintf(&b, "  - {name: r%d, prefix: \"r%d:\", mode: lock, owner: connection, wait: 60s, max_hold: 2m}\n", i, i)
	}
	return b.String()
}

const growthTurn = 300 * time.Millisecond

// turn lets each act play for a time, with connections that are made before, and have done one cycle.
func (s *stage) turn(b *testing.B) {
	b.Helper()
	for _, a := range s.acts {
		crew := newSwarm(b, a.addr, s.clients)
		if _, err := crew.times(1, a.do); err != nil {
			b.Fatalf("%s, size %d, the first cycles: %v", a.name, s.size, err)
		}
		proxy, redis := cpuTime(s.proxy.Pid()), cpuTime(s.server.Pid())
		start := time.Now()
		n, err := crew.during(growthTurn, a.do)
		if err != nil {
			b.Fatalf("%s, size %d: %v", a.name, s.size, err)
		}
		a.rate = append(a.rate, float64(n)/time.Since(start).Seconds())
		a.proxyCPU = append(a.proxyCPU, micros(cpuTime(s.proxy.Pid())-proxy, n))
		a.redisCPU = append(a.redisCPU, micros(cpuTime(s.server.Pid())-redis, n))
		crew.close()
	}
}

// cpu is the proxy's and Redis's together.
func (a *act) cpu() series { return a.proxyCPU.plus(a.redisCPU) }
