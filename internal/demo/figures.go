package demo

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/observe"
)

// Figures are what was counted in one race.
type Figures struct {
	Acknowledged int           // updates whose write was answered with OK
	Kept         int           // acknowledged updates that are in the final value
	Lost         int           // acknowledged updates that are not
	Entries      int           // entries in the final value, whoever made them
	Refused      int           // stale writes that were refused with FENCED
	Locked       int           // commands that waited in vain and were refused with LOCKED
	LongestWait  time.Duration // of a read for its answer
	Elapsed      time.Duration // from the first agent's start to the last one's end
}

// Result is what was counted in a demo.
type Result struct {
	Straight Figures // straight at Redis
	Through  Figures // through fence-proxy

	Observed *observe.Report // of the first race; nil unless it was observed
}

// count adds up what the agents counted and compares it with the final value.
func count(agents []*agent, final []string, elapsed time.Duration) Figures {
	f := Figures{Entries: len(final), Elapsed: elapsed}
	kept := make(map[string]bool, len(final))
	for _, entry := range final {
		kept[entry] = true
	}
	for _, a := range agents {
		f.Acknowledged += len(a.acknowledged)
		f.Refused += a.refused
		f.Locked += a.locked
		f.LongestWait = max(f.LongestWait, a.longest)
		for _, entry := range a.acknowledged {
			if kept[entry] {
				f.Kept++
			} else {
				f.Lost++
			}
		}
	}
	return f
}
