package status

import (
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// lost are the reasons of refusals after which the sequence holds nothing.
var lost = event.BreakReasons()

// shard has the sessions with one remainder of their ids.
type shard struct {
	collector *Collector

	mu       sync.Mutex
	sessions map[uint64]*session
	turns    map[uint64]*turn // that are listed, by sequence: of each the newest
	holding  int              // open turns that hold
	waiting  int              // and that wait
	past     []*turn
	next     int // place in past that is taken next
	hot      hot
	tally    tally
	swept    time.Time

	_ [64]byte // so that two shards' locks are not on one line of the cache
}

func (s *shard) init(c *Collector) {
	s.collector = c
	s.sessions, s.turns = map[uint64]*session{}, map[uint64]*turn{}
}

// take notes an event.
func (s *shard) take(e *event.Event, id uint64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.at(at, &s.collector.series)
	switch e.Kind {
	case event.Wait:
		s.change(s.begin(e, id), func(t *turn) { t.asked, t.behind = at, kept(e.Other) })
		s.hot.count(id, e, at, heat{waits: 1})
	case event.Quit:
		s.quit(e, id, at)
	case event.Grant:
		s.grant(e, id, at)
	case event.Read:
		s.change(s.begin(e, id), func(t *turn) {
			if t.reads++; t.read.IsZero() {
				t.read = at
			}
		})
	case event.Commit:
		s.tally.now.commits++
		s.change(s.begin(e, id), func(t *turn) {
			t.writes++
			t.wrote, t.write = at, e.Command
			t.hear(e.Grant)
		})
	case event.Renew:
		if t := s.of(e, id); t != nil && e.Reason == "" {
			t.renewed, t.lease = at, e.Lease
		}
	case event.Break, event.Release:
		s.release(e, id, at)
	case event.Refuse, event.WouldRefuse:
		s.refuse(e, id, at)
	}
}

// quit notes that a command left its line.
func (s *shard) quit(e *event.Event, id uint64, at time.Time) {
	t := s.of(e, id)
	if t == nil || !t.waits() {
		return
	}
	s.tally.waited(t.waited(at))
	s.hot.count(id, e, at, heat{waited: t.waited(at)})
	s.change(t, func(t *turn) { t.ended, t.why = at, e.Reason })
}

// grant notes that a sequence was granted its session.
func (s *shard) grant(e *event.Event, id uint64, at time.Time) {
	s.tally.now.grants++
	t := s.begin(e, id)
	var waits uint32
	s.change(t, func(t *turn) {
		if e.Took > 0 {
			if t.asked.IsZero() {
				waits = 1
			}
			t.asked = at.Add(-e.Took)
		}
		if e.Other.Owner != "" || e.Other.Proxy != "" {
			t.behind = kept(e.Other)
		}
		t.granted, t.renewed, t.lease = at, at, e.Lease
		t.hear(e.Grant)
	})
	if waited := t.waited(at); waited > 0 {
		s.tally.waited(waited)
		s.hot.count(id, e, at, heat{waits: waits, waited: waited})
	}
}

// release notes that a hold is over, or lost.
func (s *shard) release(e *event.Event, id uint64, at time.Time) {
	t := s.of(e, id)
	if e.Kind == event.Break && (t == nil || t.why != broken) {
		s.tally.now.breaks++
	}
	switch {
	case t == nil || !t.ended.IsZero():
		return
	case t.holds():
		s.tally.held(t.lasted(at))
	}
	s.change(t, func(t *turn) { t.ended, t.broken, t.why = at, e.Kind == event.Break, e.Reason })
}

// refuse notes a refusal and its story.
func (s *shard) refuse(e *event.Event, id uint64, at time.Time) {
	t := s.of(e, id)
	own := turn{sequence: e.Sequence, apart: e.Apart, owner: kept(e.Owner), mode: e.Mode, command: e.Command, grant: e.Grant}
	var others []turn
	if known := s.sessions[id]; known != nil {
		known.newest = max(known.newest, e.Newest, e.Other.Grant)
		others = known.against(t, at)
	}
	if t != nil {
		own = *t
	}
	own.session = nil
	s.collector.refusals.add(e, ID(id), at, own, others)
	s.tally.refused(e)
	if e.Kind == event.WouldRefuse {
		return
	}
	h := heat{refusals: 1}
	switch {
	case t == nil || !t.ended.IsZero():
	case t.waits():
		h.waited = t.waited(at)
		s.tally.waited(h.waited)
		s.change(t, func(t *turn) { t.ended, t.why = at, e.Error })
	case e.Error == event.Fenced && slices.Contains(lost, e.Reason):
		if t.holds() {
			s.tally.held(t.lasted(at))
		}
		s.change(t, func(t *turn) { t.ended, t.broken, t.why = at, true, e.Reason })
	}
	s.hot.count(id, e, at, h)
}

// of returns the turn of an event, nil if nothing was heard of it before.
func (s *shard) of(e *event.Event, id uint64) *turn {
	if e.Sequence == 0 && e.Apart && e.Grant > 0 {
		return s.sessions[id].granted(e.Grant)
	}
	if t := s.turns[e.Sequence]; t != nil && t.session.id == id {
		return t
	}
	return nil
}

// begin is of, or begins a turn if there is none that goes on.
func (s *shard) begin(e *event.Event, id uint64) *turn {
	known := s.sessions[id]
	if known == nil {
		known = &session{id: id, name: Name{DB: e.DB, Slot: e.Slot, Rule: e.Rule}}
		known.name.Session, known.name.Clipped = clip(e.Session, sessionMost)
		s.sessions[id] = known
	}
	if t := s.of(e, id); t != nil && t.ended.IsZero() {
		return t
	}
	return &turn{session: known, place: -1, sequence: e.Sequence, apart: e.Apart, owner: kept(e.Owner), mode: e.Mode, command: e.Command}
}

// change changes a turn, and moves it to where it belongs then.
func (s *shard) change(t *turn, how func(*turn)) {
	s.count(t, -1)
	how(t)
	s.move(t, t.belongs())
	s.count(t, 1)
	if t.session.empty() {
		delete(s.sessions, t.session.id)
	}
}

// count counts an open turn that is listed (1), or no more (-1).
func (s *shard) count(t *turn, n int) {
	switch {
	case t.list != openList:
	case t.holds():
		s.holding += n
	case t.waits():
		s.waiting += n
	}
}

// move moves a turn into another list, if there is room.
func (s *shard) move(t *turn, to list) {
	known := t.session
	if t.list == to {
		return
	}
	if to == openList && s.holding+s.waiting >= openMost {
		to = noList
	}
	known.turns[t.list] = without(known.turns[t.list], t)
	t.list = to
	if to == noList {
		s.forget(t)
		return
	}
	if t.sequence != 0 {
		s.turns[t.sequence] = t
	}
	known.turns[to] = append(known.turns[to], t)
	if to == openList {
		s.unplace(t)
		return
	}
	s.placeAmongPast(t)
	if turns := known.turns[to]; len(turns) > most[to] {
		s.drop(turns[0])
	}
}

// placeAmongPast has the turn outlast so many others, and the oldest of all go.
func (s *shard) placeAmongPast(t *turn) {
	if t.place >= 0 {
		return
	}
	if s.past == nil {
		s.past = make([]*turn, pastMost)
	}
	if oldest := s.past[s.next]; oldest != nil {
		s.drop(oldest)
	}
	s.past[s.next], t.place = t, s.next
	s.next = (s.next + 1) % pastMost
}

func (s *shard) unplace(t *turn) {
	if t.place >= 0 {
		s.past[t.place], t.place = nil, -1
	}
}

// forget takes a turn out of all but its session's list.
func (s *shard) forget(t *turn) {
	s.unplace(t)
	if s.turns[t.sequence] == t {
		delete(s.turns, t.sequence)
	}
}

// drop lets an ended turn go.
func (s *shard) drop(t *turn) {
	s.forget(t)
	t.session.turns[t.list] = without(t.session.turns[t.list], t)
	t.list = noList
	if t.session.empty() {
		delete(s.sessions, t.session.id)
	}
}

// sweep ends turns of which nothing was heard for so long that their end must have gone untold. Called with mu held.
func (s *shard) sweep(now time.Time, terms func(rule string) Terms) {
	var stale []*turn
	for _, known := range s.sessions {
		if len(known.turns[openList]) == 0 {
			continue
		}
		limit := terms(known.name.Rule)
		for _, t := range known.turns[openList] {
			if t.overdue(now, limit) {
				stale = append(stale, t)
			}
		}
	}
	for _, t := range stale {
		s.change(t, func(t *turn) { t.ended, t.why = now, "unheard" })
	}
}
