package lock

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The explorer plays every interleaving of some clients' read-modify-writes on one or two sessions with the
// misfortunes that can come between, and looks whether an update that was acknowledged is lost. A
// begin and the read behind it are steps of their own, as they are for Redis.

// story is what happens, in some order.
type story struct {
	rule    rule.Rule
	mixed   bool // each read may look, or take the session
	lockers int  // this many clients take it though the rule's mode is fence
	clients int
	updates int  // each client makes
	adds    int  // atomic updates (RPUSH) that one more client makes
	both    bool // each update is made in two sessions, whose order differs from client to client

	elsewhere bool // a lock provider elsewhere grants; leases are its holds' then, and end without their holders knowing
	losses    int  // leases that end with their holders knowing
	resets    int  // the provider counts anew, and the records are migrated

	lapses   int // leases that end without a word
	idles    int // holds that end for want of commands
	renewals int // by the keeper
	overlong int // holds that reach max_hold
	flushes  int // losses of the record
	failures int // reads that Redis answers with an error
	crashes  int // clients that are killed together with their proxy
}

// play is one run of a story, up to some point.
type play struct {
	story // what is left of it
	f     *fake
	l     *locker // nil unless locks are elsewhere
	tasks []*task
	value map[string]uint64 // by session: updates in the value, one bit each
	acked map[string]uint64 // … that a client was told were made
	names []string
}

// task is a client and how far it is.
type task struct {
	c     *client
	turn  []string // the sessions that it reads, one after the other, and then writes
	n     int      // how many of them it has read, or written
	at    step
	seen  map[string]uint64 // the values that it read
	left  int
	dead  bool
	bit   uint64 // its next update
	again int    // times it was refused
}

type step int

const (
	toBegin step = iota
	toRead
	toWrite
	toAdd
)

// refusals bounds how often one client tries again.
const refusals = 2

type action struct {
	name string
	do   func()
}

func newPlay(t *testing.T, s *story) *play {
	t.Helper()
	compiled := s.rule
	compiled.Name, compiled.Prefix = "chat", "agent:"
	if compiled.Mode == "" {
		compiled.Mode = rule.ModeLock
	}
	r, err := rule.New(compiled)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{story: *s, f: newFake(), value: map[string]uint64{}, acked: map[string]uint64{}}
	w := &world{T: t, f: p.f, rule: r}
	w.m = NewManager("proxy", p.f, slog.New(slog.DiscardHandler))
	p.f.m = w.m
	if s.elsewhere {
		p.l, p.f.given = newLocker(), true
		w.m.Use(Outside{Name: "fake", Locker: p.l})
		synctest.Wait()
	}
	bit := uint64(1)
	for i := range s.clients {
		c := &client{world: w, owner: w.m.Owner(tokenstore.Identity{Client: fmt.Sprint(i)})}
		turn := []string{"s"}
		if s.both {
			if turn = []string{"s", "t"}; i%2 == 1 {
				turn = []string{"t", "s"}
			}
		}
		p.tasks = append(p.tasks, &task{c: c, turn: turn, seen: map[string]uint64{}, left: s.updates, bit: bit})
		bit <<= s.updates
	}
	if s.adds > 0 {
		c := &client{world: w, owner: w.m.Owner(tokenstore.Identity{Client: "adds"})}
		p.tasks = append(p.tasks, &task{c: c, turn: []string{"s"}, seen: map[string]uint64{}, at: toAdd, left: s.adds, bit: bit})
	}
	return p
}

func (p *play) end() {
	if p.l != nil {
		p.tasks[0].c.m.Close(context.Background())
		p.l.stop()
	}
	for _, k := range p.tasks {
		for _, s := range k.sequences() {
			if s.timer != nil {
				s.timer.Stop()
			}
		}
	}
}

// sequences are the client's, on all sessions that it has to do with.
func (k *task) sequences() []*Sequence {
	all := make([]*Sequence, len(k.turn))
	for i, session := range k.turn {
		all[i] = k.c.sequence(session)
	}
	return all
}

// at returns who holds a session, and whether its proxy was killed.
func (p *play) holder(session string) (h tokenstore.Holder, dead bool) {
	h = p.f.holder(p.tasks[0].c.sequence(session).Record)
	return h, slices.ContainsFunc(p.tasks, func(k *task) bool { return k.dead && k.c.owner.ID == h.Owner })
}

// actions are what can happen next.
func (p *play) actions() []action {
	var all []action
	add := func(name string, do func()) { all = append(all, action{name, do}) }
	ctx := context.Background()
	now := time.Now()
	for i, k := range p.tasks {
		if k.dead {
			continue
		}
		s := k.c.sequence(k.turn[k.n])
		holder, _ := p.holder(k.turn[k.n])
		name := func(what string) string { return fmt.Sprintf("%d %s", i, what) }
		free := !holder.Held() || holder.Owner == k.c.owner.ID
		switch {
		case k.left == 0:
		case p.l != nil && k.asks(s):
			if !p.l.holds(given(s.Record.Session)) {
				add(name("asks"), func() {
					if err := k.c.ask(s); err != nil {
						k.c.Fatal(err)
					}
				})
			}
		case p.l != nil && k.at == toBegin && s.given != nil:
			add(name("begins"), func() { k.begin(true) })
		case p.l != nil && (k.at == toWrite || k.at == toAdd) && s.given != nil:
			add(name("registers"), func() { k.secure(s) })
		case k.at == toBegin && s.Rule.Mode == rule.ModeFence && i >= p.lockers && s.State() != Held:
			add(name("looks"), func() { k.begin(false) })
			if p.mixed && free {
				add(name("begins"), func() { k.begin(true) })
			}
		case k.at == toBegin && free:
			add(name("begins"), func() { k.begin(true) })
			if p.failures > 0 && s.State() != Held {
				add(name("fails"), func() {
					p.failures--
					if k.begin(true); k.at == toRead {
						s.Abandon(ctx)
						k.at = toBegin
					}
				})
			}
		case k.at == toRead:
			add(name("reads"), func() {
				k.seen[k.turn[k.n]] = p.value[k.turn[k.n]]
				s.Read(1, []uint64{k1}, now)
				if k.n++; k.n < len(k.turn) {
					k.at = toBegin
				} else {
					k.n, k.at = 0, toWrite
				}
			})
		case k.at == toWrite && (free || s.presents()):
			add(name("writes"), func() {
				session := k.turn[k.n]
				err := k.c.commit(session, Write{Keys: []uint64{k1}}, func() bool { p.value[session] = k.seen[session] | k.bit; return true })
				p.settle(k, err)
			})
		case k.at == toAdd && free:
			add(name("adds"), func() {
				err := k.c.commit("s", Write{Keys: []uint64{k1}, Atomic: true}, func() bool { p.value["s"] |= k.bit; return true })
				p.settle(k, err)
				k.at = toAdd
			})
		}
		if p.crashes > 0 && k.left > 0 {
			add(name("is killed"), func() { p.crashes--; k.dead = true })
		}
		for _, s := range k.sequences() {
			all = append(all, p.kept(i, k, s, now)...)
		}
	}
	sessions := []string{"s"}
	if p.both {
		sessions = append(sessions, "t")
	}
	for _, session := range sessions {
		record := p.tasks[0].c.sequence(session).Record
		if p.l != nil {
			all = append(all, p.mishaps(session)...)
			continue
		}
		if holder, dead := p.holder(session); holder.Held() && (dead || p.lapses > 0) {
			add("the lease on "+session+" ends", func() {
				if !dead {
					p.lapses--
				}
				p.f.lapse(record)
			})
		}
		if p.flushes > 0 && p.f.token(record).Grant > 0 {
			add("the record of "+session+" is lost", func() { p.flushes--; p.f.forget(record) })
		}
	}
	return all
}

// kept is what a sequence's keeper may do.
func (p *play) kept(i int, k *task, s *Sequence, now time.Time) []action {
	var all []action
	ctx := context.Background()
	add := func(what string, do func()) {
		all = append(all, action{fmt.Sprintf("%d %s with %s", i, what, s.Record.Session), do})
	}
	if s.State() != Held || k.at == toRead && s.Record.Session == k.turn[k.n] { // it keeps out of a command
		return nil
	}
	if p.idles > 0 {
		add("idles", func() {
			p.idles--
			s.mu.Lock()
			defer s.mu.Unlock()
			s.release(ctx, false)
			s.lapse()
		})
	}
	if p.renewals > 0 {
		add("renews", func() {
			p.renewals--
			s.renew(ctx, s.grant)
		})
	}
	if p.overlong > 0 {
		add("reaches max_hold", func() {
			p.overlong--
			s.mu.Lock()
			defer s.mu.Unlock()
			s.outlive(ctx, now.Add(s.Rule.MaxHold))
		})
	}
	return all
}

// forget loses the record, as a flush does; grants still grow, by the clock.
func (f *fake) forget(r *tokenstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	*s = session{lost: max(s.grant, s.lost)}
}

// presents reports whether a write would present a grant: it need not wait then.
func (s *Sequence) presents() bool {
	return s.state == Held || s.state == Ended || s.state == Broken
}

// begin is how a read begins: with a hold, or with a look.
func (k *task) begin(take bool) {
	s := k.c.sequence(k.turn[k.n])
	now := time.Now()
	how, expected, err := s.before(context.Background(), "get", now, take)
	switch {
	case err != nil: // it is told that its sequence is broken
	case how == Verify:
		err = s.Current(k.c.f.token(s.Record))
	case how == Look:
		s.Looked(k.c.f.look(s.Record), true, now)
	default:
		if how == Resume {
			k.c.Fatal("time does not pass here")
		}
		if k.c.m.outside != nil {
			b := k.c.f.register(s.Record, s.Claim, s.Given(), expected)
			if b.Behind {
				if err := s.Behind(b); err != nil {
					k.c.Fatal(err)
				}
				return // it asks again
			}
			s.Granted(b, now)
			break
		}
		s.Granted(k.c.f.begin(s.Record, s.Claim, "", expected), now)
	}
	if err == nil {
		k.at = toRead
		return
	}
	k.refused()
}

// asks reports whether the next thing is to ask the lock provider for the session.
func (k *task) asks(s *Sequence) bool {
	if s.given != nil {
		return false
	}
	switch k.at {
	case toBegin:
		return s.State() != Held && s.State() != Broken && s.Rule.Mode == rule.ModeLock
	case toWrite, toAdd:
		return s.State() == Free || s.State() == Seen
	}
	return false
}

// secure registers what was given ahead of a write.
func (k *task) secure(s *Sequence) {
	w := Write{Keys: []uint64{k1}, Atomic: k.at == toAdd}
	token, err := s.BeforeWrite(context.Background(), w, time.Now())
	if err == nil && token.Grant == 0 {
		_, err = k.c.secure(s, token)
	}
	if err == nil {
		return
	}
	add := k.at == toAdd
	if k.refused(); add {
		k.at = toAdd
	}
}

// mishaps are what may befall a session whose lock is elsewhere.
func (p *play) mishaps(session string) []action {
	var all []action
	add := func(name string, do func()) { all = append(all, action{name, do}) }
	key := given(session)
	held, quiet := p.l.holds(key), true
	if dead := held && p.ofDead(key); held && (dead || p.lapses > 0) {
		add("the lease on "+session+" ends at the provider", func() {
			if !dead {
				p.lapses--
			}
			p.l.lapse(key, quiet)
		})
	}
	if held && p.losses > 0 {
		add("the lease on "+session+" ends, and its holder hears of it", func() {
			p.losses--
			p.l.lapse(key, !quiet)
		})
	}
	record := p.tasks[0].c.sequence(session).Record
	if p.flushes > 0 && p.f.at(record).there() {
		add("the record of "+session+" is lost", func() { p.flushes--; p.f.flush(record) })
	}
	if p.resets > 0 && p.f.at(record).there() {
		add("the provider counts anew, and "+session+" is migrated", func() {
			p.resets--
			p.l.reset()
			p.f.migrate(record)
		})
	}
	return all
}

// ofDead reports whether a hold is a client's that was killed.
func (p *play) ofDead(key string) bool {
	who := p.l.holder(key)
	return slices.ContainsFunc(p.tasks, func(k *task) bool { return k.dead && strings.HasPrefix(who, k.c.name()) })
}

// name is the client's among the holders at the provider.
func (c *client) name() string { return c.owner.identity.Client + " of " }

func (k *task) refused() {
	k.at, k.n = toBegin, 0
	if k.again++; k.again > refusals {
		k.left = 0
	}
}

// settle notes a write's reply.
func (p *play) settle(k *task, err error) {
	if err != nil {
		k.refused()
		return
	}
	p.acked[k.turn[k.n]] |= k.bit
	if k.n++; k.n < len(k.turn) {
		return
	}
	k.bit <<= 1
	k.left--
	k.at, k.n = toBegin, 0
	clear(k.seen)
}

// key says all that matters for what can happen next. Grants count by their order alone.
func (p *play) key() string {
	var b strings.Builder
	left := p.story
	left.rule = rule.Rule{}
	fmt.Fprint(&b, left, p.value, p.acked)
	for _, session := range []string{"s", "t"} {
		if session == "s" || p.both {
			p.describe(&b, session)
		}
	}
	for _, k := range p.tasks {
		fmt.Fprint(&b, "|", k.at, k.n, k.seen, k.left, k.again, k.dead)
	}
	return b.String()
}

// describe is key for one session.
func (p *play) describe(b *strings.Builder, session string) {
	at := p.f.at(p.tasks[0].c.sequence(session).Record)
	grants := []uint64{0, at.grant, at.storedFor}
	if at.hold != nil {
		grants = append(grants, at.hold.grant)
	}
	for _, k := range p.tasks {
		s := k.c.sequence(session)
		grants = append(grants, s.grant, s.seen.Grant)
		if s.given != nil {
			grants = append(grants, s.given.Grant())
		}
		if s.hold != nil {
			grants = append(grants, s.hold.Grant())
		}
	}
	if p.l != nil {
		grants = append(grants, p.l.last, p.f.base)
		if h := p.l.at(given(session)).hold; h != nil {
			grants = append(grants, h.grant)
		}
	}
	slices.Sort(grants)
	grants = slices.Compact(grants)
	rank := func(grant uint64) int { return slices.Index(grants, grant) }

	fmt.Fprint(b, " ", session, rank(at.grant), rank(at.storedFor), at.storedSeq)
	if p.l != nil {
		p.describeElsewhere(b, session, rank)
	}
	if h, _ := p.holder(session); h.Held() {
		fmt.Fprint(b, h.Owner)
	}
	for _, k := range p.tasks {
		s := k.c.sequence(session)
		fmt.Fprint(b, "|", s.state, rank(s.grant), s.seq, rank(s.seen.Grant), s.seen.Seq, s.pending, s.lingering, s.broken != nil)
		for i := range s.reads.keys {
			r := &s.reads.keys[i]
			fmt.Fprint(b, " ", r.key, r.fresh, r.stale)
		}
		fmt.Fprint(b, s.reads.commands, s.reads.stale)
	}
}

// describeElsewhere is key for one session at the lock provider.
func (p *play) describeElsewhere(b *strings.Builder, session string, rank func(uint64) int) {
	fmt.Fprint(b, " at the provider ", rank(p.l.last), rank(p.f.base), p.f.at(p.tasks[0].c.sequence(session).Record).unused)
	if h := p.l.at(given(session)).hold; h != nil {
		fmt.Fprint(b, " ", rank(h.grant), p.l.holder(given(session)))
	}
	for _, k := range p.tasks {
		s := k.c.sequence(session)
		for _, h := range []provider.Hold{s.given, s.hold} {
			if h == nil {
				fmt.Fprint(b, " -")
				continue
			}
			fmt.Fprint(b, " ", rank(h.Grant()), h.(*lockerHold).over, isOver(h))
		}
		fmt.Fprint(b, s.tries > 0)
	}
}

// explorer visits every state of a story.
type explorer struct {
	*testing.T
	story   *story
	lenient bool // the store follows the usual rule: any token above the last one stored
	seen    map[string]bool
	ends    int
	lost    string // how an update was lost, if one was
}

// explore returns how many states there are, and a way to lose an update.
func explore(t *testing.T, s *story, lenient bool) (states int, lost string) {
	t.Helper()
	e := &explorer{T: t, story: s, lenient: lenient, seen: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		e.T = t
		e.visit(nil)
	})
	if e.ends == 0 && e.lost == "" {
		t.Error("no play comes to an end")
	}
	return len(e.seen), e.lost
}

func (e *explorer) visit(choices []int) {
	if e.lost != "" {
		return
	}
	p := newPlay(e.T, e.story)
	p.f.lenient = e.lenient
	defer p.end()
	for _, choice := range choices {
		next := p.actions()[choice]
		p.names = append(p.names, next.name)
		next.do()
		if p.l != nil {
			synctest.Wait() // what was given back is back
		}
	}
	for session, acked := range p.acked {
		if acked&^p.value[session] != 0 {
			e.lost = strings.Join(p.names, ", ")
			return
		}
	}
	key := p.key()
	if e.seen[key] || enough(len(e.seen)) {
		return
	}
	e.seen[key] = true
	n := len(p.actions())
	if n == 0 {
		e.ends++
	}
	for choice := range n {
		e.visit(append(slices.Clone(choices), choice))
	}
}

// enough reports whether an explorer has seen as many states of a story as it shall.
func enough(seen int) bool { return raceDetector && !*epic && seen >= 250 }

// epic plays the stories that take minutes as well.
var epic = flag.Bool("long", false, "explore the long stories, too")

// epics are the long stories.
var epics = map[string]*story{
	"of two clients that look at or take two sessions": {
		rule: rule.Rule{Mode: rule.ModeFence}, mixed: true, both: true, clients: 2, updates: 1, lapses: 1, crashes: 1,
	},
	"of clients that look or take, with everything": {
		rule: rule.Rule{Mode: rule.ModeFence}, mixed: true, clients: 2, updates: 2, adds: 1, lapses: 1, idles: 1, flushes: 1,
	},
	"of clients that look or take, many writes, with everything": {
		rule: rule.Rule{Mode: rule.ModeFence, WritesPerRead: rule.Many}, mixed: true, clients: 2, updates: 2, lapses: 1, idles: 1, flushes: 1,
	},
}

func TestNoInterleavingLosesAnAcknowledgedUpdate(t *testing.T) {
	stories := map[string]*story{
		"of three clients":                     {clients: 3, updates: 1, lapses: 2},
		"of three clients, one idle":           {clients: 3, updates: 1, lapses: 1, idles: 1},
		"of two clients that go on":            {clients: 2, updates: 2, lapses: 1, idles: 1},
		"with losses of the record":            {clients: 2, updates: 1, lapses: 1, idles: 1, flushes: 1, failures: 1},
		"with holds that are revoked":          {clients: 2, updates: 1, lapses: 1, idles: 1, renewals: 1, overlong: 1},
		"with atomic updates":                  {clients: 2, updates: 1, adds: 2, lapses: 1, idles: 1},
		"of clients that linger":               {rule: rule.Rule{Linger: time.Second}, clients: 2, updates: 2, lapses: 1, idles: 1},
		"of clients that look":                 {rule: rule.Rule{Mode: rule.ModeFence}, clients: 3, updates: 1},
		"of clients that look, and go on":      {rule: rule.Rule{Mode: rule.ModeFence}, clients: 2, updates: 2, adds: 1},
		"of clients that look, losing records": {rule: rule.Rule{Mode: rule.ModeFence}, clients: 2, updates: 1, flushes: 2},
		"of clients that look, many writes":    {rule: rule.Rule{Mode: rule.ModeFence, WritesPerRead: rule.Many}, clients: 2, updates: 2, flushes: 1},
		"of clients that look beside one that takes": {
			rule: rule.Rule{Mode: rule.ModeFence}, lockers: 1, clients: 3, updates: 1, lapses: 1, idles: 1,
		},
		"of clients that look or take": {
			rule: rule.Rule{Mode: rule.ModeFence}, mixed: true, clients: 2, updates: 1, lapses: 1, idles: 1,
		},
		"of clients that look or take, losing records": {
			rule: rule.Rule{Mode: rule.ModeFence}, mixed: true, clients: 2, updates: 1, lapses: 1, idles: 1, flushes: 1,
		},
		"of clients that look or take, with atomic updates": {
			rule: rule.Rule{Mode: rule.ModeFence}, mixed: true, clients: 2, updates: 1, adds: 1, lapses: 1,
		},
		"of clients that look or take, many writes": {
			rule: rule.Rule{Mode: rule.ModeFence, WritesPerRead: rule.Many}, mixed: true, clients: 2, updates: 1, lapses: 1,
		},
		"of two clients in two sessions":           {both: true, clients: 2, updates: 1, lapses: 1, crashes: 1},
		"of two clients in two sessions, one idle": {both: true, clients: 2, updates: 1, idles: 1, overlong: 1},
		"of two clients that look at two sessions": {
			rule: rule.Rule{Mode: rule.ModeFence}, both: true, clients: 2, updates: 1, flushes: 1, crashes: 1,
		},
		"of clients that are killed":  {clients: 3, updates: 1, lapses: 1, crashes: 2},
		"of sequences of many writes": {rule: rule.Rule{WritesPerRead: rule.Many}, clients: 2, updates: 2, lapses: 1, idles: 1},
	}
	for name, s := range map[string]*story{
		"of three clients":                {clients: 3, updates: 1, lapses: 1},
		"of two clients that go on":       {clients: 2, updates: 2, lapses: 1, idles: 1},
		"with leases that end":            {clients: 2, updates: 1, lapses: 2, losses: 1},
		"with losses of the record":       {clients: 2, updates: 1, lapses: 1, flushes: 1},
		"with holds that are revoked":     {clients: 2, updates: 1, lapses: 1, renewals: 1, overlong: 1},
		"with atomic updates":             {clients: 2, updates: 1, adds: 1, lapses: 1},
		"of clients that look":            {rule: rule.Rule{Mode: rule.ModeFence}, clients: 2, updates: 1, lapses: 1, flushes: 1},
		"of clients that look, with adds": {rule: rule.Rule{Mode: rule.ModeFence}, clients: 2, updates: 1, adds: 1, lapses: 1},
		"of clients that are killed":      {clients: 2, updates: 1, lapses: 1, crashes: 1},
		"with a provider that is reset":   {rule: rule.Rule{WritesPerRead: rule.Many}, clients: 2, updates: 2, resets: 1},
	} {
		s.elsewhere = true
		stories["with locks elsewhere, "+name] = s
	}
	if *epic {
		maps.Copy(stories, epics)
	}
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			states, lost := explore(t, s, false)
			if lost != "" {
				t.Errorf("an update is lost: %s", lost)
			}
			t.Logf("%d states", states)
		})
	}
}

func TestTheExplorerFindsWhatTheUsualRuleLoses(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		if states, lost := explore(t, &story{clients: 2, updates: 1, lapses: 1, elsewhere: elsewhere}, true); lost == "" {
			t.Errorf("nothing is lost in %d states", states)
		}
	}
}
