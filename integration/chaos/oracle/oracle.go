package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// Final is what a session has in the end, or had when it was erased.
type Final struct {
	Value string
	List  []string
	Count int64
}

// Evidence is all that is known.
type Evidence struct {
	Ops []*history.Op
	// Erased are the sessions as they were at an Erase, by its name, where that is known.
	Erased map[string]map[string]Final
	// Final are the sessions in the end; nil while the agents are at work.
	Final map[string]Final
	// Audited is when Final was read.
	Audited int64
	// Disturbed are times, from and to, in which records were lost or clocks stepped: a hold may end early in them.
	Disturbed [][2]int64
	// Stale says that a read may be answered by a primary that was replaced, and that what is granted and released may be lost with it.
	Stale bool
	// Early says that a hold may end before its time.
	Early bool
	// Pictures is the directory for porcupine's picture of a history without an order; "": none is drawn.
	Pictures string
}

// Violation is a promise that was broken.
type Violation struct {
	Promise string
	Session string
	Text    string
	Ops     []*history.Op // the shortest history that shows it
	Picture string        // of it, in HTML; "" if there is none
}

func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (session %s): %s", v.Promise, v.Session, v.Text)
	if len(v.Ops) > 0 {
		start := v.Ops[0].Call
		for _, o := range v.Ops {
			start = min(start, o.Call)
		}
		for _, o := range v.Ops {
			until := "     open"
			if o.Return > 0 {
				until = fmt.Sprintf("%9.3f", float64(o.Return-start)/1e6)
			}
			fmt.Fprintf(&b, "\n  %9.3f to %s ms  %v", float64(o.Call-start)/1e6, until, o)
		}
	}
	return b.String()
}

// Judge returns the first promise that it finds broken, or nil.
func Judge(e Evidence) *Violation {
	c := newCourt(e)
	for _, check := range []func() *Violation{c.refusals, c.forks, c.lists, c.counters, c.grants, c.exclusion} {
		if v := check(); v != nil {
			return v
		}
	}
	return c.linear()
}

// court is the evidence, sorted.
type court struct {
	Evidence
	sessions map[string][]*history.Op // by call
	writers  map[string]*history.Op   // by what they write
	seen     map[string]int64         // values and elements that somebody has seen, and when at the latest that was first
}

func newCourt(e Evidence) *court {
	c := &court{Evidence: e, sessions: map[string][]*history.Op{}, writers: map[string]*history.Op{}, seen: map[string]int64{}}
	for _, o := range e.Ops {
		if o.Kind == history.Erase {
			continue
		}
		c.sessions[o.Session] = append(c.sessions[o.Session], o)
		if o.Value != "" {
			c.writers[o.Value] = o
		}
		switch {
		case o.Fate != history.Done:
		case e.Stale && (o.Kind == history.Update || o.Kind == history.GrantUpdate): // what a primary that was replaced has answered, nobody else may ever see
			c.see(o.Was, o.Return)
		case !e.Stale && (o.Kind == history.Read || o.Kind == history.GrantRead):
			c.see(o.Got, o.Return)
		}
	}
	for session := range c.sessions {
		for _, o := range e.Ops {
			if o.Kind == history.Erase { // of all sessions
				c.sessions[session] = append(c.sessions[session], o)
			}
		}
		slices.SortStableFunc(c.sessions[session], func(a, b *history.Op) int { return int(a.Call - b.Call) })
	}
	for name, sessions := range e.Erased {
		for _, f := range sessions {
			c.saw(f, c.erasure(name).Return)
		}
	}
	for _, f := range e.Final {
		c.saw(f, e.Audited)
	}
	c.trace()
	return c
}

// trace has what went back to something count as having seen it.
func (c *court) trace() {
	for again := true; again; {
		again = false
		for _, o := range c.Ops {
			at, seen := c.seen[o.Value]
			if o.Kind != history.Update && o.Kind != history.GrantUpdate || o.Fate == history.Done || !seen {
				continue
			}
			if first, ok := c.seen[o.Was]; o.Was != "" && (!ok || at < first) {
				c.see(o.Was, at)
				again = true
			}
		}
	}
}

func (c *court) saw(f Final, at int64) {
	c.see(f.Value, at)
	for _, element := range f.List {
		c.see(element, at)
	}
}

func (c *court) see(value string, at int64) {
	if first, ok := c.seen[value]; value != "" && (!ok || at < first) {
		c.seen[value] = at
	}
}

func (c *court) erasure(name string) *history.Op {
	for _, o := range c.Ops {
		if o.Kind == history.Erase && o.Name() == name {
			return o
		}
	}
	return &history.Op{}
}

// effective reports whether an op has taken effect.
func (c *court) effective(o *history.Op) bool {
	if o.Fate == history.Done {
		return true
	}
	_, seen := c.seen[o.Value]
	return seen && o.Value != "" && o.Fate != history.Refused
}

// names are the sessions, sorted.
func (c *court) names() []string { return slices.Sorted(maps.Keys(c.sessions)) }

// erasures of a session, in order.
func (c *court) erasures(session string) (all []*history.Op) {
	for _, o := range c.sessions[session] {
		if o.Kind == history.Erase {
			all = append(all, o)
		}
	}
	return all
}

// age is the time between two erasures.
type age struct {
	from, until int64 // the erasures' own time is in neither
	began, over int64 // … and is in both
	had         *Final
}

const forever = 1<<63 - 1

// ages of a session, with what it had at the end of each where that is known.
func (c *court) ages(session string) []age {
	ages := []age{{until: forever, over: forever}}
	for _, e := range c.erasures(session) {
		last := &ages[len(ages)-1]
		last.until, last.over = e.Call, e.Return
		if had, ok := c.Erased[e.Name()][session]; ok {
			last.had = &had
		}
		ages = append(ages, age{from: e.Return, began: e.Call, until: forever, over: forever})
	}
	if had, ok := c.Final[session]; ok {
		ages[len(ages)-1].had = &had
	}
	return ages
}

// within reports whether an op has taken effect in an age, if it has at all.
func (a age) within(o *history.Op) bool { return o.Call > a.from && o.Return > 0 && o.Return < a.until }

// apart reports whether an op can't have taken effect in an age.
func (a age) apart(o *history.Op) bool {
	return o.Call > a.over || o.Fate == history.Done && o.Return < a.began
}
