//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
	"github.com/fence-proxy/fence-proxy/integration/chaos/oracle"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const agentProgram = "github.com/fence-proxy/fence-proxy/integration/chaos/agent"

// size says how large a world is, and what its agents do.
type size struct {
	site
	proxies, agents, sessions int
	around                    int      // so many of the agents do without a proxy
	mix                       string   // the site's if empty
	think                     string   // the agent's own if empty
	proxy                     string   // the program; "" is the product
	args                      []string // of the proxy
	redis                     []harness.RedisOption
	rule                      map[string]string // its settings that are not the usual ones
}

// world is what the faults happen to: agents, proxies and a Redis, all processes of their own, with a network between each
// two that speak with each other.
//
//	agent ── relay ──▶ proxy ── relay ──▶ Redis
type world struct {
	testing.TB
	size
	*recorder
	seed     uint64
	patience time.Duration // how long it may take until every session is written again
	pictures string        // see oracle.Evidence

	place
	agents  []*agent
	proxies []*proxy

	start     time.Time
	log       []string
	erased    map[string]map[string]oracle.Final
	erasures  []*history.Op
	disturbed [][2]int64
}

// agent is a process, and its successors.
type agent struct {
	*harness.Process
	world *world
	n     int
	lives int
	relay *harness.Relay // to its proxy
	input io.Closer      // its end ends the agent
}

// proxy is a proxy, and the network between it and Redis.
type proxy struct {
	*harness.Proxy
	n     int
	relay *harness.Relay // nil where there is more than one node
}

// rules have short times, so that holds end in every way within a round.
const rules = `rules:
  - name: ctx
    prefix: "ctx:"
    session: "ctx:{<session>}:*"
    mode: lock
    owner: connection
    wait: 2s
    lease: 1s
    max_hold: 4s
    idle: 300ms
    record_ttl: 20s
`

func newWorld(tb testing.TB, seed uint64, s size) *world {
	tb.Helper()
	w := &world{TB: tb, size: s, recorder: newRecorder(), seed: seed, patience: recovery, erased: map[string]map[string]oracle.Final{}, start: time.Now()}
	if w.site.open == nil {
		w.site = sites[0]
	}
	w.place = w.site.open(tb, s.redis)
	if w.mix == "" {
		w.mix = w.usual
	}
	config := w.locks + rules + w.also
	for key, value := range s.rule {
		config = strings.Replace(config, "    "+key+": ", "    "+key+": "+value+" # ", 1)
	}
	for n := range s.proxies {
		p := &proxy{n: n}
		upstream := w.url
		if w.server != nil {
			p.relay = harness.StartRelay(tb, w.server.Addr)
			upstream = p.relay.URL()
		}
		p.Proxy = harness.StartProxy(tb, harness.ProxyOptions{
			Name: fmt.Sprint("proxy ", n), Binary: s.proxy, Args: s.args, Upstream: upstream, ConfigYAML: config,
		})
		w.proxies = append(w.proxies, p)
	}
	tb.Cleanup(w.readers.Wait) // when the agents are gone
	for n := range s.agents {
		addr := w.proxies[n%s.proxies].Addr
		if n < s.around {
			addr = w.server.Addr
		}
		a := &agent{world: w, n: n, relay: harness.StartRelay(tb, addr)}
		w.agents = append(w.agents, a)
		a.spawn()
	}
	return w
}

// spawn starts an agent, or its successor.
func (a *agent) spawn() {
	w := a.world
	w.Helper()
	a.lives++
	args := []string{"-addr", a.relay.Addr, "-name", fmt.Sprintf("%d.%d", a.n, a.lives), "-seed", strconv.FormatUint(w.seed+uint64(a.n)<<40+uint64(a.lives)<<20, 10), "-sessions", strconv.Itoa(w.sessions)}
	if w.mix != "" {
		args = append(args, "-mix", w.mix)
	}
	if w.think != "" {
		args = append(args, "-think", w.think)
	}
	cmd := exec.Command(harness.BuildProgram(w.TB, agentProgram), args...)
	input, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	out, agents, err := os.Pipe()
	if err != nil {
		w.Fatal(err)
	}
	cmd.Stdout = agents
	a.input = input
	a.Process = harness.StartProgram(w.TB, fmt.Sprint("agent ", a.n), cmd)
	_ = agents.Close() // the agent has its own
	w.listen(out)
}

// names are the sessions'.
func (w *world) names() (names []string) {
	for n := range w.sessions {
		names = append(names, fmt.Sprint("s", n))
	}
	return names
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%9.3fs  %s", time.Since(w.start).Seconds(), fmt.Sprintf(format, args...)))
}

// disturb notes that holds may end early from now on, or have since a time.
func (w *world) disturb(since int64) {
	w.disturbed = append(w.disturbed, [2]int64{since, history.Now()})
}

// flush erases everything and keeps what there was.
func (w *world) flush(ctx context.Context) {
	w.erase(func() map[string]oracle.Final {
		read := map[string]*reading{}
		_, err := w.direct().TxPipelined(ctx, func(p redis.Pipeliner) error {
			for _, session := range w.names() {
				read[session] = read1(ctx, p, session)
			}
			p.FlushAll(ctx)
			return nil
		})
		if err != nil && !isNil(err) {
			w.Fatal(err)
		}
		return finals(read)
	})
}

// erase notes an erasure of everything. had is what there was, if that is known.
func (w *world) erase(do func() (had map[string]oracle.Final)) {
	op := &history.Op{Agent: "operator", ID: len(w.erasures) + 1, Kind: history.Erase, Call: history.Now(), Fate: history.Done}
	had := do()
	op.Return = history.Now()
	w.erasures = append(w.erasures, op)
	if had != nil {
		w.erased[op.Name()] = had
	}
}

// reading is a session that is being read.
type reading struct {
	value, count *redis.StringCmd
	list         *redis.StringSliceCmd
}

func read1(ctx context.Context, c redis.Cmdable, session string) *reading {
	return &reading{c.Get(ctx, history.ValueKey(session)), c.Get(ctx, history.CountKey(session)), c.LRange(ctx, history.ListKey(session), 0, -1)}
}

func finals(read map[string]*reading) map[string]oracle.Final {
	all := map[string]oracle.Final{}
	for session, r := range read {
		value, _, _ := strings.Cut(r.value.Val(), "|")
		count, _ := r.count.Int64()
		all[session] = oracle.Final{Value: value, List: r.list.Val(), Count: count}
	}
	return all
}

func isNil(err error) bool { return err == redis.Nil } //nolint:errorlint // it is never wrapped

// evidence is what is known while the agents are at work.
func (w *world) evidence() oracle.Evidence {
	return oracle.Evidence{Ops: append(w.soFar(), w.erasures...), Erased: w.erased, Disturbed: w.disturbed, Stale: w.stale, Early: w.early, Pictures: w.pictures}
}

// end ends the agents in peace and then the proxies, and reads what there is.
func (w *world) end() oracle.Evidence {
	w.Helper()
	for _, a := range w.agents {
		_ = a.input.Close()
	}
	for _, a := range w.agents {
		a.Wait()
	}
	w.readers.Wait()
	for _, p := range w.proxies {
		p.Terminate()
	}
	for _, p := range w.proxies {
		p.Wait()
		if p.relay != nil {
			p.relay.Close() // what is held back is dropped
		}
	}
	e := w.evidence()
	ctx := context.Background()
	read := map[string]*reading{}
	for _, session := range w.names() {
		read[session] = read1(ctx, w.direct(), session)
		if err := read[session].list.Err(); err != nil {
			w.Fatal(err)
		}
	}
	e.Final, e.Audited = finals(read), history.Now()
	return e
}

// lasting looks for a fence record that would stay for ever.
func (w *world) lasting() *oracle.Violation {
	if w.server == nil {
		return nil
	}
	ctx := context.Background()
	keys := w.direct().Scan(ctx, 0, "fence-proxy:*", 1000).Iterator()
	for keys.Next(ctx) {
		if left := w.direct().PTTL(ctx, keys.Val()).Val(); left == -1 {
			return &oracle.Violation{Promise: "fence records go away by themselves", Text: keys.Val() + " has no TTL"}
		}
	}
	if err := keys.Err(); err != nil {
		w.Fatal(err)
	}
	return nil
}

func stuckAt(session string, patience time.Duration) *oracle.Violation {
	return &oracle.Violation{Promise: "a session is written again when all is mended", Session: session, Text: fmt.Sprint("nobody has written it for ", patience)}
}

var setting = regexp.MustCompile(`(?m)^(    )(mode|wait): .*$`)

// reload gives a proxy another configuration.
func (p *proxy) reload(tb testing.TB, mode, wait string) {
	tb.Helper()
	text, err := os.ReadFile(p.Config)
	if err == nil {
		text = setting.ReplaceAllFunc(text, func(line []byte) []byte {
			if strings.Contains(string(line), "mode:") {
				return []byte("    mode: " + mode)
			}
			return []byte("    wait: " + wait)
		})
		if err = os.WriteFile(p.Config+".new", text, 0o600); err == nil {
			err = os.Rename(p.Config+".new", p.Config)
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	p.Hangup()
}
