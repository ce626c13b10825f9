//go:build integration

package fuzz

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/command"
)

var (
	seed     = flag.Uint64("seed", 1, "of all scripts")
	commands = flag.Int("commands", usual, "about how many to send, over all modes")
	control  = flag.Bool("control", false, "leave the proxy out: what differs then is a mistake of this package")
	only     = flag.Int("script", -1, "the number of the one script to play")
)

// usual is the number of commands of a run without flags.
const usual = 30_000

// patience is how long a reply may take.
const patience = 30 * time.Second

const guardEveryKey = `
rules:
  - name: all
    owner: connection
    prefix: ""
    mode: lock
    writes_per_read: many
    lease: 10m
    max_hold: 10m
    idle: 10m
`

const guardSomeKeys = `
rules:
  - {name: hashes, prefix: "h", owner: connection, mode: lock, writes_per_read: many, scripts: allow, lease: 10m, max_hold: 10m, idle: 10m}
  - {name: streams, prefix: "x", owner: connection, mode: fence, writes_per_read: many, scripts: allow, lease: 10m, max_hold: 10m, idle: 10m}
  - {name: strings, prefix: "s", owner: connection, mode: lock, writes_per_read: many, scripts: allow, lease: 10m, max_hold: 10m, idle: 10m}
  - {name: lists, prefix: "l", owner: connection, mode: auto, writes_per_read: many, scripts: allow, lease: 10m, max_hold: 10m, idle: 10m}
`

func TestUnguardedCommandsAreAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 33, fits: func(c *Command) bool { return !listens(c) }})
}

func TestGuardedCommandsAreAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 30, config: guardEveryKey, fits: func(c *Command) bool {
		return !listens(c) && unguardable[c.Name] == ""
	}})
}

func TestACrowdIsAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 20, clients: 12, fits: func(c *Command) bool { return !listens(c) && !everywhere(c) }})
}

func TestACrowdWithSomeKeysGuardedIsAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 10, clients: 12, config: guardSomeKeys, fits: func(c *Command) bool { return !listens(c) && !everywhere(c) }})
}

func TestObservedCommandsAreAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 10, observed: true, fits: func(c *Command) bool { return !listens(c) }})
}

func TestAnObservedCrowdIsAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 10, observed: true, clients: 12, fits: func(c *Command) bool { return !listens(c) && !everywhere(c) }})
}

func TestWhatIsNoCommandIsAnsweredAsByRedis(t *testing.T) {
	run(t, mode{share: 2, garbled: true, fits: func(c *Command) bool { return !listens(c) }})
}

func TestListenersHearWhatRedisSays(t *testing.T) {
	run(t, mode{share: 5, listening: true, fits: func(c *Command) bool {
		switch c.Name {
		case "publish", "spublish", "ping", "reset", "select", "get", "set", "incr", "echo", "multi", "exec", "discard", "watch", "unwatch", "client|setname", "client|getname":
			return true
		}
		return listens(c)
	}})
}

// A cluster of three looks like one Redis, but for what it can't do (unclustered) and for what it says of itself. All keys are of one
// slot, as those of one session may be; what has no keys goes to another node.
func TestAClusterIsAnsweredAsOneRedis(t *testing.T) {
	run(t, mode{share: 10, clustered: true, fits: func(c *Command) bool {
		return !listens(c) && !unclustered(c)
	}})
}

// mode is a kind of scripts.
type mode struct {
	share     int    // of the commands, in percent
	config    string // of the proxy: its rules
	clients   int    // at the same time; 0 is one
	listening bool
	garbled   bool
	clustered bool
	observed  bool
	fits      func(*Command) bool
}

// run plays scripts until enough commands were compared, or one has failed.
func run(t *testing.T, m mode) {
	t.Helper()
	var straight, behind *harness.Redis
	var besides []*server
	if m.clustered {
		straight = harness.StartCluster(t, 1, 0, looking(t)...).Nodes[0].Redis
	} else {
		straight, behind = startRedis(t), startRedis(t)
	}
	var addr string
	switch {
	case m.clustered:
		cluster := harness.StartCluster(t, 3, 0, looking(t)...)
		behind = cluster.Of(tag).Redis
		for _, n := range cluster.Nodes {
			if n.Redis != behind {
				besides = append(besides, attach(t, n.Redis))
			}
		}
		addr = harness.StartProxy(t, harness.ProxyOptions{Upstream: cluster.URL(), ConfigYAML: m.config}).Addr
	case m.observed:
		addr = harness.StartObserver(t, behind).Addr
	default:
		addr = harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: m.config}).Addr
	}
	vocabulary, err := LoadVocabulary(t.Context(), straight.Client())
	if err != nil {
		t.Fatal(err)
	}
	pair := &Pair{
		straight: attach(t, straight), behind: attach(t, behind),
		besides: besides, proxy: addr, guarded: m.config != "", listening: m.listening, tally: newTally(),
	}
	if *control {
		pair.proxy = behind.Addr
	}
	writers := make([]*writer, max(1, m.clients))
	for i := range writers {
		writers[i] = newWriter(vocabulary, m)
		if m.clients > 0 {
			writers[i].suffix, writers[i].table = fmt.Sprintf("@%d", i), command.Builtin()
		}
		if m.clustered {
			writers[i].suffix, writers[i].table = tag, command.Builtin()
		}
	}

	target := *commands * m.share / 100
	for n := 0; pair.tally.Commands < target; n++ {
		if *only >= 0 {
			n, target = *only, 0
		}
		scripts := make([]*Script, len(writers))
		for i, w := range writers {
			scripts[i] = w.script(rand.New(rand.NewPCG(*seed, number(t.Name(), n, i))))
		}
		d, tally := pair.trial(scripts, patience)
		pair.tally.add(&tally)
		if d != nil {
			_, d = pair.shrink(scripts, d)
			t.Fatalf("%s\nwhat led to it:\n%s\nagain: go test -tags integration -run '^%s$' ./integration/fuzz -seed %d -script %d",
				d.What, d.Transcript, t.Name(), *seed, n)
		}
		if *only >= 0 {
			break
		}
	}
	report(t, pair, vocabulary, m)
}

func newWriter(v Vocabulary, m mode) *writer {
	w := &writer{vocabulary: v, listening: m.listening, garbled: m.garbled}
	w.commands = v.Sorted(func(c *Command) bool { return leftOut[c.Name] == "" && !container(v, c) && m.fits(c) })
	for _, c := range w.commands {
		switch {
		case c.Keyed:
			w.data = append(w.data, c)
		case c.Group == "connection" || c.Group == "transactions":
			w.states = append(w.states, c)
		}
	}
	return w
}

// container reports whether a command is nothing without a sub-command.
func container(v Vocabulary, c *Command) bool {
	return c.Name != "command" && v[c.Name+"|help"] != nil
}

// number tells the scripts of one seed apart.
func number(mode string, n, client int) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, mode, n, client)
	return h.Sum64()
}

func report(t *testing.T, p *Pair, v Vocabulary, m mode) {
	t.Helper()
	c := &p.tally
	t.Logf("seed %d: %d commands in %d scripts (single %d, pipelined %d, cut %d); %d refused by Redis, %d transactions carried out, %d different commands carried out",
		*seed, c.Commands, c.Scripts, c.Deliveries[Single], c.Deliveries[Pipelined], c.Deliveries[Cut], c.Errors, c.Transactions, len(c.Seen))
	if !m.listening {
		t.Logf("with keys and never carried out: %s", strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(v)), func(name string) bool {
			return c.Seen[name] > 0 || !v[name].Keyed || leftOut[name] != "" || container(v, v[name]) || !m.fits(v[name])
		}), " "))
	}
	if !p.guarded {
		return
	}
	all := m.clients == 0 // every command of the table may come, on guarded keys
	for i, e := range exceptions {
		t.Logf("exception %s: %d times (%s)", e.name, c.Exceptions[i], e.reason)
		if c.Exceptions[i] == 0 && all && *commands >= usual && *only < 0 {
			t.Errorf("exception %s: nothing is refused for it any more: delete it", e.name)
		}
	}
}

// startRedis starts a server that looks at its clock often, so that what blocks does not wait much
// longer than it says.
func startRedis(t *testing.T) *harness.Redis {
	t.Helper()
	return harness.StartRedis(t, looking(t)...)
}

func looking(t *testing.T) []harness.RedisOption {
	t.Helper()
	return []harness.RedisOption{harness.Enabling(t, "debug"), harness.WithArgs("--hz", "500", "--dynamic-hz", "no")}
}

func attach(t *testing.T, r *harness.Redis) *server {
	t.Helper()
	s, err := connect(r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}
