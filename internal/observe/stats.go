package observe

import (
	"maps"
	"time"
)

// stats are what was counted of the keys of one pattern.
type stats struct {
	into *stats // those that these were merged into

	keys      int64
	reads     int64
	writes    int64 // of all kinds
	atomic    int64
	blind     int64
	sequences int64 // reads that were written
	follows   int64 // further writes of a sequence
	stale     int64
	lost      int64
	within    int64 // of those lost, by tasks of one client
	guessed   int64 // of those lost, as far as can be told
	overlaps  int64
	waited    time.Duration // that a lock would have caused
	pools     bool          // a client's writes come over other connections than its reads
	held      histogram

	commands map[string]int64
	clients  map[Client]*Activity
}

// Activity is what one client did to the keys of a pattern.
type Activity struct {
	Client
	Reads     int64 `json:"reads"`
	Writes    int64 `json:"writes"`
	Sequences int64 `json:"read_modify_writes"`
	Stale     int64 `json:"stale_writes"`
	Lost      int64 `json:"updates_lost"` // by its stale writes
}

func newStats() *stats {
	return &stats{commands: map[string]int64{}, clients: map[Client]*Activity{}}
}

// present returns what s has been merged into.
func (s *stats) present() *stats {
	for s.into != nil {
		s = s.into
	}
	return s
}

func (s *stats) command(name string) {
	if _, ok := s.commands[name]; !ok && len(s.commands) >= maxCommands {
		name = "(others)"
	}
	s.commands[name]++
}

func (s *stats) client(c Client) *Activity {
	a := s.clients[c]
	if a == nil && len(s.clients) >= maxPerPattern {
		c = others
		a = s.clients[c]
	}
	if a == nil {
		a = &Activity{Client: c}
		s.clients[c] = a
	}
	return a
}

// sequence counts a read that was written after so long, and what it overlapped with.
func (s *stats) sequence(held time.Duration, overlaps int64, waited time.Duration) {
	s.sequences++
	s.held.add(held)
	s.overlaps += overlaps
	s.waited += waited
}

// merge takes in what was counted elsewhere, and from now on will be counted here.
func (s *stats) merge(other *stats) {
	other.into = s
	s.keys += other.keys
	s.reads += other.reads
	s.writes += other.writes
	s.atomic += other.atomic
	s.blind += other.blind
	s.sequences += other.sequences
	s.follows += other.follows
	s.stale += other.stale
	s.lost += other.lost
	s.within += other.within
	s.guessed += other.guessed
	s.overlaps += other.overlaps
	s.waited += other.waited
	s.pools = s.pools || other.pools
	s.held.merge(&other.held)
	for name, n := range other.commands {
		s.command(name)
		if _, ok := s.commands[name]; !ok {
			name = "(others)"
		}
		s.commands[name] += n - 1
	}
	for _, a := range maps.All(other.clients) {
		b := s.client(a.Client)
		b.Reads += a.Reads
		b.Writes += a.Writes
		b.Sequences += a.Sequences
		b.Stale += a.Stale
		b.Lost += a.Lost
	}
}
