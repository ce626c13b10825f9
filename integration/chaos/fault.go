//go:build chaos

package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// fault is one thing that goes wrong.
type fault struct {
	*kind
	n     int           // what it depends on: to whom it happens, and how bad it is
	after time.Duration // from the beginning of its round
	lasts time.Duration

	deliver func()
}

func (f *fault) agent(w *world) int { return f.n % len(w.agents) }
func (f *fault) proxy(w *world) int { return f.n % len(w.proxies) }

// key is one of the session that a fault happens to.
func (w *world) key(f *fault) string { return history.ValueKey(w.names()[f.n%w.sessions]) }

func (f *fault) target(w *world) string {
	switch f.layer {
	case ofAgents, ofDownstream:
		return fmt.Sprintf(" (agent %d)", f.agent(w))
	case ofProxies, ofUpstream:
		return fmt.Sprintf(" (proxy %d)", f.proxy(w))
	}
	return ""
}

// plan is an endless series of rounds, which follows from a seed alone.
type plan struct {
	random *rand.Rand
	kinds  []kind
	odds   []int // indexes of kinds, each as often as its odds
	deck   []int // kinds that have not had their turn by themselves
}

func newPlan(seed uint64, kinds []kind) *plan {
	p := &plan{random: rand.New(rand.NewPCG(seed, 2)), kinds: kinds}
	for i := range kinds {
		for range kinds[i].odds {
			p.odds = append(p.odds, i)
		}
	}
	return p
}

// next is a round: one fault, or in every other round several that overlap, no two of them of one layer.
func (p *plan) next() (round []*fault) {
	if p.random.IntN(2) == 0 {
		return []*fault{p.alone()}
	}
	var taken [layers]bool
	for range 2 + p.random.IntN(3) {
		f := p.fault(p.odds[p.random.IntN(len(p.odds))], time.Duration(p.random.IntN(600))*time.Millisecond)
		if !taken[f.layer] {
			taken[f.layer] = true
			round = append(round, f)
		}
	}
	return round
}

// alone is one fault. Each kind has its turn.
func (p *plan) alone() *fault {
	if len(p.deck) == 0 {
		p.deck = p.random.Perm(len(p.kinds))
	}
	k := p.deck[0]
	p.deck = p.deck[1:]
	return p.fault(k, 0)
}

func (p *plan) fault(k int, after time.Duration) *fault {
	f := &fault{kind: &p.kinds[k], n: p.random.IntN(1 << 30), after: after}
	if f.least > 0 {
		f.lasts = f.least + time.Duration(p.random.Int64N(2*int64(f.least)))
	}
	return f
}

// recovery is how long it may take until every session is written again.
const recovery = time.Minute

// event is the beginning or the end of a fault.
type event struct {
	at    time.Duration // from the beginning of the round
	fault *fault
	ends  bool
}

// events are what happens in a round, in order. A proxy is started when what it needs is mended.
func events(round []*fault) (all []event) {
	var needed time.Duration
	for _, f := range round {
		if f.layer < ofProxies {
			needed = max(needed, f.after+f.lasts)
		}
	}
	for _, f := range round {
		if f.layer == ofProxies {
			f.lasts = max(f.lasts, needed-f.after)
		}
		all = append(all, event{f.after, f, false})
		if f.end != nil {
			all = append(all, event{f.after + f.lasts, f, true})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.fault.layer, b.fault.layer))
	})
	return all
}

// result is what came of a round.
type result struct {
	faults    []*fault
	some, all time.Duration // from its beginning until one session was written by who had begun since, and until all were
	stuck     string        // a session that was not written any more
}

// play carries a round out, and waits until every session was written, also since all was mended.
func (w *world) play(round []*fault) result {
	w.Helper()
	r := result{faults: round}
	began, start := w.mark(), time.Now()
	for _, e := range events(round) {
		time.Sleep(time.Until(start.Add(e.at)))
		if e.ends {
			w.note("mend: %s%s", e.fault.name, e.fault.target(w))
			e.fault.end(w, e.fault)
			continue
		}
		w.note("%s%s [%d] for %v", e.fault.name, e.fault.target(w), e.fault.n, e.fault.lasts.Round(time.Millisecond))
		e.fault.begin(w, e.fault)
	}
	if r.stuck = w.written(); r.stuck == "" {
		some, all, _ := w.next(w.names())
		r.some, r.all = time.Duration(some-began), time.Duration(all-began)
		w.mark()
		r.stuck = w.written()
	}
	return r
}

// written waits until every session was written since the mark, and else returns one that was not.
func (w *world) written() (stuck string) {
	for deadline := time.Now().Add(w.patience); ; time.Sleep(2 * time.Millisecond) {
		if _, _, ok := w.next(w.names()); ok {
			return ""
		}
		if time.Now().After(deadline) {
			return w.unwritten()
		}
	}
}

// unwritten is a session that nobody has written since the mark.
func (w *world) unwritten() string {
	for _, session := range w.names() {
		if _, _, ok := w.next([]string{session}); !ok {
			return session
		}
	}
	return ""
}
