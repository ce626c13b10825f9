package lock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// This explorer plays every interleaving of the tasks of one client on one key, over a pool of connections: any of
// them may carry a task's read, and any its write. The client turns out to pool somewhere in the middle. A
// begin, Redis's answer to the read, and the proxy's note of it are steps of their own; the task may write
// as soon as it has the answer.

// pooling is what happens, in some order.
type pooling struct {
	rule      rule.Rule
	conns     int
	tasks     int  // of the pooled client, one update each
	outsiders int  // clients with a connection of their own at another proxy, one update each
	pooled    bool // it is known from the start

	lapses int
	idles  int
	closes int // connections that close between two commands, and are made anew
}

// pool is one play of it.
type pool struct {
	pooling
	*testing.T
	f     *fake
	m     *Manager
	rule  *rule.Rule
	group *Group
	conns []*conn
	tasks []*errand
	value uint64
	acked uint64
	names []string
	sent  int // refusals
}

// conn is a connection, and the command that it is in the middle of.
type conn struct {
	owner *Owner
	plain bool      // an outsider's
	s     *Sequence // that it is inside of
	read  *errand   // whose read it carries out
	how   How
	basis tokenstore.Basis
	stage stage
}

type stage int

const (
	idle   stage = iota
	inLine       // the store has said that somebody else holds the session
	begun        // it may read
	told         // the client has the answer, the proxy has not noted it
)

// errand is a task: it reads, and writes what it has read and its own bit.
type errand struct {
	bit   uint64
	conns []*conn // over which its commands go
	at    step    // toBegin, toRead (its read is under way), toWrite
	seen  uint64
	again int
	done  bool
}

func newPool(t *testing.T, story *pooling) *pool {
	t.Helper()
	compiled := story.rule
	compiled.Name, compiled.Prefix = "chat", "agent:"
	r, err := rule.New(compiled)
	if err != nil {
		t.Fatal(err)
	}
	p := &pool{pooling: *story, T: t, f: newFake(), rule: r}
	p.m = NewManager("proxy", p.f, slog.New(slog.DiscardHandler))
	p.f.m = p.m
	p.group = p.m.Group(tokenstore.Identity{Client: "all"})
	for range story.conns {
		c := &conn{}
		p.connect(c)
		p.conns = append(p.conns, c)
	}
	if story.pooled {
		p.group.Pool()
	}
	bit := uint64(1)
	for range story.tasks {
		p.tasks = append(p.tasks, &errand{bit: bit, conns: p.conns})
		bit <<= 1
	}
	for range story.outsiders {
		c := &conn{owner: p.m.Owner(tokenstore.Identity{Client: "outside"}), plain: true}
		p.conns = append(p.conns, c)
		p.tasks = append(p.tasks, &errand{bit: bit, conns: []*conn{c}})
		bit <<= 1
	}
	return p
}

func (p *pool) connect(c *conn) {
	*c = conn{owner: p.m.Owner(tokenstore.Identity{Client: "one"})}
	c.owner.Belong(p.rule.ClientBy, p.group, c)
}

func (p *pool) sequence(c *conn) *Sequence {
	if !c.plain && p.group.Pooled() {
		return p.group.Owner().Sequence(tokenstore.Area{}, p.rule, []byte("s"))
	}
	return c.owner.Sequence(tokenstore.Area{}, p.rule, []byte("s"))
}

// enter goes inside the connection's sequence, or reports that it has to wait.
func (p *pool) enter(c *conn) bool {
	for {
		s, _ := p.sequence(c).Present()
		if !s.TryEnter() {
			return false
		}
		settled, stirred := s.Settle()
		if settled {
			c.s = s
			return true
		}
		s.Leave()
		if stirred != nil {
			return false
		}
	}
}

func (c *conn) leave() {
	c.s.Leave()
	c.s, c.read, c.stage = nil, nil, idle
}

func (p *pool) begin(k *errand, c *conn) {
	if !p.enter(c) {
		return
	}
	c.s.Reads()
	var err error
	c.how, c.basis, err = c.s.BeforeRead(context.Background(), "get", time.Now())
	if err != nil {
		c.leave()
		p.refused(k)
		return
	}
	c.read, k.at = k, toRead
	p.ask(c)
}

// ask asks the store for the session.
func (p *pool) ask(c *conn) {
	k, now := c.read, time.Now()
	var err error
	switch c.how {
	case Verify:
		err = c.s.Current(p.f.token(c.s.Record))
	case Look:
		c.s.Looked(p.f.look(c.s.Record), true, now)
	default:
		b := p.f.begin(c.s.Record, c.s.Claim, "", c.basis)
		if !b.Granted {
			if kin, _ := c.s.HeldByKin(b.Holder.Owner); kin && c.s.Shared() {
				k.at = toBegin
				c.leave()
				return
			}
			c.stage = inLine
			c.s.lineUp(true)
			return
		}
		c.s.lineUp(false)
		c.s.Granted(b, now)
	}
	if err != nil {
		c.leave()
		p.refused(k)
		return
	}
	c.stage = begun
}

// write is a write's way through package proxy.
func (p *pool) write(k *errand, c *conn) {
	own, lone := p.sequence(c), false
	if !c.plain && !p.group.Pooled() {
		reads, stirred := own.SiblingReads()
		if stirred != nil {
			return
		}
		if lone = own.Lone(); reads {
			p.group.Pool()
		}
	}
	if !p.enter(c) {
		return
	}
	defer c.leave()
	s := c.s
	w := Write{Keys: []uint64{k1}}
	for {
		now := time.Now()
		token, err := s.BeforeWrite(context.Background(), w, now)
		if err != nil {
			p.refused(k)
			return
		}
		commit := tokenstore.Commit{Record: s.Record, Claim: s.Claim, Grant: token.Grant, Read: token.Read, Seq: token.Seq, Keep: s.Keeps()}
		check, grant, applied := p.f.commit(commit, func() bool { p.value = k.seen | k.bit; return true })
		switch {
		case check.Verdict == tokenstore.Good:
			s.Committed(commit, grant, w, applied, now)
			p.acked |= k.bit
			k.done = true
			return
		case check.Verdict == tokenstore.Held, check.Verdict == tokenstore.Queued:
			if kin, _ := s.HeldByKin(check.Holder.Owner); kin && (lone || s.Shared()) {
				p.group.Pool()
			}
			return
		case !token.OrBlind:
			_ = s.Refused(check)
			p.refused(k)
			return
		}
		s.Superseded()
	}
}

func (p *pool) refused(k *errand) {
	p.sent++
	k.at = toBegin
	if k.again++; k.again > refusals {
		k.done = true
	}
}

func (p *pool) actions() []action {
	var all []action
	add := func(do func(), name string, args ...any) {
		all = append(all, action{fmt.Sprintf(name, args...), do})
	}
	ctx := context.Background()
	record := tokenstore.NewRecord(tokenstore.Area{}, "chat", "s")
	for i, k := range p.tasks {
		for _, c := range k.conns {
			at := slices.Index(p.conns, c)
			switch {
			case k.done || c.stage != idle:
			case k.at == toBegin:
				add(func() { p.begin(k, c) }, "%d begins over %d", i, at)
			case k.at == toWrite:
				add(func() { p.write(k, c) }, "%d writes over %d", i, at)
			}
		}
	}
	for i, c := range p.conns {
		switch c.stage {
		case inLine:
			if !p.f.holder(record).Held() {
				add(func() { p.ask(c) }, "%d has its turn", i)
			}
		case begun:
			add(func() { c.read.seen, c.read.at, c.stage = p.value, toWrite, told }, "%d answers", i)
		case told:
			add(func() {
				c.s.Read(1, []uint64{k1}, time.Now())
				if c.s.Shared() {
					c.s.Join(c)
				}
				c.leave()
			}, "%d notes", i)
		case idle:
			busy := slices.ContainsFunc(p.sequences(), func(s *Sequence) bool { return len(s.gate) > 0 }) // it would wait for that
			if p.closes > 0 && !c.plain && !busy {
				add(func() {
					p.closes--
					c.owner.Close()
					p.group.Owner().Leave(c)
					synctest.Wait()
					p.connect(c)
				}, "%d closes", i)
			}
		}
	}
	if p.lapses > 0 && p.f.holder(record).Held() {
		add(func() { p.lapses--; p.f.lapse(record) }, "the lease ends")
	}
	if p.idles > 0 {
		for i, s := range p.sequences() {
			if s.State() == Held && len(s.gate) == 0 {
				add(func() {
					p.idles--
					s.TryEnter()
					s.mu.Lock()
					s.release(ctx, false)
					s.lapse()
					s.mu.Unlock()
					s.Leave()
				}, "sequence %d idles", i)
			}
		}
	}
	return all
}

// sequences are all there are on the session.
func (p *pool) sequences() []*Sequence {
	var all []*Sequence
	note := func(s *Sequence) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	key := sequenceKey{tokenstore.Area{}, p.rule.Name, "s"}
	for _, c := range p.conns {
		if s := c.owner.peek(key); s != nil && s.owner.Load() == c.owner {
			note(s)
		}
		note(c.s)
	}
	note(p.group.owner.peek(key))
	if k := p.group.kin[key]; k != nil {
		for _, s := range k.all {
			note(s)
		}
	}
	return all
}

func (p *pool) key() string {
	record := tokenstore.NewRecord(tokenstore.Area{}, "chat", "s")
	at, all := p.f.at(record), p.sequences()
	grants := []uint64{0, at.grant, at.storedFor}
	for _, s := range all {
		grants = append(grants, s.grant, s.seen.Grant)
	}
	for _, c := range p.conns {
		grants = append(grants, c.basis.Grant, c.basis.Stored.Grant)
	}
	slices.Sort(grants)
	grants = slices.Compact(grants)
	rank := func(grant uint64) int { return slices.Index(grants, grant) }
	place := func(s *Sequence) int { return slices.Index(all, s) }
	claim := func(owner string) int {
		return slices.IndexFunc(all, func(s *Sequence) bool { return s.Claim.Owner == owner })
	}

	var b strings.Builder
	fmt.Fprint(&b, p.lapses, p.idles, p.closes, p.group.Pooled(), p.value, p.acked, rank(at.grant), rank(at.storedFor), at.storedSeq)
	fmt.Fprint(&b, claim(p.f.holder(record).Owner), place(p.group.owner.peek(sequenceKey{tokenstore.Area{}, p.rule.Name, "s"})))
	for _, k := range p.tasks {
		fmt.Fprint(&b, "|", k.at, k.seen, k.again, k.done)
	}
	for _, c := range p.conns {
		fmt.Fprint(&b, "/", c.stage, place(c.s), c.how, rank(c.basis.Grant), rank(c.basis.Stored.Grant), slices.Index(p.tasks, c.read))
	}
	for _, s := range all {
		fmt.Fprint(&b, ";", s.owner.Load() == p.group.owner, s.listed, s.dropped, s.orphan, s.reading.Load(), s.lined.Load(), len(s.gate),
			s.state, rank(s.grant), s.seq, rank(s.seen.Grant), s.seen.Seq, s.pending, s.broken != nil, len(s.members))
		for i := range s.reads.keys {
			r := &s.reads.keys[i]
			fmt.Fprint(&b, " ", r.fresh, r.stale, r.by, r.rivals, !r.old.IsZero())
		}
		fmt.Fprint(&b, s.reads.commands, s.reads.stale)
	}
	return b.String()
}

// poolExplorer visits every state of a story.
type poolExplorer struct {
	*testing.T
	story   *pooling
	seen    map[string]bool
	ends    int
	refused int // plays that come to an end with a refusal
	lost    string
	stuck   string
}

func (e *poolExplorer) visit(choices []int) {
	if e.lost != "" || e.stuck != "" {
		return
	}
	p := newPool(e.T, e.story)
	defer func() {
		for _, s := range p.sequences() {
			if s.timer != nil {
				s.timer.Stop()
			}
		}
	}()
	for _, choice := range choices {
		next := p.actions()[choice]
		p.names = append(p.names, next.name)
		next.do()
	}
	if p.acked&^p.value != 0 {
		e.lost = strings.Join(p.names, ", ")
		return
	}
	key := p.key()
	if e.seen[key] || enough(len(e.seen)) {
		return
	}
	e.seen[key] = true
	if !slices.ContainsFunc(p.tasks, func(k *errand) bool { return !k.done }) {
		e.ends++
		if p.sent > 0 {
			e.refused++
		}
	}
	before := len(e.seen)
	for choice := range p.actions() {
		e.visit(append(slices.Clone(choices), choice))
	}
	if len(e.seen) == before && e.lost == "" && e.stalls(p, choices) {
		e.stuck = strings.Join(p.names, ", ")
	}
}

// stalls reports whether nothing that can happen changes anything, though a task is not done.
func (e *poolExplorer) stalls(p *pool, choices []int) bool {
	if !slices.ContainsFunc(p.tasks, func(k *errand) bool { return !k.done }) {
		return false
	}
	key := p.key()
	for choice := range p.actions() {
		q := newPool(e.T, e.story)
		for _, c := range choices {
			q.actions()[c].do()
		}
		q.actions()[choice].do()
		if q.key() != key {
			return false
		}
	}
	return true
}

func explorePool(t *testing.T, s *pooling) *poolExplorer {
	t.Helper()
	e := &poolExplorer{T: t, story: s, seen: map[string]bool{}}
	synctest.Test(t, func(t *testing.T) {
		e.T = t
		e.visit(nil)
	})
	if e.lost != "" {
		t.Errorf("an update is lost: %s", e.lost)
	}
	if e.stuck != "" {
		t.Errorf("nothing goes on: %s", e.stuck)
	}
	if e.ends == 0 {
		t.Error("no play comes to an end")
	}
	t.Logf("%d states", len(e.seen))
	return e
}

func TestNoInterleavingOfAPoolLosesAnAcknowledgedUpdate(t *testing.T) {
	auto := rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeLock}
	stories := map[string]*pooling{
		"of two tasks":                            {rule: auto, conns: 2, tasks: 2},
		"of two tasks and another's":              {rule: auto, conns: 2, tasks: 2, outsiders: 1},
		"whose connections close":                 {rule: auto, conns: 2, tasks: 2, closes: 1},
		"whose holds end":                         {rule: auto, conns: 2, tasks: 1, outsiders: 1, lapses: 1, idles: 1},
		"that looks":                              {rule: rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeFence}, conns: 2, tasks: 2},
		"that looks, beside another":              {rule: rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeFence}, conns: 2, tasks: 2, outsiders: 1, pooled: true},
		"that is known to be one, beside another": {rule: auto, conns: 2, tasks: 2, outsiders: 1, lapses: 1, pooled: true},
	}
	if *epic {
		stories["that is known to be one, of three tasks"] = &pooling{rule: auto, conns: 2, tasks: 3, outsiders: 1, pooled: true}
	}
	for name, s := range stories {
		t.Run(name, func(t *testing.T) { explorePool(t, s) })
	}
}

func TestOneTaskOfAPoolIsNeverRefused(t *testing.T) {
	for name, s := range map[string]*pooling{
		"alone":                       {rule: rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeLock}, conns: 3, tasks: 1, idles: 1},
		"beside another client's":     {rule: rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeLock}, conns: 2, tasks: 1, outsiders: 1},
		"over connections that close": {rule: rule.Rule{Owner: rule.OwnerAuto, Mode: rule.ModeLock}, conns: 2, tasks: 1, closes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if e := explorePool(t, s); e.refused > 0 {
				t.Errorf("%d plays end with a refusal", e.refused)
			}
		})
	}
}
