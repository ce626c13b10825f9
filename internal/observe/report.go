package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Report is what was found. Times are in milliseconds.
type Report struct {
	Seconds  float64   `json:"seconds"` // that were observed
	Lost     int64     `json:"updates_lost"`
	Patterns []Pattern `json:"patterns"` // those that lose most first
	Rules    []Rule    `json:"rules"`
	YAML     string    `json:"yaml"` // the rules, to be pasted under "rules:"
	Unsure   int64     `json:"order_unsure"`
	Scripts  int64     `json:"script_calls"`
	Unread   int64     `json:"keys_not_told"`
	Left     left      `json:"left_out"`
	Rest     int64     `json:"keys_without_pattern"`
}

// Pattern is what was found of the keys of one pattern, in which * is what differs.
type Pattern struct {
	Pattern   string           `json:"pattern"`
	Keys      int64            `json:"keys"` // counted again when they were forgotten
	Reads     int64            `json:"reads"`
	Writes    int64            `json:"writes"`
	Atomic    int64            `json:"atomic_updates"` // among the writes
	Blind     int64            `json:"blind_writes"`   // among the writes
	Sequences int64            `json:"read_modify_writes"`
	Further   int64            `json:"further_writes"` // that followed in a sequence
	Stale     int64            `json:"stale_writes"`
	Lost      int64            `json:"updates_lost"`
	Within    int64            `json:"updates_lost_within_client"` // among those lost
	Guessed   int64            `json:"updates_lost_guessed"`       // among those lost
	Overlaps  int64            `json:"overlaps"`
	Waited    float64          `json:"lock_wait_ms"` // that a lock would have caused, in all
	HeldP50   float64          `json:"held_p50_ms"`
	HeldP99   float64          `json:"held_p99_ms"`
	Pools     bool             `json:"pooled"`
	Commands  map[string]int64 `json:"commands"`
	Clients   []Activity       `json:"clients"`

	labels []string
	held   time.Duration // the 99th percentile
}

// Report says what was found so far.
func (o *Observer) Report() *Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tree.settle()
	r := &Report{
		Seconds: time.Since(o.began).Seconds(), Patterns: []Pattern{}, Rules: []Rule{},
		Unsure: o.unsure, Scripts: o.script, Unread: o.unread, Left: o.left,
	}
	for labels, s := range o.tree.all {
		r.Patterns = append(r.Patterns, s.pattern(labels))
	}
	if rest := o.tree.rest; rest != nil {
		r.Rest = rest.keys
		p := rest.pattern([]string{variable})
		p.Pattern, p.labels = "(keys without a pattern)", nil
		r.Patterns = append(r.Patterns, p)
	}
	for i := range r.Patterns {
		r.Lost += r.Patterns[i].Lost
	}
	slices.SortStableFunc(r.Patterns, func(a, b Pattern) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Sequences, a.Sequences), cmp.Compare(b.Reads+b.Writes, a.Reads+a.Writes))
	})
	r.Rules = propose(r.Patterns)
	r.YAML = yaml(r.Rules)
	return r
}

func (s *stats) pattern(labels []string) Pattern {
	p := Pattern{
		Pattern: text(labels), Keys: s.keys, Reads: s.reads, Writes: s.writes, Atomic: s.atomic, Blind: s.blind,
		Sequences: s.sequences, Further: s.follows, Stale: s.stale, Lost: s.lost, Within: s.within, Guessed: s.guessed,
		Overlaps: s.overlaps, Waited: milliseconds(s.waited), Pools: s.pools, Commands: map[string]int64{},
		HeldP50: milliseconds(s.held.quantile(.5)), HeldP99: milliseconds(s.held.quantile(.99)),
		labels: labels, held: s.held.quantile(.99),
	}
	for name, n := range s.commands {
		p.Commands[name] = n
	}
	for _, a := range s.clients {
		p.Clients = append(p.Clients, *a)
	}
	slices.SortFunc(p.Clients, func(a, b Activity) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Sequences, a.Sequences), cmp.Compare(b.Reads+b.Writes, a.Reads+a.Writes),
			cmp.Compare(a.Client.String(), b.Client.String()))
	})
	return p
}

// text is a pattern as people read it.
func text(labels []string) string {
	return strings.ReplaceAll(strings.Join(labels, ""), variable, "*")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
