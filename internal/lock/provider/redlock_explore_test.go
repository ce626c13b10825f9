package provider

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The explorer plays random stories of some proxies and nodes, in a time of its own: messages that are late or lost, nodes that
// are cut off, that restart empty, whose clock steps. It looks for grants that don't grow, and for two owners at once.

var exploreRuns = flag.Int("redlock.runs", storiesOfEachKind, "how many stories of each kind redlock's explorer plays")

const (
	exploreLease  = 2 * time.Second
	exploreLength = 40 * time.Second
)

// story is what may happen.
type story struct {
	nodes, proxies, actors int
	weather                weather
	skew                   time.Duration // by which right clocks differ
	cuts, restarts, steps  bool
	mute                   bool // no node has a clock that helps
	faults                 fakeFaults
	quorum                 int // 0 is the majority
}

var (
	storm    = weather{late: .03, lost: .03}
	badLinks = story{nodes: 3, proxies: 3, actors: 2, weather: storm, cuts: true}
	restarts = story{nodes: 3, proxies: 3, actors: 2, weather: storm, cuts: true, restarts: true, skew: 20 * time.Millisecond}
	five     = story{nodes: 5, proxies: 2, actors: 2, weather: storm, cuts: true, restarts: true, skew: 20 * time.Millisecond}
	steps    = story{nodes: 3, proxies: 3, actors: 2, weather: storm, cuts: true, steps: true, skew: 20 * time.Millisecond}
	both     = story{nodes: 3, proxies: 3, actors: 2, weather: storm, cuts: true, restarts: true, steps: true, skew: 20 * time.Millisecond}
	noClock  = story{nodes: 3, proxies: 3, actors: 2, weather: storm, cuts: true, steps: true, mute: true}
)

func TestNoStoryBreaksAPromiseOfRedlock(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]story{
		"bad links": badLinks, "restarts": restarts, "restarts of five": five, "clock steps": steps,
		"restarts and clock steps": both, "counters alone": noClock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			granted := 0
			for seed := range uint64(*exploreRuns) {
				p := s.play(t, seed)
				granted += len(p.entries)
				if faults := p.faults(); len(faults) > 0 {
					t.Fatalf("seed %d: %s", seed, faults[0])
				}
			}
			if granted < 20**exploreRuns {
				t.Errorf("%d holds in %d stories prove nothing", granted, *exploreRuns)
			}
		})
	}
}

// What the explorer can't see go wrong, it does not prove.
func TestTheExplorerSeesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story story
		edit  func(*story)
	}{
		"late messages that set a counter":    {noClock, func(s *story) { s.faults.raisesBlindly, s.faults.raisesForAnybody = true, true }},
		"joining a session granted meanwhile": {steps, func(s *story) { s.faults.joinsBlindly = true }},
		"releases of others' locks":           {badLinks, func(s *story) { s.faults.releasesBlindly = true }},
		"nodes that take part at once":        {restarts, func(s *story) { s.faults.forgetsThatItForgot = true }},
		"quorums that don't meet":             {badLinks, func(s *story) { s.quorum = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.edit(&c.story)
			for seed := range uint64(1000) {
				if p := c.story.play(t, seed); len(p.faults()) > 0 {
					t.Logf("seed %d: %s", seed, p.faults()[0])
					return
				}
			}
			t.Error("no story shows it")
		})
	}
}

// played is a story that has come to its end.
type played struct {
	story
	mu       sync.Mutex
	entries  []*exploreEntry
	renewals []renewal
}

// renewal is one that succeeded.
type renewal struct {
	grant  uint64
	called time.Time
}

// exploreEntry is one hold. Its owner believes in it from returned to ended.
type exploreEntry struct {
	grant                   uint64
	called, returned, ended time.Time
}

func (s story) play(t *testing.T, seed uint64) *played {
	t.Helper()
	p := &played{story: s}
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		s.run(p, newChance(seed))
	})
	return p
}

func (s story) run(p *played, c *chance) {
	var tasks sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), exploreLength)
	defer cancel()
	nodes, clocks := make([]*fakeNode, s.nodes), make([]*fakeClock, s.nodes)
	for i := range nodes {
		clocks[i] = &fakeClock{offset: c.between(0, 2*s.skew) - s.skew}
		nodes[i] = newFakeNode(clocks[i].now)
		nodes[i].faults, nodes[i].mute = s.faults, s.mute
	}
	var links []*fakeLink
	lockers := make([]*redlock, s.proxies)
	for i := range lockers {
		settings := *redlockDefaults().(*RedlockSettings)
		settings.NodeTimeout, settings.RestartDelay = 50*time.Millisecond, exploreLease
		l := newRedlock(settings, Environment{Proxy: fmt.Sprint("p", i), Log: slog.New(slog.DiscardHandler)})
		l.jitter = func(d time.Duration) time.Duration { return c.between(d/2, d) }
		for j, n := range nodes {
			link := &fakeLink{node: n, l: l, chance: c, tasks: &tasks, weather: s.weather}
			links = append(links, link)
			l.add(fmt.Sprint("n", j), link)
		}
		if s.quorum > 0 {
			l.quorum = s.quorum
		}
		lockers[i] = l
	}
	for _, l := range lockers {
		for range s.actors {
			tasks.Go(func() { p.act(ctx, l, c) })
		}
	}
	tasks.Go(func() { s.misfortunes(ctx, c, nodes, clocks, links) })
	<-ctx.Done()
	for _, l := range links {
		l.setCut(false)
	}
	for _, l := range lockers {
		_ = l.Close(context.Background())
	}
	tasks.Wait()
}

// act is one owner: it acquires, holds for a while, renews or does not, releases or forgets to.
func (p *played) act(ctx context.Context, l *redlock, c *chance) {
	for ctx.Err() == nil {
		time.Sleep(c.between(0, 200*time.Millisecond))
		patience, cancel := context.WithTimeout(ctx, c.between(50*time.Millisecond, 3*exploreLease))
		called := time.Now()
		h, err := l.Acquire(patience, Request{Session: "s", Holder: "an actor", Lease: exploreLease})
		cancel()
		if err != nil {
			continue
		}
		e := p.enter(h, called)
		for turns := c.below(4); turns > 0 && !closed(h.Lost()); turns-- {
			time.Sleep(c.between(0, exploreLease/2))
			if c.happens(.7) {
				p.renew(ctx, h)
			}
		}
		if c.happens(.1) { // its owner has forgotten it
			select {
			case <-h.Lost():
			case <-ctx.Done():
			}
			p.end(e, h)
			continue
		}
		p.end(e, h)
		_ = h.Release(ctx)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *played) enter(h Hold, called time.Time) *exploreEntry {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &exploreEntry{grant: h.Grant(), called: called, returned: time.Now()}
	p.entries = append(p.entries, e)
	return e
}

func (p *played) renew(ctx context.Context, h Hold) {
	called := time.Now()
	if h.Renew(ctx) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewals = append(p.renewals, renewal{h.Grant(), called})
}

func (p *played) end(e *exploreEntry, h Hold) {
	e.ended = time.Now()
	if until := h.Until(); until.Before(e.ended) {
		e.ended = until
	}
}

// misfortunes happen to the nodes, one after the other.
func (s story) misfortunes(ctx context.Context, c *chance, nodes []*fakeNode, clocks []*fakeClock, links []*fakeLink) {
	wrong := -1 // the node whose clock is
	for ctx.Err() == nil {
		time.Sleep(c.between(50*time.Millisecond, 3*time.Second))
		i := c.below(len(nodes))
		switch c.below(3) {
		case 0:
			if s.cuts {
				link := links[c.below(len(links))]
				link.setCut(true)
				time.Sleep(c.between(0, 2*exploreLease))
				link.setCut(false)
			}
		case 1:
			if s.restarts {
				s.restart(c, i, nodes, links)
			}
		case 2:
			if s.steps {
				if wrong >= 0 {
					clocks[wrong].step(-clocks[wrong].stepped())
					wrong = -1
				} else {
					wrong = i
					clocks[i].step([]time.Duration{-10 * time.Minute, 10 * time.Minute}[c.below(2)])
				}
			}
		}
	}
}

// restart takes a node away for as long as a restart takes, and brings it back empty.
func (s story) restart(c *chance, i int, nodes []*fakeNode, links []*fakeLink) {
	for j, l := range links {
		if j%len(nodes) == i {
			l.setCut(true)
		}
	}
	time.Sleep(c.between(100*time.Millisecond, time.Second))
	nodes[i].forget()
	for j, l := range links {
		if j%len(nodes) == i {
			l.setCut(false)
		}
	}
}

// fakeClock is a wall clock.
type fakeClock struct {
	mu         sync.Mutex
	offset, by time.Duration
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset + c.by)
}

func (c *fakeClock) step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += by
}

func (c *fakeClock) stepped() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by
}

// faults are what contradicts the promises, as far as Redlock makes them: where clocks step, holds may overlap until they
// are renewed; where nodes also restart meanwhile, even a renewal may not tell.
func (p *played) faults() []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	slices.SortFunc(p.entries, func(a, b *exploreEntry) int { return cmp.Compare(a.grant, b.grant) })
	for i, e := range p.entries {
		if e.grant > largestGrant {
			say("grant %d is too large", e.grant)
		}
		for _, before := range p.entries[:i] {
			switch {
			case before.grant == e.grant:
				say("grant %d was given twice", e.grant)
			case before.called.After(e.returned):
				say("grant %d was given after %d, which came %v before it was asked for", before.grant, e.grant, before.called.Sub(e.returned))
			case before.ended.After(e.returned) && !p.steps:
				say("grant %d was given %v before the end of %d", e.grant, before.ended.Sub(e.returned), before.grant)
			}
		}
		for _, r := range p.renewals {
			if r.grant < e.grant && r.called.After(e.returned) && !(p.steps && p.restarts) {
				say("grant %d was renewed %v after %d was given", r.grant, r.called.Sub(e.returned), e.grant)
			}
		}
	}
	return faults
}
