package status

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// sweepEvery is how often it is looked for turns whose end went untold, when somebody looks at all.
const sweepEvery = 10 * time.Second

// each calls f with each shard, locked, one after the other. Between two the guard has its turn.
func (c *Collector) each(now time.Time, f func(*shard)) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		if now.Sub(s.swept) >= sweepEvery {
			s.swept = now
			s.sweep(now, c.terms)
		}
		f(s)
		s.mu.Unlock()
		runtime.Gosched()
	}
}

// flush has the series know all that was counted.
func (c *Collector) flush(now time.Time) {
	c.each(now, func(s *shard) { s.tally.flush(&c.series) })
}

// Now returns how things are in sum.
func (c *Collector) Now() Now {
	now, n := c.now(), Now{LastRefusal: c.refusals.newest.Load()}
	c.each(now, func(s *shard) {
		n.Holding += s.holding
		n.Waiting += s.waiting
		s.tally.flush(&c.series)
	})
	n.Hour = sum(c.series.last(now, intervals, 1))
	n.Minute = sum(c.series.last(now, int(time.Minute/interval), 1))
	return n
}

func sum(all []figures) Figures {
	var f figures
	for i := range all {
		f.merge(&all[i])
	}
	return f.view()
}

// Series returns the last hour, oldest first, in steps of whole multiples of ten seconds.
func (c *Collector) Series(step time.Duration) []Point {
	now := c.now()
	c.flush(now)
	join := max(int(step/interval), 1)
	all := c.series.last(now, intervals-intervals%join, join)
	points := make([]Point, len(all))
	for i := range all {
		points[i] = Point{time.Unix(0, all[i].start*int64(interval)), all[i].view()}
	}
	return points
}

// Query says which of many entries are wanted.
type Query struct {
	Text   string // in the session's name, or a client's name or address; "": any
	Rule   string // "": any
	Sort   string // for Holds: age (the default), lease, waiting, session, rule or holder
	Up     bool   // the least first
	Offset int
	Limit  int
}

func (q *Query) wants(name *Name, turns ...*turn) bool {
	if q.Rule != "" && q.Rule != name.Rule {
		return false
	}
	if q.Text == "" || strings.Contains(name.Session, q.Text) {
		return true
	}
	return slices.ContainsFunc(turns, func(t *turn) bool {
		return strings.Contains(t.owner.Client, q.Text) || strings.Contains(t.owner.Name, q.Text) || strings.Contains(t.owner.Proxy, q.Text)
	})
}

// Page is a part of a list.
type Page[T any] struct {
	Total int `json:"total"` // that fit the query
	Items []T `json:"items"`
}

// top keeps the first of many, by some order.
type top[T any] struct {
	most  int
	order func(a, b T) int
	total int
	items []T
	worst *T // of most that are sorted already
}

func (t *top[T]) add(one T) {
	t.total++
	if t.worst != nil && t.order(one, *t.worst) >= 0 {
		return
	}
	t.items = append(t.items, one)
	if len(t.items) >= 2*t.most+64 {
		t.cut()
	}
}

func (t *top[T]) cut() {
	slices.SortFunc(t.items, t.order)
	t.items = t.items[:min(len(t.items), t.most)]
	if len(t.items) > 0 && len(t.items) == t.most {
		worst := t.items[t.most-1]
		t.worst = &worst
	}
}

// from returns those from one on.
func (t *top[T]) from(offset int) []T {
	t.cut()
	return t.items[min(offset, len(t.items)):]
}

// rank is what an open hold is sorted by.
type rank struct {
	number       int64 // that is sorted by, the least first
	text         string
	session      string
	grant        uint64
	id, sequence uint64
}

// Holds returns the open holds that fit the query.
func (c *Collector) Holds(q Query) Page[Hold] {
	now := c.now()
	first := top[rank]{most: q.Offset + q.Limit, order: q.order()}
	c.each(now, func(s *shard) {
		for id, known := range s.sessions {
			for _, t := range known.turns[openList] {
				if t.holds() && q.wants(&known.name, t) {
					r := rank{session: known.name.Session, grant: t.grant, id: id, sequence: t.sequence}
					q.rank(&r, known, t)
					first.add(r)
				}
			}
		}
	})
	page := Page[Hold]{Items: []Hold{}}
	for _, r := range first.from(q.Offset) {
		if h, ok := c.hold(r, now); ok {
			page.Items = append(page.Items, h)
		}
	}
	page.Total = first.total
	return page
}

// hold is a hold as it is shown, unless it has ended meanwhile.
func (c *Collector) hold(r rank, now time.Time) (Hold, bool) {
	s := &c.shards[r.id%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.sessions[r.id]
	if known == nil {
		return Hold{}, false
	}
	i := slices.IndexFunc(known.turns[openList], func(t *turn) bool { return t.sequence == r.sequence && t.grant == r.grant })
	if i < 0 {
		return Hold{}, false
	}
	t := known.turns[openList][i]
	n, _ := known.waiting()
	h := Hold{
		Session: shown(r.id, known.name), Holder: party(t.owner), Mode: t.mode, Command: t.command, Grant: t.grant, Since: t.granted,
		Age: Millis(t.lasted(now)), Waited: Millis(t.waited(now)), Reads: t.reads, Writes: t.writes, Waiting: n, Apart: t.apart, Superseded: known.superseded(t),
	}
	if t.lease > 0 {
		left := Millis(max(t.lease-now.Sub(t.renewed), 0))
		h.LeaseLeft = &left
	}
	return h, true
}

// Sorts are the words that Query.Sort knows.
var Sorts = []string{"age", "lease", "waiting", "session", "rule", "holder"}

// rank sets by what a query sorts a hold.
func (q *Query) rank(r *rank, known *session, t *turn) {
	switch q.Sort {
	case "lease":
		r.number = t.renewed.Add(t.lease).UnixNano()
	case "waiting":
		n, _ := known.waiting()
		r.number = int64(n)
	case "session":
		r.text = known.name.Session
	case "rule":
		r.text = known.name.Rule
	case "holder":
		r.text = cmp.Or(t.owner.Name, t.owner.Client)
	default:
		r.number = -t.granted.UnixNano()
	}
}

// order is how ranks are sorted. Those that are equal are in the order of their names.
func (q *Query) order() func(a, b rank) int {
	up := 1
	if !q.Up {
		up = -1
	}
	return func(a, b rank) int {
		n := cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.text, b.text))
		return cmp.Or(n*up, strings.Compare(a.session, b.session), cmp.Compare(a.grant, b.grant))
	}
}

// firstWaiters is how many of a line are named.
const firstWaiters = 5

// Queues returns the sessions that are waited for and fit the query, that with the most waiters first.
func (c *Collector) Queues(q Query) Page[Queue] {
	now := c.now()
	first := top[Queue]{most: q.Offset + q.Limit, order: func(a, b Queue) int {
		return cmp.Or(b.Waiting-a.Waiting, cmp.Compare(b.Longest, a.Longest), strings.Compare(a.Session.Session, b.Session.Session))
	}}
	c.each(now, func(s *shard) {
		if s.waiting == 0 {
			return
		}
		for _, known := range s.sessions {
			if n, since := known.waiting(); n > 0 && q.wants(&known.name, known.turns[openList]...) {
				first.add(known.queue(now, n, since))
			}
		}
	})
	return Page[Queue]{first.total, append([]Queue{}, first.from(q.Offset)...)}
}

func (s *session) queue(now time.Time, n int, since time.Time) Queue {
	q := Queue{Session: shown(s.id, s.name), Waiting: n, Longest: Millis(now.Sub(since)), First: []Waiter{}}
	if t := s.holder(); t != nil {
		holder := party(t.owner)
		holder.Grant, holder.Since = t.grant, when(t.granted)
		q.Holder = &holder
	}
	line := slices.DeleteFunc(slices.Clone(s.turns[openList]), func(t *turn) bool { return !t.waits() })
	slices.SortFunc(line, func(a, b *turn) int { return a.asked.Compare(b.asked) })
	for _, t := range line[:min(len(line), firstWaiters)] {
		q.First = append(q.First, Waiter{party(t.owner), t.command, Millis(t.waited(now))})
	}
	if last := line[len(line)-1].behind; q.Holder == nil && !unknown(last) { // whom the one who came last has found
		holder := party(last)
		q.Holder = &holder
	}
	return q
}

// when is a time that may not have come.
func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Session returns what is known of a session.
func (c *Collector) Session(id ID) (Known, bool) {
	s := &c.shards[uint64(id)%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[uint64(id)]
	if found == nil {
		return Known{}, false
	}
	k := Known{Session: shown(found.id, found.name), Turns: []Turn{}}
	var all []*turn
	for _, turns := range found.turns {
		all = append(all, turns...)
	}
	slices.SortFunc(all, func(a, b *turn) int { return b.begin().Compare(a.begin()) })
	for _, t := range all {
		k.Turns = append(k.Turns, t.view())
	}
	return k, true
}

func (t *turn) view() Turn {
	state := "read"
	switch {
	case t.waits():
		state = "waiting"
	case t.holds():
		state = "holding"
	case t.broken:
		state = "broken"
	case !t.ended.IsZero(), t.writes > 0:
		state = "ended"
	}
	return Turn{
		Who: party(t.owner), Mode: t.mode, Command: t.command, Grant: t.grant, State: state, Reason: t.why,
		Asked: when(t.asked), Granted: when(t.granted), Read: when(t.read), Reads: t.reads, Wrote: when(t.wrote), Writes: t.writes, Ended: when(t.ended),
	}
}

// Hottest returns the sessions that were waited for and refused most in the last hour, about.
func (c *Collector) Hottest(limit int) []Hot {
	now := c.now()
	oldest := now.UnixNano()/int64(hotAge) - hotAges + 1
	var all []Hot
	c.each(now, func(s *shard) {
		of := map[uint64]*Hot{}
		for i := range s.hot.ages {
			age := &s.hot.ages[i]
			if age.start < oldest {
				continue
			}
			for _, e := range age.entries {
				h := of[e.id]
				if h == nil {
					h = &Hot{Session: shown(e.id, e.name)}
					of[e.id] = h
				}
				h.Count += int(e.count)
				h.Over += int(e.over)
				h.Waits += int(e.heat.waits)
				h.Refusals += int(e.heat.refusals)
				h.Waited += Millis(e.heat.waited)
			}
		}
		for _, h := range of {
			all = append(all, *h)
		}
	})
	slices.SortFunc(all, func(a, b Hot) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(b.Waited, a.Waited), strings.Compare(a.Session.Session, b.Session.Session))
	})
	return all[:min(len(all), limit)]
}

// Refusals returns the last refusals with numbers above after, newest first, that fit the query.
func (c *Collector) Refusals(after uint64, word string, q Query) Page[Refusal] {
	page := Page[Refusal]{Items: []Refusal{}}
	for _, one := range c.refusals.since(after) {
		if word != "" && one.word != word || !q.wants(&one.name, &one.own) {
			continue
		}
		if page.Total++; page.Total > q.Offset && len(page.Items) < q.Limit {
			page.Items = append(page.Items, one.view())
		}
	}
	return page
}

// LastRefusal is the number of the newest one. It costs next to nothing.
func (c *Collector) LastRefusal() uint64 { return c.refusals.newest.Load() }

// Story returns a refusal with its story, as long as it is kept.
func (c *Collector) Story(number uint64) (Story, bool) {
	one := c.refusals.find(number)
	if one == nil {
		return Story{}, false
	}
	return one.story(), true
}

// Named is Session for a session by its names.
func (c *Collector) Named(db int, rule, session string) (Known, bool) {
	return c.Session(ID(c.id(db, rule, session)))
}
