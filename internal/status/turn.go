package status

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// turn is one sequence's time on one session. Its times are zero for what has not happened.
type turn struct {
	session *session
	list    list
	place   int // among the shard's past turns, -1 while it is none

	sequence uint64
	apart    bool
	owner    event.Party
	mode     string
	command  string // that began it
	grant    uint64
	behind   event.Party // whom it waited for

	asked   time.Time // got in line
	granted time.Time
	renewed time.Time // its lease was, last
	lease   time.Duration
	read    time.Time // first
	reads   int
	wrote   time.Time // last
	writes  int
	write   string // the command of the last
	ended   time.Time
	broken  bool
	why     string // it ended
}

// waits reports whether the turn stands in line.
func (t *turn) waits() bool { return t.ended.IsZero() && t.granted.IsZero() && !t.asked.IsZero() }

// holds reports whether the turn holds, for all that was heard of it.
func (t *turn) holds() bool { return t.ended.IsZero() && !t.granted.IsZero() }

// hear takes in the turn's grant.
func (t *turn) hear(grant uint64) {
	if grant > t.grant {
		t.grant = grant
	}
	t.session.newest = max(t.session.newest, grant)
}

// belongs says which list the turn belongs to.
func (t *turn) belongs() list {
	switch {
	case t.waits() || t.holds():
		return openList
	case t.broken || t.reads > 0 && t.writes == 0:
		return looseList
	default:
		return pastList
	}
}

// slack is how long after its time an open turn counts as over.
const slack = 30 * time.Second

// overdue reports whether the turn must be over by now, though nothing was heard of its end.
func (t *turn) overdue(now time.Time, limit Terms) bool {
	switch {
	case t.apart && t.lease > 0 && t.holds(): // nobody is told when its lease is over
		return now.Sub(t.renewed) > t.lease
	case limit == Terms{}:
		return false
	case t.waits():
		return now.Sub(t.asked) > limit.Wait+slack
	default:
		return now.Sub(t.renewed) > limit.Lease+slack && now.Sub(t.granted) > limit.MaxHold+slack
	}
}

// waited is how long it stood in line until then.
func (t *turn) waited(now time.Time) time.Duration {
	switch {
	case t.asked.IsZero():
		return 0
	case !t.granted.IsZero():
		now = t.granted
	case !t.ended.IsZero():
		now = t.ended
	}
	return max(now.Sub(t.asked), 0)
}

// inVain is how long it stood in line for nothing, 0 if it was granted or did not wait.
func (t *turn) inVain(now time.Time) time.Duration {
	if !t.granted.IsZero() {
		return 0
	}
	return t.waited(now)
}

// lasted is how long it has held.
func (t *turn) lasted(now time.Time) time.Duration {
	if t.granted.IsZero() {
		return 0
	}
	if !t.ended.IsZero() {
		now = t.ended
	}
	return max(now.Sub(t.granted), 0)
}

// begin is the first that was heard of it.
func (t *turn) begin() time.Time {
	first := t.ended
	for _, at := range []time.Time{t.wrote, t.granted, t.read, t.asked} {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// kept is a party whose names pin little memory.
func kept(p event.Party) event.Party {
	p.Proxy, _ = clip(p.Proxy, nameMost)
	p.Client, _ = clip(p.Client, nameMost)
	p.Name, _ = clip(p.Name, nameMost)
	return p
}
