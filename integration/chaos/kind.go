//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
	"github.com/fence-proxy/fence-proxy/integration/chaos/oracle"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// layer says what a fault happens to. What is nearer to Redis is mended first.
type layer int

const (
	ofRedis layer = iota
	ofUpstream
	ofProxies
	ofDownstream
	ofAgents
	layers
)

// kind is one way in which things go wrong.
type kind struct {
	name  string
	layer layer
	odds  int           // against others
	least time.Duration // it lasts so long at least, and three times as long at most; 0: it is over at once
	begin func(w *world, f *fault)
	end   func(w *world, f *fault) // nil: there is nothing to mend
}

// loses reports whether records are lost, or all data.
func (k *kind) loses() bool { return k.layer == ofRedis && k.end == nil }

// kinds are all ways.
var kinds = append(append([]kind{
	{
		"agent killed", ofAgents, 2, 20 * time.Millisecond,
		func(w *world, f *fault) { w.agents[f.agent(w)].Kill() },
		func(w *world, f *fault) { w.agents[f.agent(w)].spawn() },
	},
	{
		"agent frozen", ofAgents, 3, 700 * time.Millisecond,
		func(w *world, f *fault) { w.agents[f.agent(w)].Pause() },
		func(w *world, f *fault) { w.agents[f.agent(w)].Resume() },
	},
	{
		"proxy killed", ofProxies, 2, 50 * time.Millisecond,
		func(w *world, f *fault) { w.proxies[f.proxy(w)].Kill() },
		func(w *world, f *fault) { w.proxies[f.proxy(w)].Start() },
	},
	{
		"proxy drained", ofProxies, 1, 100 * time.Millisecond,
		func(w *world, f *fault) { w.proxies[f.proxy(w)].Terminate() },
		func(w *world, f *fault) { p := w.proxies[f.proxy(w)]; p.Wait(); p.Start() },
	},
	{
		"proxy frozen", ofProxies, 4, 800 * time.Millisecond,
		func(w *world, f *fault) { w.proxies[f.proxy(w)].Pause() },
		func(w *world, f *fault) { w.proxies[f.proxy(w)].Resume() },
	},
	{
		"proxy reconfigured", ofProxies, 2, 0,
		func(w *world, f *fault) {
			mode, wait := []string{"lock", "fence", "auto"}[f.n%3], []string{"300ms", "2s"}[f.n/3%2]
			w.proxies[f.proxy(w)].reload(w.TB, mode, wait)
		}, nil,
	},
	{
		"redis killed, restarted with its data", ofRedis, 2, 50 * time.Millisecond,
		func(w *world, _ *fault) { w.server.Kill() },
		func(w *world, _ *fault) { w.server.Restart() },
	},
	{
		"redis frozen", ofRedis, 2, 300 * time.Millisecond,
		func(w *world, _ *fault) { w.server.Pause() },
		func(w *world, _ *fault) { w.server.Resume() },
	},
	{
		"record evicted", ofRedis, 2, 0,
		func(w *world, f *fault) { w.evict(f.n) }, nil,
	},
	{
		"all flushed", ofRedis, 1, 0,
		func(w *world, _ *fault) { w.flush(context.Background()) }, nil,
	},
	{
		"redis restarted without data", ofRedis, 1, 0,
		func(w *world, _ *fault) {
			w.erase(func() map[string]oracle.Final { w.server.RestartEmpty(); return nil })
		}, nil,
	},
}, network("agent-proxy", ofDownstream, func(w *world, f *fault) *harness.Relay { return w.agents[f.agent(w)].relay })...),
	network("proxy-redis", ofUpstream, func(w *world, f *fault) *harness.Relay { return w.proxies[f.proxy(w)].relay })...)

// network are the ways in which a network fails.
func network(between string, where layer, relay func(*world, *fault) *harness.Relay) []kind {
	none := func(*world, *fault) {}
	return []kind{
		{
			between + " slow", where, 1, 300 * time.Millisecond,
			func(w *world, f *fault) { relay(w, f).Slow(time.Duration(10+f.n%150) * time.Millisecond) },
			func(w *world, f *fault) { relay(w, f).Slow(0) },
		},
		{
			between + " narrow", where, 1, 300 * time.Millisecond,
			func(w *world, f *fault) { relay(w, f).Throttle(1000 + f.n%20_000) },
			func(w *world, f *fault) { relay(w, f).Throttle(0) },
		},
		{
			between + " silent", where, 2, 500 * time.Millisecond,
			func(w *world, f *fault) { relay(w, f).Blackhole(true) },
			func(w *world, f *fault) { relay(w, f).Blackhole(false) },
		},
		{
			between + " reset", where, 1, 0,
			func(w *world, f *fault) { relay(w, f).Reset() }, nil,
		},
		{
			between + " refused", where, 1, 100 * time.Millisecond,
			func(w *world, f *fault) { relay(w, f).Cut() },
			func(w *world, f *fault) { relay(w, f).Restore() },
		},
		{
			between + " cut after some bytes", where, 2, 100 * time.Millisecond,
			func(w *world, f *fault) { relay(w, f).CutAfterBytes(harness.Direction(f.n%2), f.n/2%4000) }, none,
		},
		{
			between + " cut, and delivered late", where, 2, 400 * time.Millisecond,
			func(w *world, f *fault) { _, f.deliver = relay(w, f).HauntAfterBytes(f.n % 3000) },
			func(_ *world, f *fault) { f.deliver() },
		},
	}
}

// evict deletes the record of a session, or a part of it, as a store that is full may.
func (w *world) evict(n int) {
	keys := fmt.Sprintf("fence-proxy:{ctx:s%d}:", n%w.sessions)
	which := [][]string{{keys + "t"}, {keys + "t", keys + "h", keys + "q"}, {keys + "h"}}[n/w.sessions%3]
	from := history.Now()
	evicted, err := w.direct().Del(context.Background(), which...).Result()
	if err != nil {
		w.Fatal(err)
	}
	w.note("evicted %d of %q", evicted, which)
	w.disturb(from)
}
