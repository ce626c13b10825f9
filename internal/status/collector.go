package status

import (
	"hash/maphash"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

const (
	shardCount = 64
	// openMost and pastMost are how many turns a shard keeps.
	openMost = 20480 / shardCount
	pastMost = 16384 / shardCount
)

// Terms are what a rule says of times.
type Terms struct {
	Lease, MaxHold, Wait time.Duration
}

// Collector keeps what the guard has told of. It is an event.Sink, and safe for concurrent use.
type Collector struct {
	// terms returns those of a rule, as it is now; zero if there is none.
	terms    func(rule string) Terms
	now      func() time.Time
	seed     maphash.Seed
	shards   [shardCount]shard
	series   series
	refusals refusals
}

// New returns an empty collector. terms is asked for a rule's times when somebody looks, never on the guard's path.
func New(terms func(rule string) Terms) *Collector {
	c := &Collector{terms: terms, now: time.Now, seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].init(c)
	}
	return c
}

// Event implements event.Sink.
func (c *Collector) Event(e *event.Event) {
	at := e.At
	if at.IsZero() {
		at = c.now()
	}
	id := c.id(e.DB, e.Rule, e.Session)
	c.shards[id%shardCount].take(e, id, at)
}

// Broken takes in that a grant's hold was broken at the store, of which its holder hears later.
func (c *Collector) Broken(n Name, grant uint64) {
	id := c.id(n.DB, n.Rule, n.Session)
	s := &c.shards[id%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.sessions[id].granted(grant); t != nil {
		now := c.now()
		s.tally.at(now, &c.series)
		s.tally.now.breaks++
		s.tally.held(t.lasted(now))
		s.change(t, func(t *turn) { t.ended, t.broken, t.why = now, true, broken })
	}
}

// broken is why a hold has ended that somebody has broken.
const broken = "broken"

// id names a session for as long as the process lives.
func (c *Collector) id(db int, rule, session string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.WriteString(rule)
	_ = h.WriteByte(byte(db))
	_, _ = h.WriteString(session)
	return h.Sum64()
}

// Name is a session by its names.
type Name struct {
	DB            int
	Slot          string // in a cluster: one of those that its keys are in
	Rule, Session string
	Clipped       bool // Session is not all of it
}

// Find returns the session of an ID that was shown, if it is still known.
func (c *Collector) Find(id ID) (Name, bool) {
	s := &c.shards[uint64(id)%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[uint64(id)]
	if found == nil {
		return Name{}, false
	}
	return found.name, true
}
