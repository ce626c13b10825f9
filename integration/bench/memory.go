package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// hoard is something that takes memory as long as it is there.
type hoard struct {
	title       string
	n           int
	connections int // that make them, through the proxy, and stay
	do          job // makes one
	data        int // how many sessions' values are part of it: they are written before, for their memory is not counted

	proxy, resident, redis series // bytes for each
}

const (
	idleConnections = 5000
	hoardSessions   = 50_000
	hoardHeld       = 10_000
	hoardClients    = 100
	hoardValue      = "value"
)

// hoards are what is measured.
func hoards() []*hoard {
	cycle := func(conn, n int) [][]string { return cycleOf(conn + n*hoardClients) }
	return []*hoard{
		{
			title: "idle connection, after unguarded commands", n: idleConnections, connections: idleConnections,
			do: func(int, int) [][]string { return [][]string{{"GET", "plain"}, {"SET", "plain", hoardValue}} },
		},
		{
			title: "idle connection, after a guarded cycle", n: idleConnections, connections: idleConnections, data: idleConnections,
			do: func(conn, _ int) [][]string { return cycleOf(conn) },
		},
		{
			title: fmt.Sprintf("session that was written, by %d connections", hoardClients), n: hoardSessions, connections: hoardClients, data: hoardSessions,
			do: cycle,
		},
		{
			title: fmt.Sprintf("session that is held, by %d connections", hoardClients), n: hoardHeld, connections: hoardClients,
			do: func(conn, n int) [][]string { return cycle(conn, n)[:1] },
		},
	}
}

// cycleOf is a cycle of the i-th session.
func cycleOf(i int) [][]string {
	return [][]string{{"GET", hoardKey(i)}, {"SET", hoardKey(i), hoardValue}}
}

func hoardKey(i int) string { return fmt.Sprint("bench:", i) }

// write writes the data of n sessions straight at Redis.
func write(server *redis.Client, n int) error {
	ctx := context.Background()
	const batch = 1000
	for at := 0; at < n; at += batch {
		p := server.Pipeline()
		for i := at; i < min(at+batch, n); i++ {
			p.Set(ctx, hoardKey(i), hoardValue, 0)
		}
		if _, err := p.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measure fills a proxy and a Redis that are new, and sees how much larger they have become.
func (h *hoard) measure(b *testing.B) {
	b.Helper()
	server := harness.StartRedis(b)
	proxy := harness.StartProxy(b, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "admin_pprof: true\n" + rules})
	defer func() { proxy.Kill(); server.Kill() }()
	if _, err := newSwarm(b, proxy.Addr, 1).times(1, func(int, int) [][]string { return cycleOf(-1) }); err != nil {
		b.Fatal(err)
	}
	if err := write(server.Client(), h.data); err != nil {
		b.Fatalf("%s: write the data: %v", h.title, err)
	}
	redisBefore, usedBefore, residentBefore := usedMemory(b, server), used(b, proxy), resident(b, proxy.Pid())
	swarm := newSwarm(b, proxy.Addr, h.connections)
	defer swarm.close() // the next one needs the files
	if _, err := swarm.times(h.n/h.connections, h.do); err != nil {
		b.Fatalf("%s: %v", h.title, err)
	}
	h.resident = append(h.resident, float64(resident(b, proxy.Pid())-residentBefore)/float64(h.n))
	h.redis = append(h.redis, float64(usedMemory(b, server)-redisBefore)/float64(h.n))
	h.proxy = append(h.proxy, (used(b, proxy)-usedBefore)/float64(h.n))
}

// collections is how often the collector runs before it is looked: as often as within some minutes in which nothing happens. A stack
// gets smaller by half each time.
const collections = 4

// used is what a proxy has in use on its heap and stacks, in bytes, when its collector has run.
func used(b *testing.B, proxy *harness.Proxy) float64 {
	b.Helper()
	for range collections {
		if status, _ := proxy.Page("/debug/pprof/heap?gc=1"); status != http.StatusOK {
			b.Fatalf("its heap is not to be had: %d", status)
		}
	}
	return proxy.Metric("go_memstats_heap_alloc_bytes") + proxy.Metric("go_memstats_stack_inuse_bytes")
}

// resident is the memory that a process occupies, in bytes: what it could give back is part of it.
func resident(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// usedMemory is what Redis has allocated, in bytes, as soon as nothing is on its way any more.
func usedMemory(b *testing.B, server *harness.Redis) int {
	b.Helper()
	time.Sleep(settle)
	text, err := server.Client().InfoMap(b.Context(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.Atoi(text["Memory"]["used_memory"])
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// settle is a time in which clients' buffers at Redis have shrunk.
const settle = 500 * time.Millisecond
